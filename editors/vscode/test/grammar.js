// What the grammar calls the words of a small kernel.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const { Registry, INITIAL, parseRawGrammar } = require("vscode-textmate");

const SOURCE = `#define N 4
[Differentiable] float f(no_diff float3 x, inout int n) // a comment
{
    let p = diffPair(1.5f);
    bwd_diff(g)(p, 0x1Fu);
    return "text";
}
struct Ray : IDifferentiable {}
`;

const EXPECTED = [
  ["define", "keyword.control.directive.slang"],
  ["Differentiable", "entity.other.attribute-name.slang"],
  ["float", "storage.type.primitive.slang"],
  ["f", "entity.name.function.slang"],
  ["no_diff", "storage.modifier.derivative.slang"],
  ["float3", "storage.type.primitive.slang"],
  ["inout", "storage.modifier.slang"],
  [" a comment", "comment.line.double-slash.slang"],
  ["diffPair", "support.function.derivative.slang"],
  ["1.5f", "constant.numeric.float.slang"],
  ["bwd_diff", "support.function.derivative.slang"],
  ["0x1Fu", "constant.numeric.hex.slang"],
  ["return", "keyword.control.slang"],
  ["text", "string.quoted.double.slang"],
  ["Ray", "entity.name.type.slang"],
  ["IDifferentiable", "support.type.derivative.slang"],
];

async function main() {
  const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const file = path.join(__dirname, "..", "syntaxes", "slang.tmLanguage.json");
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.slang");
  const found = [];
  let state = INITIAL;
  for (const line of SOURCE.split("\n")) {
    const result = grammar.tokenizeLine(line, state);
    state = result.ruleStack;
    for (const token of result.tokens) found.push([line.slice(token.startIndex, token.endIndex), token.scopes]);
  }
  for (const [text, scope] of EXPECTED) {
    assert(found.some(([t, scopes]) => t === text && scopes.includes(scope)), `'${text}' is not ${scope}`);
  }
  console.log(`${EXPECTED.length} words have the right scopes`);

  // A program ends in no comment or string, and each word of derivatives in its code has a scope of its own.
  const repository = path.join(__dirname, "../../..");
  const programs = ["examples", "tests/run", "tests/autodiff"].flatMap((folder) => under(path.join(repository, folder)));
  let words = 0;
  for (const program of programs) {
    let state = INITIAL;
    for (const line of fs.readFileSync(program, "utf8").split(/\r?\n/)) {
      const result = grammar.tokenizeLine(line, state);
      state = result.ruleStack;
      for (const { startIndex, endIndex, scopes } of result.tokens) {
        const all = scopes.join(" ");
        if (/comment|string/.test(all)) continue;
        for (const [word] of line.slice(startIndex, endIndex).matchAll(/\b(fwd_diff|bwd_diff|no_diff|diffPair|DifferentialPair)\b/g)) {
          assert(/derivative|entity.name.type/.test(all), `${program}: '${word}' in '${line}' is ${all}`);
          words += 1;
        }
      }
    }
    assert.strictEqual(state.depth, 1, `${program} ends within ${state.contentNameScopesList?.scopeName}`);
  }
  console.log(`${programs.length} programs have ${words} words of derivatives`);
}

// The programs in a folder, of which there are none outside of the repository.
function under(folder) {
  if (!fs.existsSync(folder)) return [];
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const inner = path.join(folder, entry.name);
    if (entry.isDirectory()) return under(inner);
    return entry.name.endsWith(".slang") ? [inner] : [];
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
