//! Logs of a fit: a table as CSV, and the events that TensorBoard reads.
//!
//! TensorBoard's file is a sequence of TFRecords: the length of the data (64 bits, little-endian), a checksum of the
//! length, the data, and a checksum of the data. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. The
//! data is an `Event` as a protocol buffer: `wall_time` (1, double), `step` (2, varint), and `file_version` (3) or
//! `summary` (5), which has a `value` (1) with a `tag` (1) and a `simple_value` (2, float).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use driver::fit::state::State;
use driver::{Error, files};

/// The logs that are written while a fit runs.
pub(super) struct Logs {
    files: Vec<Log>,
    /// The numbers of losses, and of losses of the items kept apart, that are written.
    written: (Option<f64>, usize),
}

struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    is_events: bool,
}

impl Logs {
    /// Begins the logs that are asked for. A fit that is resumed begins new ones, after the steps of `state`.
    pub(super) fn new(csv: Option<&Path>, tensorboard: Option<&Path>, state: &State) -> Result<Logs, Error> {
        let mut logs =
            Logs { files: Vec::new(), written: (state.history.last().map(|h| h.0), state.validation.len()) };
        if let Some(path) = csv {
            logs.open(path.to_path_buf(), false)?;
            logs.write(
                |log| if log.is_events { Vec::new() } else { b"step,seconds,loss,validation\n".to_vec() },
            )?;
        }
        if let Some(folder) = tensorboard {
            files::prepare_folder(folder)?;
            let seconds = now() as u64;
            logs.open(folder.join(format!("events.out.tfevents.{seconds}.pullback")), true)?;
            let mut version = wall_time();
            bytes_field(&mut version, 3, b"brain.Event:2");
            logs.write(|log| if log.is_events { record(&version) } else { Vec::new() })?;
        }
        Ok(logs)
    }

    fn open(&mut self, path: PathBuf, is_events: bool) -> Result<(), Error> {
        let file = File::create(&path).map_err(|e| Error::write(&path, files::plain(&e)))?;
        self.files.push(Log { path, file: BufWriter::new(file), is_events });
        Ok(())
    }

    /// Writes the last losses of the state, if they are not written yet.
    pub(super) fn add(&mut self, state: &State) -> Result<(), Error> {
        if self.files.is_empty() {
            return Ok(());
        }
        let last = state.latest.filter(|l| Some(l.0) != self.written.0);
        let apart = state.validation.get(self.written.1..).unwrap_or_default().last().copied();
        if last.is_none() && apart.is_none() {
            return Ok(());
        }
        self.written = (last.map_or(self.written.0, |h| Some(h.0)), state.validation.len());
        let seconds = state.seconds;
        self.write(|log| {
            if log.is_events {
                let mut all = Vec::new();
                for (tag, pair) in [("loss", last), ("validation loss", apart)] {
                    if let Some((step, loss)) = pair {
                        all.extend(record(&event(step as u64, tag, loss as f32)));
                    }
                }
                return all;
            }
            let step = last.or(apart).map_or(0.0, |pair| pair.0);
            let cell = |pair: Option<(f64, f64)>| pair.map_or(String::new(), |pair| pair.1.to_string());
            format!("{step},{seconds:.3},{},{}\n", cell(last), cell(apart)).into_bytes()
        })
    }

    /// Writes what is left.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        for log in &mut self.files {
            log.file.flush().map_err(|e| Error::write(&log.path, files::plain(&e)))?;
        }
        Ok(())
    }

    fn write(&mut self, text: impl Fn(&Log) -> Vec<u8>) -> Result<(), Error> {
        for log in &mut self.files {
            let bytes = text(log);
            log.file.write_all(&bytes).map_err(|e| Error::write(&log.path, files::plain(&e)))?;
        }
        Ok(())
    }
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
