// Runs a command of the page's compiler in Node.js: `node test/node.mjs MODULE ARGUMENTS…`, on the files of the current folder.

import { build } from "esbuild";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("../src/compiler.ts", import.meta.url));
const built = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { run } = await import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
const [path, ...args] = process.argv.slice(2);
const module = await WebAssembly.compile(readFileSync(path));
const entries = readdirSync(".", { withFileTypes: true }).filter((entry) => entry.isFile());
const files = Object.fromEntries(entries.map(({ name }) => [name, new Uint8Array(readFileSync(name))]));
const outcome = run(module, args, files, {
  text: (stream, text) => process[stream === "out" ? "stdout" : "stderr"].write(text),
  watch: (numbers, picture) => console.error(numbers.slice(0, 100), picture.length),
});
console.error(outcome.status, Object.keys(outcome.written));
