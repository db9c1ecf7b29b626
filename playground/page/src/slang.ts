// Slang's tokens for the editor's colours, and the editor itself.

import { indentUnit, StreamLanguage } from "@codemirror/language";
import { clike } from "@codemirror/legacy-modes/mode/clike";
import { languageServerExtensions, LSPClient } from "@codemirror/lsp-client";
import { Compartment } from "@codemirror/state";
import { basicSetup, EditorView } from "codemirror";
import { PATIENCE } from "./workers";

function words(text: string): Record<string, boolean> {
  return Object.fromEntries(text.split(/\s+/).map((word) => [word, true]));
}

const vectors = ["float", "double", "half", "int", "uint", "bool"].flatMap((scalar) =>
  [scalar, ...[2, 3, 4].map((n) => scalar + n), ...[2, 3, 4].flatMap((n) => [2, 3, 4].map((m) => `${scalar}${n}x${m}`))],
);

const slang = StreamLanguage.define(
  clike({
    name: "slang",
    keywords: words(
      "if else for while do switch case default break continue return struct class interface enum extension namespace using " +
        "import module __include implementing public private internal static const in out inout uniform groupshared var let " +
        "func property get set subscript init no_diff fwd_diff bwd_diff __fwd_diff __bwd_diff typealias typedef typename " +
        "associatedtype where is as this This nullptr none each expand export override cbuffer tbuffer register discard " +
        "throw try catch defer lambda",
    ),
    types: words(
      `void uint8_t uint16_t uint64_t int8_t int16_t int64_t ${vectors.join(" ")} vector matrix Array Optional Tuple ` +
        "StructuredBuffer RWStructuredBuffer ByteAddressBuffer RWByteAddressBuffer ConstantBuffer ParameterBlock Texture2D " +
        "RWTexture2D Texture3D TextureCube SamplerState Buffer RWBuffer TensorView DiffTensorView DifferentialPair " +
        "IDifferentiable IDifferentiablePtrType",
    ),
    blockKeywords: words("if else for while do switch case struct class interface enum extension namespace"),
    atoms: words("true false"),
    hooks: {
      "#": (stream: { skipToEnd(): void }) => {
        stream.skipToEnd();
        return "meta";
      },
    },
  }),
);

/** The name of the program's file, for all commands and for the language server. */
export const PROGRAM = "program.slang";
const URI = `file:///${PROGRAM}`;

/** The editor, with what the language server has to say in it. */
export class Editor {
  readonly view: EditorView;
  private server = new Compartment();

  constructor(parent: HTMLElement, text: string, changed: () => void) {
    this.view = new EditorView({
      doc: text,
      parent,
      extensions: [
        basicSetup,
        slang,
        indentUnit.of("    "),
        this.server.of([]),
        EditorView.updateListener.of((update) => update.docChanged && changed()),
      ],
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
  }

  /** Makes the connection to a language server. */
  connect(transport: Parameters<LSPClient["connect"]>[0], checked: () => void): LSPClient {
    const client = new LSPClient({
      timeout: 1000 * PATIENCE,
      extensions: languageServerExtensions(),
      notificationHandlers: {
        "$/pullback/checked": () => {
          checked();
          return true;
        },
      },
    }).connect(transport);
    this.view.dispatch({ effects: this.server.reconfigure([]) });
    this.view.dispatch({ effects: this.server.reconfigure(client.plugin(URI, "slang")) });
    return client;
  }
}

/** The differentiable functions of the program, by the lenses of the language server. */
export async function functions(client: LSPClient): Promise<string[]> {
  type Lens = { command?: { arguments?: unknown[] } };
  const lenses = await client.request<unknown, Lens[] | null>("textDocument/codeLens", { textDocument: { uri: URI } });
  const names = (lenses ?? []).map((lens) => lens.command?.arguments?.[1]).filter((name) => typeof name === "string");
  return [...new Set(names)];
}
