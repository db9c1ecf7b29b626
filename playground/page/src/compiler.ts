// Runs the compiler's module: a command, whose files and output are in memory, or the language server.
//
// Each command has an instance of its own, so that nothing outlives it: memory, a crash, or what a hostile program did.

import { ConsoleStdout, Directory, Fd, File, OpenFile, PreopenDirectory, WASI, WASIProcExit, wasi } from "@bjorn3/browser_wasi_shim";
import { Kernels } from "./kernels";

/** The content of files, by path. */
export type Files = Record<string, Uint8Array>;

/** What a command says while it runs. */
export interface Listener {
  text(stream: "out" | "err", text: string): void;
  /** The state of a fit, as JSON, and its picture as PNG. */
  watch(numbers: string, picture: Uint8Array): void;
}

/** The end of a command. */
export interface Outcome {
  /** The exit status. */
  status: number;
  /** The files that the command wrote. */
  written: Files;
}

/** Output that is no terminal: without colours and moving bars. */
class Output extends ConsoleStdout {
  override fd_fdstat_get() {
    return { ret: 0, fdstat: new wasi.Fdstat(wasi.FILETYPE_REGULAR_FILE, 0) };
  }
}

function output(say: (text: string) => void): Fd {
  const decoder = new TextDecoder();
  return new Output((bytes) => say(decoder.decode(bytes, { stream: true })));
}

/** A folder with these files, of this name for the module. */
function folder(name: string, files: Files): PreopenDirectory {
  const root = new PreopenDirectory(name, new Map());
  fill(root, files);
  return root;
}

/** Puts files into a folder. */
function fill(root: PreopenDirectory, files: Files): void {
  for (const [path, bytes] of Object.entries(files)) {
    const parts = path.split("/");
    const name = parts.pop() ?? path;
    let directory = root.dir;
    for (const part of parts) {
      const next = directory.contents.get(part);
      const made = next instanceof Directory ? next : new Directory(new Map());
      directory.contents.set(part, made);
      directory = made;
    }
    directory.contents.set(name, new File(bytes));
  }
}

/** The files of a folder that are not among the given ones, or have another content. */
function written(directory: Directory, given: Files, prefix = ""): Files {
  const found: Files = {};
  for (const [name, entry] of directory.contents) {
    const path = prefix + name;
    if (entry instanceof Directory) Object.assign(found, written(entry, given, `${path}/`));
    else if (entry instanceof File && !same(entry.data, given[path])) found[path] = entry.data;
  }
  return found;
}

function same(a: Uint8Array, b: Uint8Array | undefined): boolean {
  return b !== undefined && a.length === b.length && a.every((byte, k) => byte === b[k]);
}

/** What the module exports. */
interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  command(): number;
  text(bytes: number): number;
  text_at(): number;
  message(): number;
}

function instantiate(module: WebAssembly.Module, host: WASI): Exports {
  const kernels = new Kernels();
  const instance = new WebAssembly.Instance(module, {
    wasi_snapshot_preview1: host.wasiImport,
    pullback_host: kernels.imports,
  });
  const exports = instance.exports as unknown as Exports;
  kernels.memory = exports.memory;
  host.initialize(instance as unknown as Parameters<WASI["initialize"]>[0]);
  return exports;
}

/** Returns true if the stack was used up: the browser's, or that in the module's memory. */
function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError || /recursion|call stack|out of bounds/i.test(String(error));
}

/** Runs a command with arguments on files. */
export function run(module: WebAssembly.Module, args: string[], files: Files, listener: Listener): Outcome {
  const root = folder(".", files);
  const streams = [
    new OpenFile(new File([])),
    output((text) => listener.text("out", text)),
    output((text) => listener.text("err", text)),
  ];
  const host = new WASI(["pullback", ...args], [], [...streams, root], { debug: false });
  const close = host.wasiImport.fd_close!;
  // `fit --watch` writes the picture first and then the numbers.
  host.wasiImport.fd_close = (fd: number) => {
    const closed = host.fds[fd];
    const watched = root.dir.contents.get("watch");
    const status = close(fd);
    if (watched instanceof Directory && closed instanceof OpenFile) {
      const numbers = watched.contents.get("numbers.json");
      const picture = watched.contents.get("picture.png");
      if (numbers instanceof File && closed.file === numbers) {
        const bytes = picture instanceof File ? picture.data.slice() : new Uint8Array();
        listener.watch(new TextDecoder().decode(numbers.data), bytes);
      }
    }
    return status;
  };
  let status = 1;
  try {
    status = instantiate(module, host).command();
  } catch (error) {
    if (error instanceof WASIProcExit) status = error.code;
    else if (isTooDeep(error)) listener.text("err", "error: the program is nested too deep for this browser\n");
    else listener.text("err", `error: the compiler has failed, which is a bug: ${String(error)}\n`);
  }
  return { status, written: written(root.dir, files) };
}

/** The language server. */
export class Server {
  private exports: Exports | undefined;
  private complaint = "";
  /** Documents are `file:///NAME`. */
  private root = folder("/", {});

  constructor(private module: WebAssembly.Module) {}

  private start(): Exports {
    const complain = output((text) => (this.complaint += text));
    const streams = [new OpenFile(new File([])), output(() => {}), complain, this.root];
    return instantiate(this.module, new WASI(["pullback"], [], streams, { debug: false }));
  }

  /** Puts files beside the program. */
  put(files: Files): void {
    fill(this.root, files);
  }

  /** Handles a message, and returns the answers. After a failure, which is told, the server begins anew. */
  receive(message: string): { said: unknown[]; failure?: string } {
    try {
      const exports = (this.exports ??= this.start());
      const bytes = new TextEncoder().encode(message);
      const at = exports.text(bytes.length) >>> 0;
      new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
      const n = exports.message();
      const answer = new Uint8Array(exports.memory.buffer, exports.text_at() >>> 0, n);
      return { said: JSON.parse(new TextDecoder().decode(answer)) };
    } catch (error) {
      this.exports = undefined;
      const failure = `${this.complaint}${String(error)}`;
      this.complaint = "";
      return { said: [], failure };
    }
  }
}
