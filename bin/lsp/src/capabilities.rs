//! States what the server can do, and reads what the editor can.

use ide::{TokenKind, TokenModifier};
use lsp_types::InitializeParams;
use serde_json::{Value, json};

use crate::position::Encoding;

/// The commands that the editor can have run, by lenses and by hand.
pub(crate) const SHOW_DERIVATIVE: &str = "pullback.showDerivative";
pub(crate) const DERIVE: &str = "pullback.derive";
pub(crate) const GRADCHECK: &str = "pullback.gradcheck";
pub(crate) const ROUNDING: &str = "pullback.rounding";

pub(crate) fn capabilities(encoding: Encoding) -> Value {
    json!({
        "positionEncoding": match encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
        },
        "textDocumentSync": { "openClose": true, "change": 2, "save": { "includeText": false } },
        "hoverProvider": true,
        "definitionProvider": true,
        "referencesProvider": true,
        "documentHighlightProvider": true,
        "documentSymbolProvider": true,
        "workspaceSymbolProvider": true,
        "foldingRangeProvider": true,
        "documentFormattingProvider": true,
        "documentRangeFormattingProvider": true,
        "documentOnTypeFormattingProvider": { "firstTriggerCharacter": "}", "moreTriggerCharacter": [";", "\n"] },
        "renameProvider": { "prepareProvider": true },
        "completionProvider": { "triggerCharacters": [".", ":", ">", "["] },
        "signatureHelpProvider": { "triggerCharacters": ["(", ","], "retriggerCharacters": [")"] },
        "codeActionProvider": { "codeActionKinds": ["quickfix", "refactor.rewrite"] },
        "inlayHintProvider": true,
        "codeLensProvider": { "resolveProvider": false },
        "semanticTokensProvider": {
            "legend": { "tokenTypes": TokenKind::NAMES, "tokenModifiers": TokenModifier::NAMES },
            "full": { "delta": true },
            "range": true,
        },
        "executeCommandProvider": { "commands": [SHOW_DERIVATIVE, DERIVE, GRADCHECK, ROUNDING] },
        "workspace": {
            "workspaceFolders": { "supported": true, "changeNotifications": true },
            "textDocumentContent": { "schemes": ["pullback-core", "pullback-derivative"] },
        },
    })
}

/// The editor's abilities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    /// It answers `workspace/configuration`.
    pub(crate) has_settings: bool,
    /// It can be asked to say when settings change.
    pub(crate) registers_settings: bool,
    /// It can be asked to say when files change.
    pub(crate) registers_files: bool,
    /// It shows documents that are no files, and asks for their content.
    pub(crate) has_virtual_documents: bool,
    /// It shows a document when it is asked to.
    pub(crate) shows_documents: bool,
    /// It asks for lenses again when it is told to.
    pub(crate) refreshes_lenses: bool,
    /// It asks for hints again when it is told to.
    pub(crate) refreshes_hints: bool,
    /// It knows places in the texts of completions.
    pub(crate) has_snippets: bool,
}

impl Client {
    pub(crate) fn of(params: &InitializeParams) -> Client {
        let all = serde_json::to_value(&params.capabilities).unwrap_or_default();
        let has = |pointer: &str| all.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        Client {
            has_settings: has("/workspace/configuration"),
            registers_settings: has("/workspace/didChangeConfiguration/dynamicRegistration"),
            registers_files: has("/workspace/didChangeWatchedFiles/dynamicRegistration"),
            // `lsp-types` does not know `workspace.textDocumentContent` of version 3.18 yet.
            has_virtual_documents: has("/experimental/virtualDocuments"),
            shows_documents: has("/window/showDocument/support"),
            refreshes_lenses: has("/workspace/codeLens/refreshSupport"),
            refreshes_hints: has("/workspace/inlayHint/refreshSupport"),
            has_snippets: has("/textDocument/completion/completionItem/snippetSupport"),
        }
    }
}
