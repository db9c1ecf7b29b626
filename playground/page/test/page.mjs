// Uses the page as a visitor does, in headless Chromium: `node test/page.mjs FOLDER [SCREENSHOTS]`, where FOLDER has the built
// page. CHROMIUM is the browser [default: chromium].

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { serve } from "./serve.mjs";

const [folder, screenshots] = process.argv.slice(2);
const named = process.env.CHROMIUM ?? "chromium";
const executablePath = execFileSync("sh", ["-c", `command -v "${named}"`], { encoding: "utf8" }).trim();
const server = await serve(folder);
// A graphics processor in software.
const gpu = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--use-vulkan=swiftshader"];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...gpu] });
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
page.setDefaultTimeout(30_000);
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
page.on("console", (message) => message.type() === "error" && errors.push(message.text()));

const panel = () => page.locator("#panels section:not([hidden])");
const output = () => panel().locator(":scope > .output").textContent();

async function shot(name) {
  if (!screenshots) return;
  await mkdir(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`) });
}

/** Opens an example, and waits until it is checked. */
async function open(name) {
  await page.selectOption("#examples", name);
  await page.waitForFunction(() => document.querySelector(".cm-content")?.textContent);
  await page.waitForTimeout(1500);
}

/** Opens a tab and presses its button. */
async function press(tab, choose) {
  await page.click(`#tab-${tab}`);
  if (choose) await choose(panel());
  await panel().locator(".begin").click();
  await panel().locator(".time").waitFor();
  return output();
}

/** Replaces the program. */
async function type(text) {
  await page.click(".cm-content");
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(text);
}

const tests = {
  async "a kernel runs, in lanes and in the interpreter"() {
    await open("decay");
    const compiled = await press("run");
    assert.match(compiled, /gradient: 3\.5120823 -6\.3130035/);
    assert.match(compiled, /d\/da = 3\.512082/);
    await shot("run");
    const interpreted = await press("run", (p) => p.locator("select").selectOption("interp"));
    assert.match(interpreted, /gradient: 3\.5120823 -6\.3130035/);
  },

  async "derivatives at a point, their check and their source"() {
    assert.match(await press("gradient"), /a = 3\.5120823[^]*rate = -6\.3130035/);
    assert.match(await press("check"), /0 unclear, 0 differ/);
    assert.match(await press("derivative"), /void model_bwd|model/);
    await shot("derivative");
  },

  async "the passes side by side"() {
    await press("passes");
    const columns = panel().locator(".columns pre");
    assert.match(await columns.nth(0).textContent(), /func/);
    assert.notEqual(await columns.nth(0).textContent(), await columns.nth(1).textContent());
    await shot("passes");
  },

  async "every language"() {
    for (const [name, expected] of [["wgsl", /@compute/], ["msl", /kernel/], ["hlsl", /numthreads/], ["glsl", /#version/], ["reflection", /gradient/], ["opt", /func/]]) {
      assert.match(await press("code", (p) => p.locator("select").selectOption(name)), expected, name);
    }
    await press("code", (p) => p.locator("select").selectOption("wasm"));
    assert.equal(await panel().locator("figcaption a").textContent(), "program.wasm");
  },

  async "an error shows while one types, and completion and hover answer"() {
    await type("[Differentiable] float f(float x)\n{\n    return x * missing;\n}\n");
    await page.locator(".cm-lintRange-error").waitFor();
    await page.hover(".cm-lintRange-error");
    await page.getByText("undefined identifier 'missing'").first().waitFor();
    await shot("diagnostic");
    await type("[Differentiable] float f(float x) { return sqrt(x); }");
    await page.waitForTimeout(1500);
    await page.hover(".cm-line >> text=sqrt", { position: { x: 350, y: 8 } }).catch(() => {});
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.keyboard.type("float g(float x) { return norm");
    await page.keyboard.press("Control+Space");
    await page.locator(".cm-tooltip-autocomplete").getByText("normalize").first().waitFor();
    await shot("completion");
    await page.keyboard.press("Escape");
  },

  async "a picture, its derivative and a slider"() {
    await open("picture");
    await press("run");
    const pictures = panel().locator(".pictures img");
    await pictures.nth(1).waitFor();
    const before = await pictures.first().getAttribute("src");
    await panel().locator("input[type=range]").first().fill("0.5");
    await page.waitForFunction((src) => document.querySelector("section:not([hidden]) .pictures img")?.src !== src, before);
    await page.waitForFunction(() => document.querySelector("section:not([hidden]) .pictures img")?.naturalWidth === 256);
    await shot("picture");
  },

  async "WGSL on a graphics processor, where the browser has one"() {
    await open("cubes");
    const expected = /slopes: 3 12 27 48/;
    assert.match(await press("run"), /slopes: 3\.0 12\.0 27\.0 48\.0/);
    const text = await press("run", (p) => p.locator("select").selectOption("webgpu"));
    if (/no WebGPU/.test(text)) return console.log("        (the browser has no device for WebGPU)");
    assert.match(text, expected);
    await open("picture");
    await press("run", (p) => p.locator("select").selectOption("webgpu"));
    await panel().locator(".pictures canvas").nth(1).waitFor();
    await shot("webgpu");
  },

  async "a wrong derivative is found"() {
    await open("custom");
    const wrong = await press("check", (p) => p.locator("select").selectOption("wrong"));
    assert.match(wrong, /DIFFERS/);
    const right = await press("check", (p) => p.locator("select").selectOption("smooth"));
    assert.match(right, /8 agree, 0 unclear, 0 differ/);
  },

  async "recursion"() {
    await open("recursion");
    assert.match(await press("gradient", (p) => p.locator("select").first().selectOption("root")), /a = 0\.16666667/);
  },

  async "least squares"() {
    await open("circle");
    const text = await press("fit");
    assert.match(text, /circle\.radius = 1\.99/);
    await shot("circle");
  },

  async "a program with modules beside it has no errors in the editor, and is fitted"() {
    await open("brdf");
    await page.waitForTimeout(2000);
    assert.equal(await page.locator(".cm-lintRange-error").count(), 0);
    await press("fit", (p) => p.locator("input").first().fill("--steps 3"));
    assert.match(await output(), /3 steps/);
    await shot("modules");
  },

  async "a fit shows its picture while it runs, and can be stopped"() {
    await open("gaussians");
    await panel().locator(".begin").click();
    await panel().locator(".live img.fitted").waitFor();
    await page.waitForFunction(() => /running: step [1-9]/.test(document.querySelector("section:not([hidden]) .status")?.textContent ?? ""));
    await page.waitForTimeout(4000);
    await shot("fit");
    await panel().getByText("Stop", { exact: true }).click();
    await panel().locator(".time").waitFor();
    assert.match(await output(), /stopped: you have stopped it/);
  },

  async "hostile programs harm nothing but their worker"() {
    await type("RWStructuredBuffer<float> o;\n[shader(\"compute\")] [numthreads(1, 1, 1)] void main() { int k = 0; while (o[0] == 0.0) k++; o[0] = k; }");
    await page.click("#tab-run");
    await panel().locator("input.arguments").fill("--bind o=zeros:1");
    await panel().locator("input[type=number]").fill("2");
    await panel().locator(".begin").click();
    await page.waitForTimeout(500);
    assert.equal(await page.evaluate(() => 1 + 1), 2, "the page answers");
    await panel().locator(".time").waitFor();
    assert.match(await output(), /stopped: it took more than 2 seconds/);
    await type("float f(int n) { return n == 0 ? 0.0 : 1.0 + f(n + 1); }\nRWStructuredBuffer<float> o;\n[shader(\"compute\")] [numthreads(1, 1, 1)] void main() { o[0] = f(1); }");
    await panel().locator("input[type=number]").fill("60");
    assert.match(await press("run"), /error/);
    const deep = `float f(float x) { return ${"(".repeat(20000)}x${")".repeat(20000)}; }`;
    await type(deep);
    assert.match(await press("run"), /error/);
    await type("[Differentiable] float f(float x) { return x * x; }");
    await page.waitForTimeout(1500);
    assert.match(await press("gradient", (p) => p.locator("input").first().fill("x=3")), /x = 6\.0/);
  },

  async "a link holds the program"() {
    await type("[Differentiable] float linked(float x) { return 3.0 * x; }");
    await page.waitForTimeout(1000);
    await page.click("#share");
    await page.waitForFunction(() => location.hash.length > 20);
    const address = page.url();
    const other = await browser.newPage();
    await other.goto(address);
    await other.waitForFunction(() => document.body.dataset.ready === "true");
    assert.match(await other.locator(".cm-content").textContent(), /linked/);
    await other.close();
  },
};

let failed = 0;
try {
  await page.goto(server.address);
  await page.waitForFunction(() => document.body.dataset.ready === "true");
  for (const [name, test] of Object.entries(tests)) {
    const begin = Date.now();
    try {
      await test();
      console.log(`ok      ${name} (${Date.now() - begin} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack}`);
      await shot(`failed-${failed}`);
    }
  }
  if (errors.length) {
    failed += 1;
    console.log(`FAILED  the page reported errors:\n${errors.join("\n")}`);
  }
} finally {
  await browser.close();
  server.close();
}
console.log(failed ? `playground: ${failed} failed` : `playground: all ${Object.keys(tests).length} passed`);
process.exit(failed ? 1 : 0);
