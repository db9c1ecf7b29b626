// Starts `pullback lsp`, and restarts it when the path of the program changes. All answers come from there; what is
// here is what the protocol leaves to the editor: documents that are no files.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

// Tells the server that this editor shows documents of its schemes, and asks for their content.
const virtualDocuments = {
  fillClientCapabilities(capabilities) {
    capabilities.experimental = { ...capabilities.experimental, virtualDocuments: true };
  },
  initialize() {},
  getState: () => ({ kind: "static" }),
  clear() {},
};

// The core library (pullback-core:) and derivatives (pullback-derivative:).
class Content {
  changed = new vscode.EventEmitter();
  onDidChange = this.changed.event;

  async provideTextDocumentContent(uri) {
    try {
      const answer = await client.sendRequest("workspace/textDocumentContent", { uri: uri.toString() });
      return answer.text;
    } catch (error) {
      return `// ${error.message.replaceAll("\n", "\n// ")}\n`;
    }
  }

  // Derivatives that are open follow their source.
  refresh() {
    for (const document of vscode.workspace.textDocuments) {
      if (document.uri.scheme === "pullback-derivative") this.changed.fire(document.uri);
    }
  }
}

async function start() {
  const command = vscode.workspace.getConfiguration("pullback").get("path");
  client = new LanguageClient(
    "pullback",
    "Pullback",
    { command, args: ["lsp"] },
    {
      documentSelector: [
        { language: "slang", scheme: "file" },
        { language: "slang", scheme: "untitled" },
      ],
      initializationOptions: vscode.workspace.getConfiguration("pullback"),
      synchronize: { configurationSection: "pullback" },
    },
  );
  client.registerFeature(virtualDocuments);
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`'${command} lsp' does not start: ${error}. See the setting pullback.path.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  // A client that did not start cannot be stopped.
  if (running?.isRunning()) await running.stop();
}

// The last restart that was asked for: each waits for the one before it, so that one server runs in the end.
let restarted = Promise.resolve();

function restart() {
  restarted = restarted.then(stop).then(start);
  return restarted;
}

exports.activate = async (context) => {
  const content = new Content();
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider("pullback-core", content),
    vscode.workspace.registerTextDocumentContentProvider("pullback-derivative", content),
    vscode.workspace.onDidSaveTextDocument(() => content.refresh()),
    vscode.commands.registerCommand("pullback.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("pullback.path")) restart();
    }),
  );
  restarted = start();
  await restarted;
};

exports.deactivate = stop;
