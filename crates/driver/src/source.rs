//! A program's text as it was first read, which can be compiled again and again.
//!
//! The syntax tree and the tables of a program are changed by each compilation, and are large. What a host keeps is
//! therefore the text of every file; each compilation reads it anew, and sees the same text although files may have
//! changed.

use std::path::{Path, PathBuf};

use syntax::Sources;

use crate::error::Failure;
use crate::pipeline::{self, Loaded, on_large_stack};
use crate::session::{FileOptions, Session};

/// The place that the program's root comes from.
#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    Text { name: String, text: String, folder: PathBuf },
}

/// A file and its imports, as they were when they were read.
#[derive(Clone, Debug)]
pub struct Source {
    origin: Origin,
    files: FileOptions,
    /// The number of texts in `files` that the host gave.
    given: usize,
}

/// A result of work on a program, with the sources that its places refer to.
pub type Outcome<T> = (Result<T, Failure>, Sources);

impl Source {
    /// Reads a file, its imports and what they import, and applies `work` to the program.
    pub fn from_file<T: Send>(
        path: &Path,
        files: FileOptions,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, Failure> + Send,
    ) -> Outcome<(Source, T)> {
        Source::read(Origin::File(path.to_path_buf()), files, work)
    }

    /// Reads a text in place of a file; `name` stands for it in diagnostics, and imports are searched for in `folder`.
    pub fn from_text<T: Send>(
        (name, text, folder): (&str, &str, &Path),
        files: FileOptions,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, Failure> + Send,
    ) -> Outcome<(Source, T)> {
        let origin =
            Origin::Text { name: name.to_string(), text: text.to_string(), folder: folder.to_path_buf() };
        Source::read(origin, files, work)
    }

    fn read<T: Send>(
        origin: Origin,
        files: FileOptions,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, Failure> + Send,
    ) -> Outcome<(Source, T)> {
        let given = files.open.len();
        let mut source = Source { origin, files, given };
        let (done, sources) = source.with(|session, loaded| {
            loaded.errors()?;
            work(session, loaded)
        });
        let done = done.map(|value| {
            let texts = sources.files.iter().map(|f| (PathBuf::from(&f.path), f.text.clone()));
            let read: Vec<_> = texts.filter(|(path, _)| path.is_file()).collect();
            source.files.open.extend(read);
            (source, value)
        });
        (done, sources)
    }

    /// The files that were read, with their texts.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.open[self.given..].iter().map(|(path, text)| (&**path, &**text))
    }

    /// A session that reads the texts that are kept.
    pub fn session(&self) -> Session {
        Session::new(self.files.clone())
    }

    /// Reads the program anew.
    pub fn load(&self, session: &mut Session) -> Result<Loaded, Failure> {
        match &self.origin {
            Origin::File(path) => Ok(pipeline::load(session, path)?),
            Origin::Text { name, text, folder } => {
                let mut program = session.program();
                let file = session.load_text(&mut program, name, text.clone(), folder);
                Ok(session.loaded(program, file))
            }
        }
    }

    /// Reads the program anew and applies `work` to it, on a stack that is large enough.
    pub fn with<T: Send>(
        &self,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, Failure> + Send,
    ) -> Outcome<T> {
        on_large_stack(|| {
            let mut session = self.session();
            let done = self.load(&mut session).and_then(|mut loaded| work(&mut session, &mut loaded));
            (done, session.sources)
        })
    }
}
