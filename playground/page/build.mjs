// Builds the page into a folder: `node build.mjs FOLDER MODULE`, where MODULE is the compiler as WebAssembly.
//
// Examples come from `examples/` here, and from those of the repository.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const repository = join(here, "../..");
const [folder, module] = process.argv.slice(2);
if (!folder || !module) {
  console.error("usage: node build.mjs FOLDER MODULE");
  process.exit(2);
}

const examples = JSON.parse(await readFile(join(here, "examples/index.json"), "utf8"));
await mkdir(join(folder, "examples"), { recursive: true });
await build({
  entryPoints: [join(here, "src/main.ts"), join(here, "src/worker.ts"), join(here, "src/main.css")],
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "linked",
  logLevel: "warning",
});
await copyFile(join(here, "index.html"), join(folder, "index.html"));
await copyFile(module, join(folder, "pullback.wasm"));
for (const { name, source, files } of examples) {
  const from = source ? join(repository, source) : join(here, `examples/${name}.slang`);
  await copyFile(from, join(folder, `examples/${name}.slang`));
  for (const file of files) await copyFile(join(repository, file), join(folder, "examples", basename(file)));
}
const listed = examples.map(({ name, title, tab, files }) => ({ name, title, tab, files: files.map((file) => basename(file)) }));
await writeFile(join(folder, "examples/index.json"), JSON.stringify(listed));
