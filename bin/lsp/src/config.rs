//! Reads the editor's settings.

use std::path::{Path, PathBuf};

use driver::session::FileOptions;
use ide::HintOptions;
use serde_json::Value;

/// The settings of the section `pullback`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) include_dirs: Vec<PathBuf>,
    pub(crate) defines: Vec<(String, String)>,
    pub(crate) hints: HintOptions,
    /// No lenses are shown.
    pub(crate) hides_lenses: bool,
}

impl Config {
    /// `{"includeDirs":[…],"defines":["NAME=V"],"inlayHints":{"parameterNames":…},"codeLens":…}`; what is not there
    /// has its default.
    pub(crate) fn of(settings: &Value) -> Config {
        let strings = |key: &str| -> Vec<String> {
            let list = settings.get(key).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_string)).collect()
        };
        let define = |text: &String| match text.split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (text.clone(), "1".to_string()),
        };
        let is_on = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(true);
        let hint = |key: &str| is_on(settings.get("inlayHints").and_then(|hints| hints.get(key)));
        Config {
            defines: strings("defines").iter().map(define).collect(),
            include_dirs: strings("includeDirs").into_iter().map(PathBuf::from).collect(),
            hints: HintOptions {
                parameters: hint("parameterNames"),
                types: hint("types"),
                active: hint("active"),
            },
            hides_lenses: !is_on(settings.get("codeLens")),
        }
    }

    /// The options for reading files; folders are relative to the one given.
    pub(crate) fn files(&self, folder: Option<&Path>) -> FileOptions {
        let absolute = |dir: &PathBuf| folder.map_or_else(|| dir.clone(), |folder| folder.join(dir));
        FileOptions {
            defines: self.defines.clone(),
            include_dirs: self.include_dirs.iter().map(absolute).collect(),
            ..FileOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_set_has_its_default() {
        assert_eq!(Config::of(&Value::Null), Config::default());
        assert_eq!(Config::of(&json!({ "defines": 3, "codeLens": "no" })), Config::default());
        let config = Config::of(&json!({
            "includeDirs": ["lib", "/abs"], "defines": ["A", "B=2"],
            "inlayHints": { "types": false }, "codeLens": false,
        }));
        assert!(config.hides_lenses && !config.hints.types && config.hints.active);
        assert_eq!(config.defines, [("A".into(), "1".into()), ("B".into(), "2".into())]);
        let files = config.files(Some(Path::new("/w")));
        assert_eq!(files.include_dirs, [PathBuf::from("/w/lib"), PathBuf::from("/abs")]);
    }
}
