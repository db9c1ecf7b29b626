// The page: an editor beside tabs, examples, links and files. The compiler runs in two workers, one for commands and one for
// the language server, so that neither delays the other, and no program delays the page.

import type { LSPClient } from "@codemirror/lsp-client";
import type { Files } from "./compiler";
import { byId, make } from "./dom";
import { pack, unpack } from "./link";
import { CheckPanel, CodePanel, DerivePanel, FitPanel, GradientPanel, PassesPanel, RunPanel, type Panel, type Shared } from "./panels";
import { Editor, functions, PROGRAM } from "./slang";
import { Commands, language, type Language } from "./workers";

interface Example {
  name: string;
  title: string;
  tab: string;
  files: string[];
}

/** The largest file that one can add, in bytes. */
const MOST = 64 << 20;

async function bytes(path: string): Promise<Uint8Array> {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

async function compiler(): Promise<WebAssembly.Module> {
  const response = await fetch("pullback.wasm");
  if (!response.ok) throw new Error(`pullback.wasm: ${response.status}`);
  // A server may not know the type of the file, which streaming requires.
  return WebAssembly.compile(await response.arrayBuffer());
}

class Page implements Shared {
  readonly commands: Commands;
  private readonly editor: Editor;
  private readonly panels: Panel[];
  private readonly beside: Files = {};
  private readonly language: Language;
  private client: LSPClient | undefined;
  private open: Panel;

  constructor(module: WebAssembly.Module, private readonly examples: Example[]) {
    this.commands = new Commands(module);
    this.editor = new Editor(byId("editor"), "", () => this.changed());
    this.panels = [RunPanel, GradientPanel, CheckPanel, DerivePanel, PassesPanel, CodePanel, FitPanel].map((Kind) => new Kind(this));
    this.open = this.panels[0]!;
    this.language = language(module, () => setTimeout(() => this.connect()));
    this.connect();
    this.fillTabs();
    this.fillExamples();
    byId("share").addEventListener("click", () => void this.share());
    byId<HTMLInputElement>("add").addEventListener("change", (event) => void this.add(event.target as HTMLInputElement));
    window.addEventListener("hashchange", () => void this.follow());
  }

  text(): string {
    return this.editor.text;
  }

  files(): Files {
    return { ...this.beside, [PROGRAM]: new TextEncoder().encode(this.text()) };
  }

  private connect(): void {
    this.client?.disconnect();
    this.client = this.editor.connect(this.language, () => void this.list());
  }

  /** Lists the functions of a program that was checked. */
  private async list(): Promise<void> {
    const names = this.client ? await functions(this.client).catch(() => []) : [];
    this.panels.forEach((panel) => panel.update(this.text(), names));
    document.body.dataset.checked = String(names.length);
  }

  /** Shows what the comments of a program that was changed say, before it is checked. */
  private changed(): void {
    for (const panel of this.panels) if (panel instanceof RunPanel || panel instanceof FitPanel) panel.update(this.text());
  }

  private fillTabs(): void {
    const tabs = byId("tabs");
    for (const panel of this.panels) {
      const tab = make("button", { type: "button", role: "tab", textContent: panel.name, id: `tab-${panel.name.toLowerCase()}` });
      tab.addEventListener("click", () => this.select(panel.name));
      tabs.append(tab);
      byId("panels").append(panel.element);
    }
    this.select(this.open.name);
  }

  select(name: string): void {
    this.open = this.panels.find((panel) => panel.name === name) ?? this.panels[0]!;
    for (const panel of this.panels) {
      panel.element.hidden = panel !== this.open;
      byId(`tab-${panel.name.toLowerCase()}`).ariaSelected = String(panel === this.open);
    }
  }

  private fillExamples(): void {
    const select = byId<HTMLSelectElement>("examples");
    for (const { name, title } of this.examples) select.append(make("option", { value: name, textContent: title }));
    select.addEventListener("change", () => {
      history.replaceState(null, "", " ");
      void this.load(select.value);
    });
  }

  /** Opens an example, with its files. */
  async load(name: string): Promise<void> {
    const example = this.examples.find((example) => example.name === name) ?? this.examples[0];
    if (!example) return;
    byId<HTMLSelectElement>("examples").value = example.name;
    await this.fetchFiles(example.files);
    this.editor.text = new TextDecoder().decode(await bytes(`examples/${example.name}.slang`));
    this.select(example.tab);
  }

  private async fetchFiles(names: string[]): Promise<void> {
    for (const name of names) this.beside[name] ??= await bytes(`examples/${name}`);
    this.listFiles();
  }

  /** Shows the names of the files, and tells the language server of them. */
  private listFiles(): void {
    byId("files").textContent = Object.keys(this.beside).join(", ");
    this.language.put(this.beside);
    this.client?.notification("workspace/didChangeWatchedFiles", { changes: [] });
  }

  private async add(input: HTMLInputElement): Promise<void> {
    for (const file of input.files ?? []) {
      if (file.size > MOST) alert(`${file.name} is larger than ${MOST >> 20} MiB`);
      else this.beside[file.name] = new Uint8Array(await file.arrayBuffer());
    }
    input.value = "";
    this.listFiles();
  }

  private async share(): Promise<void> {
    const hash = await pack({ text: this.text(), tab: this.open.name });
    history.replaceState(null, "", `#${hash}`);
    const button = byId("share");
    // The address bar has the link, even where a page may not use the clipboard.
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    button.textContent = copied ? "Link copied" : "Link is in the address bar";
    setTimeout(() => (button.textContent = "Share"), 2000);
  }

  /** Opens the program of the address, or the first example. */
  async follow(): Promise<void> {
    const held = await unpack(location.hash.slice(1));
    if (!held) return this.load(location.hash.slice(1));
    const named = this.examples.flatMap((example) => example.files).filter((name) => held.text.includes(name));
    await this.fetchFiles(named);
    this.editor.text = held.text;
    this.select(held.tab);
  }
}

async function begin(): Promise<void> {
  const examples: Example[] = await (await fetch("examples/index.json")).json();
  const page = new Page(await compiler(), examples);
  await page.follow();
  byId("loading").hidden = true;
  document.body.dataset.ready = "true";
}

// Questions to a language server that had to begin anew get no answer.
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof Error && event.reason.message === "Request timed out") event.preventDefault();
});

begin().catch((error: unknown) => {
  byId("loading").textContent = `The playground could not start: ${String(error)}`;
});
