// The extension beside stand-ins for the editor and for the client of the protocol.
"use strict";

const assert = require("assert");
const Module = require("module");

// What the editor was told, and the clients that were made.
let settings, shown, clients, providers, commands, listeners, fails;

class Client {
  constructor(id, name, server, options) {
    Object.assign(this, { id, name, server, options, state: "initial", features: [] });
    clients.push(this);
  }
  registerFeature(feature) {
    this.features.push(feature);
  }
  isRunning() {
    return this.state === "running";
  }
  async start() {
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.state = fails ? "startFailed" : "running";
    if (fails) throw new Error("no such program");
  }
  async stop() {
    // As the true client does.
    if (this.state !== "running") throw new Error("Client is not running and can't be stopped");
    this.state = "stopped";
  }
  async sendRequest(method, { uri }) {
    assert.strictEqual(method, "workspace/textDocumentContent");
    if (uri.endsWith("missing")) throw new Error("there is no such document\nat all");
    return { text: `the text of ${uri}` };
  }
}

class EventEmitter {
  listeners = [];
  event = (listener) => this.listeners.push(listener);
  fire = (value) => this.listeners.forEach((listener) => listener(value));
}

const vscode = {
  EventEmitter,
  workspace: {
    textDocuments: [],
    getConfiguration: () => ({ get: (name) => settings[name], ...settings }),
    registerTextDocumentContentProvider: (scheme, provider) => (providers[scheme] = provider),
    onDidSaveTextDocument: (listener) => (listeners.save = listener),
    onDidChangeConfiguration: (listener) => (listeners.settings = listener),
  },
  commands: { registerCommand: (name, act) => (commands[name] = act) },
  window: { showErrorMessage: (text) => shown.push(text) },
};

const load = Module._load;
Module._load = (name, ...rest) => {
  if (name === "vscode") return vscode;
  if (name === "vscode-languageclient/node") return { LanguageClient: Client };
  return load(name, ...rest);
};

async function activated(failing) {
  [settings, shown, clients, providers, commands, listeners] = [{ path: "pullback" }, [], [], {}, {}, {}];
  fails = failing;
  delete require.cache[require.resolve("../extension.js")];
  const extension = require("../extension.js");
  const context = { subscriptions: [] };
  await extension.activate(context);
  assert.strictEqual(context.subscriptions.length, 5);
  return extension;
}

const running = () => clients.filter((client) => client.isRunning());
const changed = (name) => listeners.settings({ affectsConfiguration: (asked) => asked === name });

async function main() {
  const extension = await activated(false);
  assert.strictEqual(running().length, 1);
  assert.deepStrictEqual(clients[0].server, { command: "pullback", args: ["lsp"] });
  const capabilities = { experimental: { other: 1 } };
  clients[0].features.forEach((feature) => feature.fillClientCapabilities(capabilities));
  assert.deepStrictEqual(capabilities.experimental, { other: 1, virtualDocuments: true });

  const uri = (text) => ({ scheme: text.split(":")[0], toString: () => text });
  const core = providers["pullback-core"];
  assert.strictEqual(await core.provideTextDocumentContent(uri("pullback-core:a")), "the text of pullback-core:a");
  const missing = await core.provideTextDocumentContent(uri("pullback-core:missing"));
  assert.strictEqual(missing, "// there is no such document\n// at all\n");
  const fired = [];
  providers["pullback-derivative"].onDidChange((of) => fired.push(of.toString()));
  vscode.workspace.textDocuments = ["pullback-derivative:f", "file:g"].map((text) => ({ uri: uri(text) }));
  listeners.save();
  assert.deepStrictEqual(fired, ["pullback-derivative:f"]);

  // Another setting restarts nothing, and several restarts at once leave one server.
  changed("pullback.codeLens");
  settings.path = "other";
  changed("pullback.path");
  commands["pullback.restart"]();
  await commands["pullback.restart"]();
  assert.strictEqual(clients.length, 4);
  assert.deepStrictEqual(running().map((client) => client.server.command), ["other"]);
  await extension.deactivate();
  assert.strictEqual(running().length, 0);

  // A program that does not start is told, and the right path starts another.
  await activated(true);
  assert(shown.length === 1 && shown[0].includes("'pullback lsp' does not start") && shown[0].includes("pullback.path"));
  fails = false;
  settings.path = "right";
  changed("pullback.path");
  await commands["pullback.restart"]();
  assert.deepStrictEqual(running().map((client) => client.server.command), ["right"]);
  console.log("the extension starts, restarts and stops the server");
}

main().catch((error) => {
  console.error(error.stack);
  process.exit(1);
});
