//! Shows a lens on each differentiable function: its derivative as source, a check of it at random points, and an estimate
//! of rounding errors, which hints beside the variables show.
//!
//! All are run on threads of their own, where there are threads, which send the answer when they are done.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ide::Rounding;
use lsp_server::{ErrorCode, Message, Notification, RequestId, Response};
use lsp_types::{CodeLens, CodeLensParams, Command, ExecuteCommandParams};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::capabilities::{DERIVE, GRADCHECK, ROUNDING, SHOW_DERIVATIVE};
use crate::uri::{derivative, of_derivative};
use crate::worker::Worker;
use crate::{Server, core_files, guarded};

/// Results, by document and function; each holds for one text of the document.
type Results<R> = FxHashMap<(String, String), (Arc<str>, R)>;

/// The state of lenses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lenses {
    checked: Arc<Mutex<Results<String>>>,
    rounded: Arc<Mutex<Results<Rounding>>>,
}

impl Lenses {
    /// The figures to show beside the variables of a document with this text, at offsets, and an explanation of each. Of
    /// several functions, the figures of each are shown.
    pub(crate) fn hints(&self, uri: &str, text: &Arc<str>) -> Vec<(u32, String, String)> {
        let rounded = self.rounded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut functions: Vec<_> =
            rounded.iter().filter(|((of, _), (known, _))| of == uri && known == text).collect();
        functions.sort_by_key(|((_, function), _)| function.as_str());
        functions.into_iter().flat_map(|(_, (_, found))| found.hints.iter().cloned()).collect()
    }
}

impl Server {
    pub(crate) fn lenses(&mut self, params: CodeLensParams) -> Option<Vec<CodeLens>> {
        if self.config.hides_lenses {
            return Some(Vec::new());
        }
        let uri = params.text_document.uri;
        let encoding = self.encoding;
        let text = self.documents.get(&uri)?.text.clone();
        let checked = self.lenses.checked.clone();
        let checked = checked.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded = self.lenses.rounded.clone();
        let rounded = rounded.lock().unwrap_or_else(PoisonError::into_inner);
        let analysis = self.documents.analysis(&uri)?;
        let mut found = Vec::new();
        for lens in analysis.lenses() {
            if lens.why_not.is_some() {
                continue;
            }
            let file = analysis.sources().files.get(lens.span.file.0 as usize)?;
            let range = encoding.range(file, lens.span);
            let key = (uri.as_str().to_string(), lens.function.clone());
            let result = checked.get(&key).filter(|(of, _)| *of == text).map(|(_, result)| result.clone());
            let error = rounded.get(&key).filter(|(of, _)| *of == text).map(|(_, found)| found.title.clone());
            let command = |title: &str, command: &str, arguments: Vec<Value>| CodeLens {
                range,
                command: Some(Command::new(title.into(), command.into(), Some(arguments))),
                data: None,
            };
            let own = || vec![json!(uri.as_str()), json!(lens.function)];
            for (mode, title) in [("fwd", "forward derivative"), ("bwd", "backward derivative")] {
                let mut arguments = own();
                arguments.push(json!(mode));
                found.push(command(title, SHOW_DERIVATIVE, arguments));
            }
            found.push(command(result.as_deref().unwrap_or("check gradient"), GRADCHECK, own()));
            found.push(command(error.as_deref().unwrap_or("rounding error"), ROUNDING, own()));
        }
        Some(found)
    }

    /// Runs a command. The answer is sent now if it is an error, and later otherwise.
    pub(crate) fn execute(&mut self, id: RequestId, params: Value) -> Option<Response> {
        let invalid = |message: &str| {
            Some(Response::new_err(id.clone(), ErrorCode::InvalidParams as i32, message.to_string()))
        };
        let Ok(params) = serde_json::from_value::<ExecuteCommandParams>(params) else {
            return invalid("this is no command");
        };
        let argument = |k: usize| params.arguments.get(k).and_then(Value::as_str).map(str::to_string);
        let (Some(uri), Some(function)) = (argument(0), argument(1)) else {
            return invalid("the arguments are a document and the name of a function");
        };
        let Ok(parsed) = uri.parse() else { return invalid("this is no document") };
        let Some(document) = self.documents.get(&parsed) else { return invalid("the document is not open") };
        let (path, text, options) = (document.path.clone(), document.text.clone(), self.documents.options());
        let mode = argument(2).unwrap_or_else(|| "bwd".to_string());
        let (send, client) = (self.send.clone(), self.client);
        let (results, rounded) = (self.lenses.checked.clone(), self.lenses.rounded.clone());
        let (shows, refreshes, hints) = (self.new_id(), self.new_id(), self.new_id());
        let ask = move |id: RequestId, method: &str, params: Value| {
            let _ = send(Message::Request(lsp_server::Request { id, method: method.into(), params }));
        };
        let work: Box<dyn FnOnce() -> Result<Value, String> + Send> = match &params.command[..] {
            DERIVE => Box::new(move || Ok(json!(ide::derivative(&options, &path, &function, &mode)?))),
            SHOW_DERIVATIVE => Box::new(move || {
                let text = ide::derivative(&options, &path, &function, &mode)?;
                let name = derivative(&uri, &function, &mode);
                let shown = if client.has_virtual_documents {
                    name
                } else {
                    let file = Path::new("derivatives")
                        .join(format!("{}.{mode}.slang", function.replace("::", ".")));
                    core_files::copy(&file, &text).map_or(name, |copy| crate::uri::to_uri(&copy))
                };
                if client.shows_documents {
                    ask(shows, "window/showDocument", json!({ "uri": shown, "takeFocus": true }));
                }
                Ok(json!({ "uri": shown, "text": text }))
            }),
            GRADCHECK => {
                let say = self.send.clone();
                Box::new(move || {
                    let (agrees, result) = ide::gradcheck(&options, &path, &function)?;
                    let title = if agrees { "gradient agrees" } else { "GRADIENT DIFFERS" };
                    let mut checked = results.lock().unwrap_or_else(PoisonError::into_inner);
                    checked.insert((uri, function), (text, title.to_string()));
                    drop(checked);
                    // 2: a warning, 3: an information
                    let params = json!({ "type": if agrees { 3 } else { 2 }, "message": result });
                    let message = Notification { method: "window/showMessage".into(), params };
                    let _ = say(Message::Notification(message));
                    if client.refreshes_lenses {
                        ask(refreshes, "workspace/codeLens/refresh", Value::Null);
                    }
                    Ok(json!({ "agrees": agrees, "text": result }))
                })
            }
            ROUNDING => Box::new(move || {
                let found = ide::rounding(&options, &path, &function)?;
                let title = found.title.clone();
                let mut rounded = rounded.lock().unwrap_or_else(PoisonError::into_inner);
                rounded.insert((uri, function), (text, found));
                drop(rounded);
                if client.refreshes_lenses {
                    ask(refreshes, "workspace/codeLens/refresh", Value::Null);
                }
                if client.refreshes_hints {
                    ask(hints, "workspace/inlayHint/refresh", Value::Null);
                }
                Ok(json!({ "text": title }))
            }),
            _ => return invalid("there is no such command"),
        };
        let send = self.send.clone();
        let of_thread = id.clone();
        let run = move || {
            let answer =
                guarded(work).unwrap_or_else(|| Err("the compiler has failed; this is a bug".into()));
            let response = match answer {
                Ok(value) => Response::new_ok(of_thread, value),
                Err(reason) => Response::new_err(of_thread, ErrorCode::RequestFailed as i32, reason),
            };
            let _ = send(Message::Response(response));
        };
        if let Worker::Here(_) = self.worker {
            run();
            return None;
        }
        let thread = std::thread::Builder::new().name("lens".into()).stack_size(1 << 30);
        match thread.spawn(run) {
            Ok(_) => None,
            Err(error) => Some(Response::new_err(id, ErrorCode::RequestFailed as i32, error.to_string())),
        }
    }

    /// The text of a document that is no file.
    pub(crate) fn content(&mut self, params: Value) -> Result<Value, String> {
        let uri = params["uri"].as_str().ok_or("there is no URI")?;
        let text = match (core_files::of_virtual_uri(uri), of_derivative(uri)) {
            (Some(name), _) => driver::session::core_text(name).map(str::to_string),
            (None, Some((source, function, mode))) => {
                let source = source.parse().map_err(|_| "this is no document".to_string())?;
                let document = self.documents.get(&source).ok_or("the document is not open")?;
                Some(ide::derivative(&self.documents.options(), &document.path, &function, &mode)?)
            }
            (None, None) => None,
        };
        text.map(|text| json!({ "text": text })).ok_or_else(|| format!("there is no document `{uri}`"))
    }
}
