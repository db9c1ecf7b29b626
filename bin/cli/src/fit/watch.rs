//! `--watch`: a page at a local address that shows the loss, the parameters, the picture and the speed of a fit while
//! it runs.
//!
//! The fit leaves what is to be shown in a shared place from time to time; the server's thread answers requests for the
//! page, for the numbers as JSON and for the picture from there. Only this machine can connect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver::Error;
use driver::fit::Fit;
use driver::fit::state::State;
use driver::pictures;
use serde_json::json;
use tiny_http::{Header, Method, Response, Server};

use super::picture::Picture;
use crate::report;

const PAGE: &str = include_str!("watch.html");
/// Seconds between two updates of what is shown.
const EVERY: f64 = 0.5;

/// The content of the page.
#[derive(Default)]
struct Shown {
    /// The numbers, as JSON.
    numbers: String,
    /// The picture as PNG; empty if there is none.
    picture: Vec<u8>,
}

/// The page of a fit.
pub(super) struct Watch {
    shown: Arc<Mutex<Shown>>,
    title: String,
    last: f64,
    pictures: u64,
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Serves the page at the port of this machine, 0 for any that is free, and tells the address.
    pub(super) fn new(port: u16, title: &str) -> Result<Watch, Error> {
        let server = Server::http(("127.0.0.1", port))
            .map_err(|e| Error::input(format!("`--watch`: port {port} cannot be used: {e}")))?;
        report::err(&format!("watch this fit at http://{}\n", server.server_addr()));
        let shown = Arc::new(Mutex::new(Shown::default()));
        let to_serve = shown.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                let (kind, bytes) = match (request.method(), request.url().split('?').next()) {
                    (Method::Get, Some("/")) => ("text/html; charset=utf-8", PAGE.as_bytes().to_vec()),
                    (Method::Get, Some("/numbers")) => {
                        ("application/json", lock(&to_serve).numbers.clone().into_bytes())
                    }
                    (Method::Get, Some("/picture.png")) => ("image/png", lock(&to_serve).picture.clone()),
                    _ => {
                        let _ = request.respond(Response::empty(404));
                        continue;
                    }
                };
                let mut response = Response::from_data(bytes);
                for (name, value) in [("Content-Type", kind), ("Cache-Control", "no-store")] {
                    if let Ok(header) = Header::from_bytes(name, value) {
                        response.add_header(header);
                    }
                }
                // A browser that has gone is no error.
                let _ = request.respond(response);
            }
        });
        Ok(Watch { shown, title: title.into(), last: f64::NEG_INFINITY, pictures: 0 })
    }

    /// Returns true if it is time for an update.
    pub(super) fn is_due(&self, elapsed: f64) -> bool {
        elapsed - self.last >= EVERY
    }

    /// Updates what is shown by an up-to-date state; `status` says what the fit is doing.
    pub(super) fn update(
        &mut self,
        fit: &mut Fit,
        state: &State,
        (elapsed, speed): (f64, f64),
        status: &str,
    ) -> Result<(), Error> {
        self.last = elapsed;
        let picture = self.picture(fit, state)?;
        let parameters: Vec<(String, String)> = fit
            .paths
            .iter()
            .zip(&state.x)
            .enumerate()
            .take(MOST_SHOWN)
            .map(|(k, (path, &x))| (path.clone(), fit.text_of(k, x)))
            .collect();
        let numbers = json!({
            "title": self.title,
            "status": status,
            "step": state.step,
            "seconds": state.seconds,
            "speed": speed,
            "loss": state.history,
            "validation": state.validation,
            "parameters": parameters,
            "more": fit.paths.len().saturating_sub(MOST_SHOWN),
            "picture": self.pictures,
        });
        let mut shown = lock(&self.shown);
        shown.numbers = numbers.to_string();
        if let Some(picture) = picture {
            shown.picture = picture;
        }
        Ok(())
    }

    /// The first picture of the items, by the render function.
    fn picture(&mut self, fit: &mut Fit, state: &State) -> Result<Option<Vec<u8>>, Error> {
        let Some(&(width, height)) = fit.items.views.first() else { return Ok(None) };
        let Some((numbers, channels)) = fit.render(&state.x)? else { return Ok(None) };
        if !matches!(channels, 1 | 3 | 4) || numbers.len() < width * height * channels {
            return Ok(None);
        }
        let picture = Picture::from_numbers(width, height, &numbers[..width * height * channels]);
        self.pictures += 1;
        pictures::to_png(&picture.to_array()).map(Some).map_err(Error::Internal)
    }
}

/// The most parameters that are shown.
const MOST_SHOWN: usize = 64;
