// A worker: it runs commands, or it is the language server. The page ends it if it takes too long.

import { run, Server, type Files } from "./compiler";

/** What the page asks for. */
export type Request =
  | { kind: "module"; module: WebAssembly.Module }
  | { kind: "command"; args: string[]; files: Files }
  | { kind: "files"; files: Files }
  | { kind: "message"; text: string };

/** What the worker answers. */
export type Answer =
  | { kind: "text"; stream: "out" | "err"; text: string }
  | { kind: "watch"; numbers: string; picture: Uint8Array }
  | { kind: "done"; status: number; written: Files; seconds: number }
  | { kind: "messages"; said: unknown[]; failure?: string };

let module: WebAssembly.Module | undefined;
let server: Server | undefined;

function say(answer: Answer): void {
  postMessage(answer);
}

onmessage = (event: MessageEvent<Request>) => {
  const request = event.data;
  if (request.kind === "module") {
    module = request.module;
  } else if (module && request.kind === "command") {
    const begin = performance.now();
    const outcome = run(module, request.args, request.files, {
      text: (stream, text) => say({ kind: "text", stream, text }),
      watch: (numbers, picture) => say({ kind: "watch", numbers, picture }),
    });
    say({ kind: "done", ...outcome, seconds: (performance.now() - begin) / 1000 });
  } else if (module && request.kind === "files") {
    server ??= new Server(module);
    server.put(request.files);
  } else if (module && request.kind === "message") {
    server ??= new Server(module);
    say({ kind: "messages", ...server.receive(request.text) });
  }
};
