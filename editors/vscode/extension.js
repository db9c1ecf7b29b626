// Starts `pullback lsp` and restarts it when its settings change. All answers come from there.
"use strict";

const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function settings() {
  const config = vscode.workspace.getConfiguration("pullback");
  const root = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return {
    command: config.get("path"),
    includeDirs: config.get("includeDirs").map((dir) => path.resolve(root, dir)),
    defines: config.get("defines"),
  };
}

async function start() {
  const { command, includeDirs, defines } = settings();
  client = new LanguageClient(
    "pullback",
    "Pullback",
    { command, args: ["lsp"] },
    {
      documentSelector: [{ language: "slang", scheme: "file" }],
      initializationOptions: { includeDirs, defines },
    },
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`'${command} lsp' does not start: ${error}. See the setting pullback.path.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async (context) => {
  context.subscriptions.push(
    vscode.commands.registerCommand("pullback.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("pullback")) restart();
    }),
  );
  await start();
};

exports.deactivate = stop;
