// The tabs beside the editor. Each makes a command of the compiler from its form, and shows the result; the command is
// shown above it, as one types it in a shell.

import uPlot from "uplot";
import { comment, shown, sliders, split, type Slider } from "./arguments";
import type { Files } from "./compiler";
import { choice, field, make, options, pictureUrl } from "./dom";
import { PROGRAM } from "./slang";
import { runOnDevice, type Content, type Launch } from "./webgpu";
import type { Commands, Progress, Result } from "./workers";

/** What tabs share. */
export interface Shared {
  commands: Commands;
  /** The program's text. */
  text(): string;
  /** The program, and the files beside it. */
  files(): Files;
}

/** A tab. */
export abstract class Panel {
  abstract readonly name: string;
  readonly element = make("section", { className: "panel" });
  protected readonly form = make("form");
  protected readonly command = make("code", { className: "command" });
  protected readonly output = make("pre", { className: "output" });
  protected readonly pictures = make("div", { className: "pictures" });
  private readonly begin = make("button", { type: "submit", textContent: "Run", className: "begin" });
  private readonly end = make("button", { type: "button", textContent: "Stop", disabled: true });
  private readonly seconds = make("input", { type: "number", value: "60", min: "1", max: "3600", title: "seconds after which it is stopped" });

  constructor(protected readonly shared: Shared) {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
    this.end.addEventListener("click", () => this.shared.commands.stop("you have stopped it"));
  }

  /** Puts the parts together; `verb` is on the button. */
  protected build(verb: string, controls: HTMLElement[], ...more: HTMLElement[]): void {
    this.begin.textContent = verb;
    this.form.append(...controls, make("div", { className: "buttons" }, this.begin, this.end, field("for at most (s)", this.seconds)));
    this.element.append(this.form, this.command, ...more, this.pictures, this.output);
  }

  /** The arguments of the command. */
  protected abstract args(): string[];

  /** Called when the program has changed. */
  update(_: string, __: string[]): void {}

  /** Runs the command of the form. */
  async run(): Promise<void> {
    await this.start(this.args());
  }

  /** Runs a command and shows its output. */
  protected async start(args: string[], watch?: Progress["watch"]): Promise<Result> {
    this.command.textContent = shown(args);
    this.output.replaceChildren();
    this.output.classList.remove("failed");
    [this.begin.disabled, this.end.disabled] = [true, false];
    const most = Math.max(1, Number(this.seconds.value) || 60);
    const result = await this.shared.commands.run(args, this.shared.files(), most, {
      text: (stream, text) => this.output.append(make("span", { className: stream, textContent: text })),
      ...(watch && { watch }),
    });
    [this.begin.disabled, this.end.disabled] = [false, true];
    if (result.stopped) this.output.append(make("span", { className: "err", textContent: `stopped: ${result.stopped}\n` }));
    this.output.classList.toggle("failed", result.status !== 0);
    this.output.append(make("span", { className: "time", textContent: `${(1000 * result.seconds).toFixed(0)} ms` }));
    this.show(result.written);
    return result;
  }

  /** What the last command has printed. */
  protected said(): string {
    return [...this.output.querySelectorAll(".out")].map((span) => span.textContent).join("");
  }

  /** Shows the pictures that a command has written, and offers its other files. */
  protected show(written: Files): void {
    // A fit's loss is shown while it runs.
    const shown = Object.entries(written).filter(([path]) => !path.startsWith("watch/") && !path.endsWith("-loss.png"));
    this.pictures.replaceChildren(
      ...shown.map(([path, bytes]) => {
        const url = pictureUrl(`${this.name}/${path}`, bytes, path.endsWith(".png") ? "image/png" : "application/octet-stream");
        const name = path.split("/").pop() ?? path;
        const link = make("a", { href: url, download: name, textContent: name });
        const picture = path.endsWith(".png") ? [make("img", { src: url, alt: name })] : [];
        return make("figure", {}, ...picture, make("figcaption", {}, link));
      }),
    );
  }
}

/** A field for arguments that the program's comments can give. */
class Arguments {
  readonly input = make("input", { type: "text", spellcheck: false, className: "arguments" });
  private given: string | undefined;

  constructor(private readonly name: string) {}

  /** Takes the arguments of the program's comments when these change. Returns true if they do. */
  update(text: string): boolean {
    const given = comment(text, this.name);
    const isOther = given !== this.given;
    if (isOther) this.input.value = given;
    this.given = given;
    return isOther;
  }

  get words(): string[] {
    return split(this.input.value);
  }
}

/** Runs a kernel. */
export class RunPanel extends Panel {
  readonly name = "Run";
  private readonly arguments = new Arguments("run");
  private readonly backend = choice(["wasm", "interp", "webgpu"]);
  private readonly sliders = make("div", { className: "sliders" });
  private shown: Slider[] = [];
  private again = false;

  constructor(shared: Shared) {
    super(shared);
    this.backend.title = "wasm: compiled to WebAssembly in lanes; interp: the reference interpreter; webgpu: WGSL on the graphics processor";
    this.build("Run", [field("arguments", this.arguments.input), field("backend", this.backend)], this.sliders);
  }

  override update(text: string): void {
    // Another program begins with what is fast.
    if (this.arguments.update(text)) this.backend.value = "wasm";
    const wanted = sliders(text);
    if (JSON.stringify(wanted) === JSON.stringify(this.shown)) return;
    this.shown = wanted;
    this.sliders.replaceChildren(
      ...wanted.map(({ name, from, to, start }) => {
        const value = make("output", { textContent: String(start) });
        const input = make("input", { type: "range", min: String(from), max: String(to), step: "any", value: String(start), name });
        input.addEventListener("input", () => {
          value.textContent = Number(input.value).toPrecision(3);
          void this.rerun();
        });
        return field(name, make("span", {}, input, value));
      }),
    );
  }

  /** Runs again, once what runs has ended. */
  private async rerun(): Promise<void> {
    if (this.again) return;
    while (this.shared.commands.isRunning) {
      this.again = true;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    this.again = false;
    await this.run();
  }

  override async run(): Promise<void> {
    if (this.backend.value !== "webgpu") return super.run();
    const launch = this.launch();
    const chosen = launch.entry === undefined ? [] : ["--entry", launch.entry];
    const reflection = await this.start(["emit", PROGRAM, "--target", "reflection", ...chosen]);
    const reflected = this.said();
    if (reflection.status !== 0) return;
    const emitted = await this.start(["emit", PROGRAM, "--target", "wgsl", ...chosen]);
    const wgsl = this.said();
    if (emitted.status !== 0) return;
    const begin = performance.now();
    this.output.replaceChildren();
    this.pictures.replaceChildren();
    try {
      const contents = await runOnDevice(wgsl, JSON.parse(reflected), launch);
      for (const content of contents) {
        if (content.shape && content.shape.length === 3) this.pictures.append(drawn(content));
        else this.output.append(`${content.name}: ${content.numbers.map((x) => +x.toPrecision(8)).join(" ")}\n`);
      }
    } catch (error) {
      this.output.classList.add("failed");
      this.output.append(make("span", { className: "err", textContent: `error: ${error instanceof Error ? error.message : String(error)}\n` }));
    }
    this.output.append(make("span", { className: "time", textContent: `${(performance.now() - begin).toFixed(0)} ms on the graphics processor` }));
  }

  /** The arguments, for a graphics processor. */
  private launch(): Launch {
    const words = this.words();
    const after = (option: string): string[] => words.flatMap((word, k) => (word === option ? [words[k + 1] ?? ""] : []));
    const [x = 1, y = 1, z = 1] = (after("--groups").at(-1) ?? "").split(",").filter(Boolean).map(Number);
    const binds = after("--bind").map((bind): [string, string] => {
      const at = bind.indexOf("=");
      return [bind.slice(0, at), bind.slice(at + 1)];
    });
    return { entry: after("--entry").at(-1), groups: [x, y, z], binds: new Map(binds) };
  }

  private words(): string[] {
    const inputs = [...this.sliders.querySelectorAll("input")];
    return [...this.arguments.words, ...inputs.flatMap((input) => ["--bind", `${input.name}=${input.value}`])];
  }

  protected override args(): string[] {
    const backend = this.backend.value === "wasm" ? [] : ["--backend", this.backend.value];
    return ["run", PROGRAM, ...backend, ...this.words()];
  }
}

/** A picture of a buffer of the shape `[height, width, channels]`, numbers from 0 to 1. */
function drawn({ name, numbers, shape }: Content): HTMLElement {
  const [height = 1, width = 1] = shape ?? [];
  const channels = numbers.length / (width * height);
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let k = 0; k < 4; k++) {
      const value = k === 3 && channels < 4 ? 1 : (numbers[pixel * channels + Math.min(k, channels - 1)] ?? 0);
      image.data[4 * pixel + k] = Math.round(255 * Math.min(1, Math.max(0, value)));
    }
  }
  const canvas = make("canvas", { width, height });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return make("figure", {}, canvas, make("figcaption", { textContent: name }));
}

/** A tab for one of the program's differentiable functions. */
abstract class FunctionPanel extends Panel {
  protected readonly function = choice([]);

  override update(text: string, functions: string[]): void {
    options(this.function, functions);
    this.changed(text);
  }

  protected changed(_: string): void {}
}

/** Computes derivatives at a point. */
export class GradientPanel extends FunctionPanel {
  readonly name = "Gradient";
  private readonly point = new Arguments("grad");
  private readonly mode = choice(["reverse", "forward", "hessian"]);

  constructor(shared: Shared) {
    super(shared);
    this.point.input.placeholder = "x=1.5,y=[1,2,3]";
    this.build("Differentiate", [field("function", this.function), field("at", this.point.input), field("mode", this.mode)]);
  }

  protected override changed(text: string): void {
    this.point.update(text);
  }

  protected override args(): string[] {
    const at = this.point.input.value.trim();
    const point = at.startsWith("--") ? this.point.words : at ? ["--at", at] : [];
    return ["grad", PROGRAM, this.function.value, "--mode", this.mode.value, ...point];
  }
}

/** Compares derivatives with finite differences. */
export class CheckPanel extends FunctionPanel {
  readonly name = "Check";
  private readonly arguments = new Arguments("gradcheck");

  constructor(shared: Shared) {
    super(shared);
    this.arguments.input.placeholder = "--points 5 --range=-2,2";
    this.build("Check", [field("function", this.function), field("arguments", this.arguments.input)]);
  }

  protected override changed(text: string): void {
    this.arguments.update(text);
  }

  protected override args(): string[] {
    return ["gradcheck", PROGRAM, this.function.value, ...this.arguments.words];
  }
}

/** Shows the derivative as source. */
export class DerivePanel extends FunctionPanel {
  readonly name = "Derivative";
  private readonly mode = choice(["bwd", "fwd", "apply"]);

  constructor(shared: Shared) {
    super(shared);
    this.build("Derive", [field("function", this.function), field("mode", this.mode)]);
  }

  protected override args(): string[] {
    return ["derive", PROGRAM, this.function.value, "--mode", this.mode.value];
  }
}

/** Shows the IR after two passes side by side. */
export class PassesPanel extends FunctionPanel {
  readonly name = "Passes";
  private readonly columns = ["linearize", "transpose"].map((first) => ({
    first,
    select: choice([]),
    title: make("p"),
    text: make("pre", { className: "output" }),
  }));
  private sections: { title: string; meaning: string; body: string }[] = [];

  constructor(shared: Shared) {
    super(shared);
    const columns = this.columns.map(({ select, title, text }) => make("div", {}, select, title, text));
    this.build("Explain", [field("function", this.function)], make("div", { className: "columns" }, ...columns));
    this.columns.forEach((column) => column.select.addEventListener("change", () => this.fill()));
  }

  protected override args(): string[] {
    return ["explain", PROGRAM, this.function.value];
  }

  override async run(): Promise<void> {
    const result = await this.start(this.args());
    if (result.status !== 0) return;
    this.sections = this.said().split(/^──── /m).slice(1).map((section) => {
      const [head = "", ...body] = section.split("\n");
      const [title = "", ...meaning] = head.split(": ");
      return { title, meaning: meaning.join(": "), body: body.join("\n").trim() };
    });
    this.output.querySelectorAll(".out").forEach((span) => span.remove());
    for (const column of this.columns) {
      const isFirst = column.select.options.length === 0;
      options(column.select, this.sections.map((section) => section.title));
      if (isFirst) column.select.value = column.first;
    }
    this.fill();
  }

  private fill(): void {
    for (const { select, title, text } of this.columns) {
      const section = this.sections.find((section) => section.title === select.value);
      title.textContent = section?.meaning ?? "";
      text.textContent = section?.body ?? "";
    }
  }
}

/** Shows the program in other languages, and after each stage of the compiler. */
export class CodePanel extends Panel {
  readonly name = "Code";
  private static readonly TARGETS = ["wgsl", "msl", "hlsl", "glsl", "spirv", "wasm", "reflection"];
  private static readonly STAGES = ["ast", "ir", "linearize", "unzip", "transpose", "opt"];
  private readonly wanted = choice([...CodePanel.TARGETS, ...CodePanel.STAGES]);

  constructor(shared: Shared) {
    super(shared);
    this.build("Emit", [field("language or stage", this.wanted)]);
    this.wanted.addEventListener("change", () => void this.run());
  }

  protected override args(): string[] {
    const wanted = this.wanted.value;
    if (CodePanel.STAGES.includes(wanted)) return ["emit", PROGRAM, "--stage", wanted];
    const file = { spirv: "program.spv", wasm: "program.wasm" }[wanted];
    return ["emit", PROGRAM, "--target", wanted, ...(file ? ["-o", file] : [])];
  }
}

/** Minimises a function of the program, and shows the fit while it runs. */
export class FitPanel extends Panel {
  readonly name = "Fit";
  private readonly arguments = make("input", { type: "text", spellcheck: false, className: "arguments", placeholder: "--steps 1000" });
  private readonly status = make("p", { className: "status" });
  private readonly chart = make("div", { className: "chart" });
  private readonly live = make("div", { className: "pictures live" });
  private readonly parameters = make("table");
  private plot: uPlot | undefined;
  private given: string | undefined;

  constructor(shared: Shared) {
    super(shared);
    this.arguments.title = "added to those of the program's own lines `// fit:`";
    this.build("Fit", [field("more arguments", this.arguments)], this.status, this.chart, this.live, this.parameters);
  }

  override update(text: string): void {
    const given = comment(text, "fit");
    // What was added was for another fit.
    if (given !== this.given) this.arguments.value = "";
    this.given = given;
  }

  protected override args(): string[] {
    return ["fit", PROGRAM, "--watch", "0", ...split(this.arguments.value)];
  }

  override async run(): Promise<void> {
    this.live.replaceChildren(...this.targets());
    this.status.textContent = "";
    await this.start(this.args(), (numbers, picture) => this.watch(JSON.parse(numbers), picture));
  }

  /** The pictures that the program's comments name as items. */
  private targets(): HTMLElement[] {
    const named = /image:(\S+)/.exec(comment(this.shared.text(), "fit"))?.[1];
    const bytes = named === undefined ? undefined : this.shared.files()[named];
    if (named === undefined || !bytes) return [];
    const image = make("img", { src: pictureUrl("target", bytes, named.endsWith(".png") ? "image/png" : "image/jpeg"), alt: "the target" });
    return [make("figure", {}, image, make("figcaption", { textContent: "target" }))];
  }

  private watch(numbers: Numbers, picture: Uint8Array): void {
    const { step, seconds, speed, status, loss, parameters, more } = numbers;
    const last = loss.at(-1)?.[1];
    this.status.textContent = `${status}: step ${step}, ${seconds.toFixed(1)} s, ${speed.toFixed(0)} steps/s, loss ${last?.toPrecision(5) ?? "?"}`;
    this.draw(loss);
    if (picture.length) {
      let image = this.live.querySelector<HTMLImageElement>("img.fitted");
      if (!image) {
        image = make("img", { className: "fitted", alt: "the fit" });
        this.live.append(make("figure", {}, image, make("figcaption", { textContent: "fit" })));
      }
      image.src = pictureUrl("fitted", picture);
    }
    const rows = parameters.map(([name, value]) => make("tr", {}, make("td", { textContent: name }), make("td", { textContent: value })));
    if (more) rows.push(make("tr", {}, make("td", { textContent: `and ${more} more` })));
    this.parameters.replaceChildren(...rows);
  }

  private draw(loss: [number, number][]): void {
    const data: uPlot.AlignedData = [loss.map((point) => point[0]), loss.map((point) => point[1])];
    const isPositive = loss.every((point) => point[1] > 0);
    if (this.plot && this.plot.series.length === 2) return this.plot.setData(data);
    const width = Math.max(200, this.chart.clientWidth);
    this.plot = new uPlot(
      {
        width,
        height: 220,
        scales: { x: { time: false }, y: { distr: isPositive ? 3 : 1 } },
        series: [{ label: "step" }, { label: "loss", stroke: "#2f6f8f", width: 2 }],
        axes: [{}, { size: 70 }],
      },
      data,
      this.chart,
    );
  }
}

/** The state of a fit. */
interface Numbers {
  status: string;
  step: number;
  seconds: number;
  speed: number;
  loss: [number, number][];
  parameters: [string, string][];
  more: number;
}
