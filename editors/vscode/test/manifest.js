// The manifest: every file that it names exists, every setting has a description and a default of its type, and the code
// reads no other setting and registers no other command.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");

const root = path.join(__dirname, "..");
const manifest = require("../package.json");
const code = fs.readFileSync(path.join(root, manifest.main), "utf8");
const { languages, grammars, configuration, commands, semanticTokenScopes } = manifest.contributes;

const files = [manifest.main, ...languages.map((l) => l.configuration), ...grammars.map((g) => g.path)];
for (const file of files) assert(fs.existsSync(path.join(root, file)), `there is no ${file}`);
for (const file of files.slice(1)) JSON.parse(fs.readFileSync(path.join(root, file), "utf8"));

const ids = languages.map((language) => language.id);
for (const grammar of grammars) {
  assert(ids.includes(grammar.language));
  const text = JSON.parse(fs.readFileSync(path.join(root, grammar.path), "utf8"));
  assert.strictEqual(text.scopeName, grammar.scopeName);
}
for (const { language } of semanticTokenScopes) assert(ids.includes(language));
for (const event of manifest.activationEvents) assert(ids.some((id) => event === `onLanguage:${id}`));

const settings = Object.entries(configuration.properties);
for (const [name, { type, default: value, description }] of settings) {
  assert(name.startsWith("pullback.") && description, name);
  assert.strictEqual(type, Array.isArray(value) ? "array" : typeof value, name);
}
for (const [, name] of code.matchAll(/affectsConfiguration\("([^"]+)"\)/g)) {
  assert(settings.some(([known]) => known === name), `there is no setting ${name}`);
}
for (const [, name] of code.matchAll(/getConfiguration\("pullback"\)\.get\("([^"]+)"\)/g)) {
  assert(settings.some(([known]) => known === `pullback.${name}`), `there is no setting ${name}`);
}
const registered = [...code.matchAll(/registerCommand\("([^"]+)"/g)].map((found) => found[1]);
assert.deepStrictEqual(registered.sort(), commands.map((command) => command.command).sort());

// A relative link leads nowhere in the editor's market.
const links = fs.readFileSync(path.join(root, "README.md"), "utf8").match(/\]\((?!https?:)[^)]*\)/g);
assert.strictEqual(links, null);

const workspace = path.join(root, "../../Cargo.toml");
if (fs.existsSync(workspace)) {
  const [, version] = fs.readFileSync(workspace, "utf8").match(/^version = "([^"]+)"/m);
  assert.strictEqual(manifest.version, version);
}
console.log(`${settings.length} settings and ${files.length} files of the manifest are right`);
