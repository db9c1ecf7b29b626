//! Checks documents, on another thread where there are threads, and publishes their diagnostics.
//!
//! The thread gets the state of all documents after each edit. It begins with the newest one, and stops as soon as
//! there is a newer one; what it has found until then is kept ([`ide::Checker`]), so that even an editor that never
//! pauses gets ahead.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver::session::FileOptions;
use ide::{Checked, Checker};
use lsp_types::Uri;

use crate::diagnostics::Publisher;
use crate::guarded;
use crate::position::Encoding;

/// The time without edits after which documents are checked: no longer than the pause between two letters.
const QUIET: Duration = Duration::from_millis(25);

/// The state of the documents after an edit.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) options: FileOptions,
    pub(crate) documents: Vec<Named>,
    number: u64,
}

/// An open document, without its text.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) uri: Uri,
    pub(crate) path: PathBuf,
    pub(crate) version: i32,
}

/// The server's end of the checks.
pub(crate) enum Worker {
    /// They are made on a thread.
    Thread {
        /// Where the thread gets its jobs from.
        sender: Sender<Job>,
        /// The number of the newest job.
        newest: Arc<AtomicU64>,
    },
    /// They are made at once, on the caller's thread.
    Here(Mutex<Checks>),
}

impl Worker {
    /// Starts the thread, which sends to the editor by itself. It ends when the server does.
    pub(crate) fn start(send: crate::Say, encoding: Encoding) -> std::io::Result<Worker> {
        let (sender, receiver) = channel();
        let newest = Arc::new(AtomicU64::new(0));
        let of_thread = newest.clone();
        std::thread::Builder::new()
            .name("check".into())
            // As `driver::on_large_stack`; memory is only committed as the stack grows.
            .stack_size(1 << 30)
            .spawn(move || work(&receiver, &of_thread, Checks::new(send, encoding)))?;
        Ok(Worker::Thread { sender, newest })
    }

    /// A worker that has no thread.
    pub(crate) fn here(send: crate::Say, encoding: Encoding) -> Worker {
        Worker::Here(Mutex::new(Checks::new(send, encoding)))
    }

    /// Has the documents checked, instead of those in earlier states.
    pub(crate) fn check(&self, options: FileOptions, documents: Vec<Named>) {
        match self {
            Worker::Thread { sender, newest } => {
                let number = newest.fetch_add(1, Ordering::SeqCst) + 1;
                // The thread is gone if it could not send, and then the editor is gone, too.
                let _ = sender.send(Job { options, documents, number });
            }
            Worker::Here(checks) => {
                let mut checks = checks.lock().unwrap_or_else(PoisonError::into_inner);
                checks.make(&Job { options, documents, number: 0 }, &|| false);
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Worker::Thread { newest, .. } = self {
            newest.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn work(receiver: &Receiver<Job>, newest: &AtomicU64, mut checks: Checks) {
    while let Ok(mut job) = receiver.recv() {
        while let Ok(newer) = receiver.recv_timeout(QUIET) {
            job = newer;
        }
        if !checks.make(&job, &|| newest.load(Ordering::SeqCst) != job.number) {
            return;
        }
    }
}

/// Checks documents and publishes what is found.
pub(crate) struct Checks {
    checkers: Vec<(PathBuf, FileOptions, Checker)>,
    publisher: Publisher,
}

impl Checks {
    fn new(send: crate::Say, encoding: Encoding) -> Checks {
        Checks { checkers: Vec::new(), publisher: Publisher::new(send, encoding) }
    }

    /// Checks the documents of a job, until `stop`. Returns false if the editor is gone.
    fn make(&mut self, job: &Job, stop: &dyn Fn() -> bool) -> bool {
        let Checks { checkers, publisher } = self;
        checkers.retain(|(path, options, _)| {
            job.documents.iter().any(|d| d.path == *path) && same_settings(options, &job.options)
        });
        let mut all: Vec<Checked> = Vec::new();
        for document in &job.documents {
            let at = checkers.iter().position(|c| c.0 == document.path).unwrap_or_else(|| {
                let options = FileOptions { open: Vec::new(), ..job.options.clone() };
                checkers.push((document.path.clone(), options, Checker::new()));
                checkers.len() - 1
            });
            let checker = &mut checkers[at].2;
            let is_only = job.documents.len() == 1;
            let mut first = |checked: Checked| {
                if is_only && !stop() {
                    publisher.publish(job, &[checked], true);
                }
            };
            let found = guarded(|| checker.check(&job.options, &document.path, stop, &mut first));
            match found {
                Some(Ok(Some(checked))) => all.push(checked),
                Some(Ok(None)) => break,
                // Files that cannot be read have no diagnostics.
                Some(Err(_)) => {}
                // What is known may be wrong after a panic.
                None => checkers[at].2 = Checker::new(),
            }
        }
        stop() || publisher.publish(job, &all, false) && publisher.say_checked(job)
    }
}

fn same_settings(a: &FileOptions, b: &FileOptions) -> bool {
    a.defines == b.defines && a.include_dirs == b.include_dirs
}
