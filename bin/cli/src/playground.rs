//! `playground`: serves the page that runs the compiler in a browser.
//!
//! The page is a folder of files, which need no server but this one. A build with the feature `playground` has them.

use std::path::{Component, Path, PathBuf};

use driver::Error;
#[cfg(feature = "playground")]
use include_dir::{Dir, include_dir};

use crate::args::PlaygroundArgs;
use crate::report;
use crate::server::{self, Content};

#[cfg(feature = "playground")]
static PAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../target/site/playground");

/// The largest file of the page.
const MOST: u64 = 1 << 30;

pub(crate) fn playground(args: &PlaygroundArgs) -> u8 {
    match begin(args) {
        Ok(thread) => {
            // Until the process is ended.
            let _ = thread.join();
            0
        }
        Err(error) => {
            report::err(&format!("error[{}]: {error}\n", error.code()));
            1
        }
    }
}

fn begin(args: &PlaygroundArgs) -> Result<std::thread::JoinHandle<()>, Error> {
    let page = match &args.folder {
        Some(folder) if folder.join("index.html").is_file() => Page::Folder(folder.clone()),
        Some(folder) => {
            return Err(Error::input(format!("there is no page in `{}`", folder.display())));
        }
        None => Page::of_build()?,
    };
    let (address, thread) = server::serve(args.port, "--port", move |path| page.find(path))?;
    report::out(&format!("the playground is at http://{address}; Ctrl-C ends it\n"));
    Ok(thread)
}

/// Where the page's files are.
enum Page {
    Folder(PathBuf),
    #[cfg(feature = "playground")]
    Build,
}

impl Page {
    #[cfg(feature = "playground")]
    fn of_build() -> Result<Page, Error> {
        Ok(Page::Build)
    }

    #[cfg(not(feature = "playground"))]
    fn of_build() -> Result<Page, Error> {
        Err(Error::input(
            "this build lacks the playground's page: one with `--features playground` has it, after \
             `scripts/playground.sh`; `--folder` names a folder with the page",
        ))
    }

    /// The file at a path of an address.
    fn find(&self, path: &str) -> Option<Content> {
        let path = Path::new(path.trim_start_matches('/'));
        // Only what is below the folder.
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let path = if path.as_os_str().is_empty() { Path::new("index.html") } else { path };
        let bytes = match self {
            Page::Folder(folder) => driver::files::read(&folder.join(path), MOST).ok()?,
            #[cfg(feature = "playground")]
            Page::Build => PAGE.get_file(path)?.contents().to_vec(),
        };
        let kind = match path.extension()?.to_str()? {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "json" => "application/json",
            "wasm" => "application/wasm",
            "png" => "image/png",
            _ => "application/octet-stream",
        };
        Some(Content { kind, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn only_files_of_the_folder_are_served() {
        let folder = std::env::temp_dir().join(format!("pullback-playground-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("page/examples")).expect("a folder");
        std::fs::write(folder.join("secret.js"), "secret").expect("a file");
        std::fs::write(folder.join("page/index.html"), "<p>").expect("a file");
        std::fs::write(folder.join("page/examples/a.json"), "{}").expect("a file");
        let page = Page::Folder(folder.join("page"));
        assert_eq!(
            page.find("/").map(|c| (c.kind, c.bytes)),
            Some(("text/html; charset=utf-8", b"<p>".to_vec()))
        );
        assert_eq!(page.find("/examples/a.json").map(|c| c.kind), Some("application/json"));
        for path in ["/../secret.js", "/examples/../../secret.js", "/missing.js", "/examples", "//etc/passwd"]
        {
            assert!(page.find(path).is_none(), "{path}");
        }
        std::fs::remove_dir_all(&folder).expect("was made");
    }
}
