//! Logs of a fit: a table as CSV, and the events that TensorBoard reads.
//!
//! TensorBoard's file is a sequence of TFRecords: the length of the data (64 bits, little-endian), a checksum of the
//! length, the data, and a checksum of the data. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. The
//! data is an `Event` as a protocol buffer: `wall_time` (1, double), `step` (2, varint), and `file_version` (3) or
//! `summary` (5), which has a `value` (1) with a `tag` (1) and a `simple_value` (2, float).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use driver::fit::state::State;
use driver::{Error, files};

use crate::report;

/// The columns of every table.
const COLUMNS: [&str; 4] = ["step", "seconds", "loss", "validation"];

/// The tag of the loss of the items kept apart.
const VALIDATION: &str = "validation loss";

/// The logs that are written while a fit runs.
pub(super) struct Logs {
    files: Vec<Log>,
    /// The names of the metrics, as columns and tags.
    metrics: Vec<String>,
    /// The step of the last loss that was taken, and the number of losses of the items kept apart.
    taken: (Option<f64>, usize),
    /// The row of the last step, which is written when there is a later one.
    row: Row,
    /// The first error. The fit goes on without a log that cannot be written.
    failed: Option<Error>,
}

struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    is_events: bool,
}

/// The numbers of a step.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    step: f64,
    seconds: f64,
    /// The loss, that of the items kept apart, and the metrics.
    numbers: BTreeMap<usize, f64>,
}

impl Logs {
    /// Begins the logs that are asked for. A fit that is resumed goes on with the table, after the steps of `state`, and
    /// begins another file of events.
    pub(super) fn new(
        csv: Option<&Path>,
        tensorboard: Option<&Path>,
        metrics: &[String],
        state: &State,
    ) -> Result<Logs, Error> {
        let mut logs = Logs {
            files: Vec::new(),
            metrics: metrics.iter().map(|name| column(name)).collect(),
            taken: (state.history.last().map(|h| h.0), state.validation.len()),
            row: Row::default(),
            failed: None,
        };
        if let Some(path) = csv {
            let header = [&COLUMNS.map(String::from)[..], &logs.metrics].concat().join(",") + "\n";
            let text = match state.step {
                0 => header,
                step => continued(path, &header, step)?,
            };
            files::write(path, text.as_bytes())?;
            logs.open(path.to_path_buf(), OpenOptions::new().append(true), false)?;
        }
        if let Some(folder) = tensorboard {
            files::prepare_folder(folder)?;
            // A name must have the word `tfevents`, and the files of a folder are read in the order of their names.
            let name = format!("events.out.tfevents.{}.pullback", now() as u64);
            let names = std::iter::once(name.clone()).chain((1..).map(|k| format!("{name}.{k}")));
            let path = names.map(|name| folder.join(name)).find(|path| !path.exists());
            logs.open(path.unwrap_or_default(), OpenOptions::new().write(true).create_new(true), true)?;
            let mut version = wall_time();
            bytes_field(&mut version, 3, b"brain.Event:2");
            logs.write(|log| if log.is_events { record(&version) } else { Vec::new() });
        }
        Ok(logs)
    }

    fn open(&mut self, path: PathBuf, how: &OpenOptions, is_events: bool) -> Result<(), Error> {
        let file = how.open(&path).map_err(|e| Error::write(&path, files::plain(&e)))?;
        self.files.push(Log { path, file: BufWriter::new(file), is_events });
        Ok(())
    }

    /// Returns true if there is a use for metrics.
    pub(super) fn wants_metrics(&self) -> bool {
        !self.files.is_empty()
    }

    /// Takes the last losses of the state, if they are not taken yet.
    pub(super) fn add(&mut self, state: &State) {
        let last = state.latest.filter(|l| Some(l.0) != self.taken.0);
        let apart = state.validation.get(self.taken.1..).unwrap_or_default().last().copied();
        self.taken = (last.map_or(self.taken.0, |l| Some(l.0)), state.validation.len());
        for (column, pair) in [last, apart].into_iter().enumerate() {
            if let Some((step, x)) = pair {
                self.put(step, state.seconds, column, x);
            }
        }
    }

    /// Takes the metrics at the state's point.
    pub(super) fn add_metrics(&mut self, state: &State, metrics: &[(String, f64)]) {
        for (k, (_, x)) in metrics.iter().enumerate() {
            self.put(state.step as f64, state.seconds, 2 + k, *x);
        }
    }

    /// Takes a number. What is of one step is one row.
    fn put(&mut self, step: f64, seconds: f64, column: usize, x: f64) {
        if step != self.row.step {
            self.write_row();
            self.row = Row { step, ..Row::default() };
        }
        self.row.seconds = seconds;
        self.row.numbers.insert(column, x);
    }

    fn write_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        if row.numbers.is_empty() {
            return;
        }
        let tags = [&["loss", VALIDATION].map(String::from)[..], &self.metrics].concat();
        self.write(|log| {
            if log.is_events {
                let of = |(&k, &x): (&usize, &f64)| record(&event(row.step as u64, &tags[k], x as f32));
                return row.numbers.iter().flat_map(of).collect();
            }
            let cells = (0..tags.len()).map(|k| row.numbers.get(&k).map_or(String::new(), f64::to_string));
            format!("{},{:.3},{}\n", row.step, row.seconds, cells.collect::<Vec<_>>().join(",")).into_bytes()
        });
    }

    /// Writes what there is to the files.
    pub(super) fn flush(&mut self) {
        self.write_row();
        self.each(|log| log.file.flush());
    }

    /// Writes what is left; returns the first error of all writes.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, text: impl Fn(&Log) -> Vec<u8>) {
        self.each(|log| {
            let bytes = text(log);
            log.file.write_all(&bytes)
        });
    }

    /// Does something with each log, and ends those that fail.
    fn each(&mut self, mut act: impl FnMut(&mut Log) -> std::io::Result<()>) {
        let mut failed = Vec::new();
        self.files.retain_mut(|log| match act(log) {
            Ok(()) => true,
            Err(e) => {
                failed.push(Error::write(&log.path, files::plain(&e)));
                false
            }
        });
        for error in failed {
            report::err(&format!("warning: {error}; the fit goes on without this log\n"));
            self.failed.get_or_insert(error);
        }
    }
}

/// The column of a metric, whose name may be that of another column.
fn column(metric: &str) -> String {
    if COLUMNS.contains(&metric) || metric == VALIDATION {
        format!("metric {metric}")
    } else {
        metric.to_string()
    }
}

/// The text of a table up to a step, from which on the fit is resumed. The last line may have been cut off, and that of
/// the step itself is written again unless its loss is known.
fn continued(path: &Path, header: &str, step: u64) -> Result<String, Error> {
    if !path.is_file() {
        return Ok(header.to_string());
    }
    let text = files::read_text(path, files::DATA)?;
    let first = text.lines().next().unwrap_or_default();
    if !text.is_empty() && first != header.trim_end() {
        let why = format!("it has the columns `{first}`, this fit has `{}`", header.trim_end());
        return Err(Error::write(path, why));
    }
    let is_before = |line: &&str| {
        let cells: Vec<&str> = line.split(',').collect();
        let has_loss = cells.get(2).is_some_and(|loss| !loss.is_empty());
        let is_known = |of: f64| of < step as f64 || of == step as f64 && has_loss;
        line.ends_with('\n') && cells[0].parse().is_ok_and(is_known)
    };
    Ok(header.to_string() + &text.split_inclusive('\n').skip(1).filter(is_before).collect::<String>())
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// An event with nothing but the time.
fn wall_time() -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(now().to_le_bytes());
    event
}

/// An event with a number of that tag.
fn event(step: u64, tag: &str, x: f32) -> Vec<u8> {
    let mut value = Vec::new();
    bytes_field(&mut value, 1, tag.as_bytes());
    value.push(2 << 3 | 5);
    value.extend(x.to_le_bytes());
    let mut summary = Vec::new();
    bytes_field(&mut summary, 1, &value);
    let mut event = wall_time();
    event.push(2 << 3);
    varint(&mut event, step);
    bytes_field(&mut event, 5, &summary);
    event
}

/// A field of a protocol buffer that holds bytes.
fn bytes_field(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    to.push(field << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn varint(to: &mut Vec<u8>, mut x: u64) {
    while x >= 0x80 {
        to.push(x as u8 | 0x80);
        x >>= 7;
    }
    to.push(x as u8);
}

/// A TFRecord.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(masked(crc32c(&length)).to_le_bytes());
    bytes.extend(data);
    bytes.extend(masked(crc32c(data)).to_le_bytes());
    bytes
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32 with Castagnoli's polynomial, bit by bit: a log has few bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0x82f6_3b78 },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_documented_form() {
        // The check value of CRC-32C.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let data = event(300, "loss", 0.5);
        assert_eq!(data[0], 0x09);
        assert_eq!(data[9..14], [0x10, 0xac, 0x02, 0x2a, 0x0d]);
        assert_eq!(data[14..], *b"\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f");
        let bytes = record(&data);
        assert_eq!(bytes.len(), 8 + 4 + data.len() + 4);
        assert_eq!(bytes[..8], (data.len() as u64).to_le_bytes());
    }
}
