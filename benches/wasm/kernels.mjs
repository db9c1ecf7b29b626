// Times the kernels of benches/peers as WebAssembly (in the V8 of Node.js) beside Cranelift's machine code, on one core:
//
//     node benches/wasm/kernels.mjs target/release/pullback
//
// The program must have been built with `--features wasm`. Both have the same numbers in their buffers; each runs several
// times in turns, and the shortest time counts. Nanoseconds per thread, the ratio, and the largest difference of results, relative to those above 1.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [, , pullback, only = "", rounds = "5", target = "wasm"] = process.argv;
if (!pullback) {
  console.error("usage: node kernels.mjs PULLBACK [KERNEL] [ROUNDS] [wasm | wasm-relaxed]");
  process.exit(2);
}
const peers = join(dirname(dirname(fileURLToPath(import.meta.url))), "peers");
const folder = mkdtempSync(join(tmpdir(), "pullback-wasm-"));
const THREADS = 16384;
const GROUP = 64;
const programs = ["sphere", "splat", "ode", "perceptron-local", "perceptron-buffer", "perceptron-function"];

/** Numbers between 0.25 and 0.75, the same in every run. */
function numbers(n) {
  let state = 12345;
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 0.25 + state / 2 ** 33;
  });
}

/** A one-dimensional array as a file of NumPy's. */
function npy(values) {
  let head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${values.length},), }`;
  head = head.padEnd(63 - 10 + 64, " ") + "\n";
  const start = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length & 255, head.length >> 8]);
  return Buffer.concat([start, Buffer.from(head), Buffer.from(values.buffer)]);
}

const inputs = numbers(THREADS * 16);
const parameters = numbers(65536);
writeFileSync(join(folder, "inputs.npy"), npy(inputs));
writeFileSync(join(folder, "parameters.npy"), npy(parameters));

/** Seconds per run in V8, and the results. */
function inV8(file, entry) {
  const path = join(folder, "kernel.wasm");
  execFileSync(pullback, ["emit", file, "--entry", entry, "--target", target, "-o", path]);
  const module = new WebAssembly.Module(readFileSync(path));
  const about = JSON.parse(new TextDecoder().decode(WebAssembly.Module.customSections(module, "pullback")[0]));
  const kernel = new WebAssembly.Instance(module, {}).exports;
  const at = {};
  for (const buffer of about.buffers) {
    const given = { inputs, parameters, results: new Float32Array(THREADS), gradients: new Float32Array(65536) }[
      buffer.name
    ];
    at[buffer.name] = [kernel.buffer(buffer.number, given.length), given];
  }
  const put = () => {
    for (const [place, given] of Object.values(at)) new Float32Array(kernel.memory.buffer, place, given.length).set(given);
  };
  put();
  let least = Infinity;
  const end = performance.now() + 1500;
  do {
    const start = performance.now();
    kernel[entry](THREADS / GROUP, 1, 1);
    least = Math.min(least, performance.now() - start);
  } while (performance.now() < end);
  put();
  kernel[entry](THREADS / GROUP, 1, 1);
  const written = {};
  for (const buffer of about.buffers.filter((buffer) => buffer.access === "read_write")) {
    const [place, given] = at[buffer.name];
    written[buffer.name] = new Float32Array(kernel.memory.buffer, place, given.length).slice();
  }
  return [least / 1000, written, about.entries[0].lanes];
}

function bindings() {
  const of = (name) => ["--bind", `${name}=@${join(folder, name)}.npy`];
  return [...of("inputs"), ...of("parameters"), "--bind", `results=zeros:${THREADS}`, "--bind", "gradients=zeros:65536"];
}

/** Seconds per run by Cranelift. */
function byCranelift(file, entry) {
  const text = execFileSync(pullback, [
    "bench", file, "--entry", entry, "--groups", `${THREADS / GROUP}`, "--backend", "cranelift", "--threads", "1",
    "--seconds", "1.5", "--json", ...bindings(),
  ]);
  return (JSON.parse(text).kernels[0].times.ns_per_thread * THREADS) / 1e9;
}

console.log("kernel               entry     WebAssembly  lanes  Cranelift  ratio  difference");
for (const name of programs.filter((name) => name.includes(only))) {
  const file = join(peers, `${name}.slang`);
  for (const entry of ["primal", "gradient"]) {
    let [wasm, native, results, lanes] = [Infinity, Infinity];
    for (let round = 0; round < Number(rounds); round++) {
      const [seconds, found, width] = inV8(file, entry);
      [wasm, results, lanes] = [Math.min(wasm, seconds), found, width];
      native = Math.min(native, byCranelift(file, entry));
    }
    const out = (of) => join(folder, `${of}-found.npy`);
    execFileSync(pullback, [
      "run", file, "--entry", entry, "--groups", `${THREADS / GROUP}`, "--backend", "cranelift", "--threads", "1",
      ...Object.keys(results).flatMap((of) => ["--out", `${of}=@${out(of)}`]), ...bindings(),
    ]);
    let worst = 0;
    for (const [of, found] of Object.entries(results)) {
      const bytes = readFileSync(out(of));
      const wanted = new Float32Array(bytes.buffer.slice(bytes.length - 4 * found.length, bytes.length));
      wanted.forEach((x, k) => (worst = Math.max(worst, Math.abs(x - found[k]) / Math.max(1, Math.abs(x)))));
    }
    const ns = (seconds) => ((seconds / THREADS) * 1e9).toFixed(1);
    console.log(
      name.padEnd(20), entry.padEnd(9), ns(wasm).padStart(11), String(lanes).padStart(6), ns(native).padStart(10),
      (wasm / native).toFixed(2).padStart(6), worst.toExponential(1).padStart(10),
    );
  }
}
