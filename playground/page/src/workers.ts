// The page's ends of the workers.

import type { Transport } from "@codemirror/lsp-client";
import type { Files } from "./compiler";
import type { Answer, Request } from "./worker";

function start(module: WebAssembly.Module): Worker {
  const worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
  worker.postMessage({ kind: "module", module } satisfies Request);
  return worker;
}

/** What a command does while it runs. */
export interface Progress {
  text(stream: "out" | "err", text: string): void;
  watch?(numbers: string, picture: Uint8Array): void;
}

/** The end of a command; `stopped` says why, if it did not end by itself. */
export interface Result {
  status: number;
  written: Files;
  seconds: number;
  stopped?: string;
}

/** Runs commands, one at a time. */
export class Commands {
  private worker: Worker;
  private stopping: ((why: string) => void) | undefined;

  constructor(private module: WebAssembly.Module) {
    this.worker = start(module);
  }

  get isRunning(): boolean {
    return this.stopping !== undefined;
  }

  /** Ends the command that runs. */
  stop(why: string): void {
    this.stopping?.(why);
  }

  /** Runs a command on files, for at most so many seconds; what runs already is stopped. */
  run(args: string[], files: Files, most: number, progress: Progress): Promise<Result> {
    this.stop("another command was begun");
    const begin = performance.now();
    return new Promise((resolve) => {
      const end = (result: Result): void => {
        clearTimeout(timer);
        this.stopping = undefined;
        this.worker.onmessage = null;
        resolve(result);
      };
      const timer = setTimeout(() => this.stop(`it took more than ${most} seconds`), 1000 * most);
      this.stopping = (stopped) => {
        // A worker that computes hears nothing, so it is ended, with all that is in it.
        this.worker.terminate();
        this.worker = start(this.module);
        end({ status: 1, written: {}, seconds: (performance.now() - begin) / 1000, stopped });
      };
      this.worker.onmessage = ({ data }: MessageEvent<Answer>) => {
        if (data.kind === "text") progress.text(data.stream, data.text);
        else if (data.kind === "watch") progress.watch?.(data.numbers, data.picture);
        else if (data.kind === "done") end(data);
      };
      this.worker.onerror = () => this.stop("the worker has failed");
      this.worker.postMessage({ kind: "command", args, files } satisfies Request);
    });
  }
}

/** The seconds that the language server has for an answer. */
export const PATIENCE = 10;

/** A connection to the language server. */
export interface Language extends Transport {
  /** Puts files beside the program. */
  put(files: Files): void;
}

/** The connection to the language server. `restarted` is called when the server had to begin anew. */
export function language(module: WebAssembly.Module, restarted: () => void): Language {
  let worker = start(module);
  const beside: Files = {};
  let handlers: ((text: string) => void)[] = [];
  let waiting = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const restart = (): void => {
    worker.terminate();
    worker = listen(start(module));
    worker.postMessage({ kind: "files", files: beside } satisfies Request);
    waiting = 0;
    restarted();
  };
  const listen = (worker: Worker): Worker => {
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if (data.kind !== "messages") return;
      waiting -= 1;
      clearTimeout(timer);
      if (waiting > 0) timer = setTimeout(restart, 1000 * PATIENCE);
      if (data.failure !== undefined) {
        console.warn(`the language server begins anew: ${data.failure}`);
        return restart();
      }
      for (const message of data.said) handlers.forEach((handler) => handler(JSON.stringify(message)));
    };
    return worker;
  };
  listen(worker);
  return {
    put(files) {
      Object.assign(beside, files);
      worker.postMessage({ kind: "files", files } satisfies Request);
    },
    send(text) {
      waiting += 1;
      clearTimeout(timer);
      timer = setTimeout(restart, 1000 * PATIENCE);
      worker.postMessage({ kind: "message", text } satisfies Request);
    },
    subscribe: (handler) => void handlers.push(handler),
    unsubscribe: (handler) => (handlers = handlers.filter((other) => other !== handler)),
  };
}
