//! `--watch`: a page at a local address that shows the loss, the parameters, the picture and the speed of a fit while
//! it runs.
//!
//! The fit leaves what is to be shown in a shared place from time to time; the server's thread answers requests for the
//! page, for the numbers as JSON and for the picture of each view from there. Only this machine can connect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
/// The least number of seconds between two updates of what is shown.
const EVERY: f64 = 0.5;
/// The share of a fit's time that updates take at most.
const SHARE: f64 = 0.1;

/// The content of the page.
#[derive(Default)]
struct Shown {
    /// The numbers, as JSON.
    numbers: String,
    /// The picture of each view.
    pictures: Vec<Picture>,
}

/// A picture as PNG.
fn packed(picture: &Picture) -> Option<Vec<u8>> {
    pictures::to_png(&picture.to_array()).ok()
}

/// The page of a fit.
pub(super) struct Watch {
    shown: Arc<Mutex<Shown>>,
    title: String,
    /// The last values of the metrics.
    pub(super) metrics: Vec<(String, f64)>,
    /// When the next update is due, in seconds from the begin.
    next: f64,
    /// The number of times that pictures were made.
    made: u64,
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Serves the page at the port of this machine, 0 for any that is free, and tells the address.
    pub(super) fn new(port: u16, title: &str) -> Result<Watch, Error> {
        let shown = Arc::new(Mutex::new(Shown::default()));
        serve(port, shown.clone())?;
        Ok(Watch { shown, title: title.into(), metrics: Vec::new(), next: f64::NEG_INFINITY, made: 0 })
    }

    /// Returns true if it is time for an update.
    pub(super) fn is_due(&self, elapsed: f64) -> bool {
        elapsed >= self.next
    }

    /// Updates what is shown by an up-to-date state; `status` says what the fit is doing.
    pub(super) fn update(
        &mut self,
        fit: &mut Fit,
        state: &State,
        (elapsed, speed): (f64, f64),
        status: &str,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        let pictures = self.pictures(fit, state)?;
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
            "metrics": self.metrics,
            "views": pictures.as_ref().map_or(0, Vec::len),
            "picture": self.made,
        });
        let mut shown = lock(&self.shown);
        shown.numbers = numbers.to_string();
        if let Some(pictures) = pictures {
            shown.pictures = pictures;
        }
        show(&shown)?;
        let took = begin.elapsed().as_secs_f64();
        self.next = elapsed + EVERY.max(took / SHARE);
        Ok(())
    }

    /// The pictures of all views, by the render function.
    fn pictures(&mut self, fit: &mut Fit, state: &State) -> Result<Option<Vec<Picture>>, Error> {
        if fit.items.views.is_empty() {
            return Ok(None);
        }
        let Some((numbers, channels)) = fit.render(&state.x)? else { return Ok(None) };
        if !matches!(channels, 1 | 3 | 4) || numbers.len() != fit.items.n * channels {
            return Ok(None);
        }
        let mut rest = &numbers[..];
        let pictures = fit.items.views.iter().map(|&(width, height)| {
            let (pixels, after) = rest.split_at(width * height * channels);
            rest = after;
            Picture::from_numbers(width, height, pixels)
        });
        self.made += 1;
        Ok(Some(pictures.collect()))
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
        _ => {
            let view = path.strip_prefix("/picture/")?.strip_suffix(".png")?.parse().ok()?;
            // The fit does not wait while a picture is packed.
            let picture: Picture = lock(&shown).pictures.get::<usize>(view)?.clone();
            Some(Content { kind: "image/png", bytes: packed(&picture)? })
        }
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
        driver::files::write(
            &folder.join("picture.png"),
            &shown.pictures.first().and_then(packed).unwrap_or_default(),
        )?;
        driver::files::write(&folder.join("numbers.json"), shown.numbers.as_bytes())?;
    }
    Ok(())
}

/// The most parameters that are shown.
const MOST_SHOWN: usize = 64;
