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

use super::picture::Picture;
#[cfg(not(target_family = "wasm"))]
use crate::report;
#[cfg(not(target_family = "wasm"))]
use crate::server::{self, Content};

#[cfg(not(target_family = "wasm"))]
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
        let shown = Arc::new(Mutex::new(Shown::default()));
        serve(port, shown.clone())?;
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
        show(&shown)
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

/// Serves the page, and tells the address.
#[cfg(not(target_family = "wasm"))]
fn serve(port: u16, shown: Arc<Mutex<Shown>>) -> Result<(), Error> {
    let (address, _) = server::serve(port, "--watch", move |path| match path {
        "/" => Some(Content::html(PAGE)),
        "/numbers" => {
            Some(Content { kind: "application/json", bytes: lock(&shown).numbers.clone().into_bytes() })
        }
        "/picture.png" => Some(Content { kind: "image/png", bytes: lock(&shown).picture.clone() }),
        _ => None,
    })?;
    report::err(&format!("watch this fit at http://{address}\n"));
    Ok(())
}

/// In a browser there is a page already, which finds what is to be shown in files: see [`show`].
#[cfg(target_family = "wasm")]
fn serve(_: u16, _: Arc<Mutex<Shown>>) -> Result<(), Error> {
    driver::files::prepare_folder(std::path::Path::new("watch"))
}

/// Writes what is to be shown, for a host that is no system with sockets.
fn show(shown: &Shown) -> Result<(), Error> {
    if cfg!(target_family = "wasm") {
        let folder = std::path::Path::new("watch");
        driver::files::write(&folder.join("picture.png"), &shown.picture)?;
        driver::files::write(&folder.join("numbers.json"), shown.numbers.as_bytes())?;
    }
    Ok(())
}

/// The most parameters that are shown.
const MOST_SHOWN: usize = 64;
