//! Derivatives of recurrences that are too long for memory.
//!
//! `x ← advance(x, first, count)` makes `count` steps of a recurrence; the program decides what it keeps of them (say, by
//! `[CheckpointStates(n)]`). Here many such segments follow one another. Their first states are written to disk, and reverse
//! mode takes the segments from the last to the first, each from its state:
//!
//! ```text
//! x₀ → x₁ → … → xₙ → loss(xₙ)        x̄ₖ = ∂advance(xₖ)ᵀ x̄ₖ₊₁ ,  p̄ = Σₖ ∂ₚadvance(xₖ)ᵀ x̄ₖ₊₁
//! ```
//!
//! So a step runs once more than in memory alone, and memory holds one segment (the two levels of Stumm and Walther,
//! "Multistage approaches for optimal offline checkpointing", 2009, of which the outer one keeps all).
//!
//! A run can end at any time, and another one goes on from what is on disk. Each file is written under another name first
//! and then renamed, so it is whole or not there, and begins with a hash of what the run is of.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ir::scalar;

use crate::cache::Key;
use crate::call::{Callee, Number, Point};
use crate::error::Error;

/// The name of the file with the cotangents, and the endings of states.
const COTANGENTS: &str = "cotangents";
const STATE: &str = "state";

/// How many steps there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// All steps.
    pub steps: u64,
    /// The steps of a segment; the last one may have fewer.
    pub segment: u64,
}

impl Length {
    /// The number of segments.
    pub fn segments(self) -> u64 {
        self.steps.div_ceil(self.segment.max(1))
    }

    fn steps_of(self, segment: u64) -> (u64, u64) {
        let first = segment * self.segment;
        (first, self.segment.min(self.steps - first))
    }
}

/// The part of the work that has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many segments have run.
    Forward(u64),
    /// So many segments have been reversed.
    Reverse(u64),
}

/// The derivatives of a recurrence.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivatives {
    /// The loss of the last state.
    pub loss: f64,
    /// A number for each input of `advance` that has a tangent: those of the first state, then those of the parameters.
    pub gradient: Vec<f64>,
}

/// A recurrence on its way.
pub struct Recurrence<'a> {
    advance: &'a mut Callee,
    loss: &'a mut Callee,
    length: Length,
    folder: PathBuf,
    /// A hash of all that the files depend on.
    key: [u8; 16],
    /// The inputs at the start.
    point: Point,
    /// The numbers of a state.
    n_state: usize,
    first: usize,
    count: usize,
}

impl<'a> Recurrence<'a> {
    /// A recurrence from a point of `advance`, whose files are in a folder.
    pub fn new(
        advance: &'a mut Callee,
        loss: &'a mut Callee,
        (length, folder): (Length, &Path),
        point: Point,
    ) -> Result<Recurrence<'a>, Error> {
        let n_state = state(advance)?;
        let (first, count) = (counter(advance, "first", length)?, counter(advance, "count", length)?);
        let fits = loss.inputs.len() == n_state
            && loss
                .inputs
                .iter()
                .zip(&advance.outputs)
                .all(|(a, b)| a.scalar == b.scalar && a.diff == b.diff);
        if !fits || loss.outputs.len() != 1 || !loss.outputs[0].diff {
            let (of, state) = (&loss.info.name, &advance.info.result.ty);
            let message = format!(
                "`{of}` is no loss of the state: expected a function of one `{state}` that gives a float"
            );
            return Err(Error::input(message));
        }
        let numbers = [length.steps, length.segment].into_iter().chain(point.iter().copied());
        let numbers: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let [one, other] =
            [&*advance, &*loss].map(|callee| ir::print::print_module(callee.runner().module()));
        let mut parts = vec![&numbers[..], one.as_bytes(), other.as_bytes()];
        parts.extend(advance.runner().contents().chain(loss.runner().contents()));
        let key = Key::new(&parts).bytes();
        let folder = folder.to_path_buf();
        Ok(Recurrence { advance, loss, length, folder, key, point, n_state, first, count })
    }

    /// The bytes of all states on disk.
    pub fn bytes(&self) -> u64 {
        self.length.segments() * (16 + self.state_bytes() as u64)
    }

    /// Runs at most `most` segments, forward or in reverse, from where the files say that an earlier run has ended. Returns
    /// `None` if it has not come to the end; at the end, the files are removed.
    pub fn run(&mut self, most: u64, report: &mut dyn FnMut(Progress)) -> Result<Option<Derivatives>, Error> {
        fs::create_dir_all(&self.folder).map_err(|error| self.failed("make", &self.folder, &error))?;
        let n = self.length.segments();
        let mut left = most;
        let (loss, mut cotangents, mut done) = match self.read_cotangents()? {
            Some(found) => found,
            None => {
                let Some(last) = self.forward(&mut left, report)? else { return Ok(None) };
                let loss = self.loss.value(&last)?;
                let mut cotangents = self.loss.reverse(&last)?.swap_remove(0);
                let all = self.advance.inputs.iter().filter(|n| n.diff).count();
                cotangents.resize(all, 0.0);
                (scalar::to_f64(self.loss.outputs[0].scalar, loss[0]), cotangents, 0)
            }
        };
        let n_tangents = self.state_numbers().filter(|n| n.diff).count();
        while done < n {
            if left == 0 {
                return Ok(None);
            }
            let segment = n - 1 - done;
            let Some(state) = self.read_state(segment)? else {
                let message = format!(
                    "`{}` has no state number {segment}: remove it to begin anew",
                    self.folder.display()
                );
                return Err(Error::input(message));
            };
            let of_state: Vec<u64> = self
                .state_numbers()
                .filter(|n| n.diff)
                .zip(&cotangents)
                .map(|(n, &x)| scalar::from_f64(n.scalar, x))
                .collect();
            let found = self.advance.back(&self.at(&state, segment), &of_state)?;
            for (k, (sum, x)) in cotangents.iter_mut().zip(found).enumerate() {
                *sum = if k < n_tangents { x } else { *sum + x };
            }
            done += 1;
            left -= 1;
            self.write_cotangents(loss, &cotangents, done)?;
            // What follows needs it no more.
            let _ = fs::remove_file(self.state_path(segment));
            report(Progress::Reverse(done));
        }
        let _ = fs::remove_file(self.folder.join(COTANGENTS));
        // It stays if there is anything else in it.
        let _ = fs::remove_dir(&self.folder);
        Ok(Some(Derivatives { loss, gradient: cotangents }))
    }

    /// Writes the first state of each segment, and returns the last of all.
    fn forward(&mut self, left: &mut u64, report: &mut dyn FnMut(Progress)) -> Result<Option<Point>, Error> {
        let n = self.length.segments();
        // The last state that an earlier run has written.
        let mut segment = (0..n).take_while(|&k| self.state_path(k).exists()).last().unwrap_or(0);
        let mut state = match self.read_state(segment)? {
            Some(state) => state,
            None => self.point[..self.n_state].to_vec(),
        };
        loop {
            self.write_state(segment, &state)?;
            if *left == 0 {
                return Ok(None);
            }
            state = self.advance.value(&self.at(&state, segment))?;
            segment += 1;
            *left -= 1;
            report(Progress::Forward(segment));
            if segment == n {
                return Ok(Some(state));
            }
        }
    }

    /// The inputs for a segment.
    fn at(&self, state: &[u64], segment: u64) -> Point {
        let (first, count) = self.length.steps_of(segment);
        let mut point = self.point.clone();
        point[..self.n_state].copy_from_slice(state);
        point[self.first] = first;
        point[self.count] = count;
        point
    }

    fn state_numbers(&self) -> impl Iterator<Item = &Number> {
        self.advance.inputs[..self.n_state].iter()
    }

    fn state_bytes(&self) -> usize {
        self.state_numbers().map(|n| n.scalar.bytes() as usize).sum()
    }

    fn state_path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("{segment}.{STATE}"))
    }

    fn write_state(&self, segment: u64, state: &[u64]) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(self.state_bytes());
        for (number, bits) in self.state_numbers().zip(state) {
            bytes.extend_from_slice(&bits.to_le_bytes()[..number.scalar.bytes() as usize]);
        }
        self.write(&self.state_path(segment), &bytes)
    }

    fn read_state(&self, segment: u64) -> Result<Option<Vec<u64>>, Error> {
        let path = self.state_path(segment);
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        if bytes.len() != self.state_bytes() {
            return Err(self.foreign(&path));
        }
        let mut rest = &bytes[..];
        let mut number = |size: usize| {
            let (own, after) = rest.split_at(size);
            rest = after;
            own.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
        };
        Ok(Some(self.state_numbers().map(|n| number(n.scalar.bytes() as usize)).collect()))
    }

    /// Writes how many segments have been reversed, the loss, and the cotangents.
    fn write_cotangents(&self, loss: f64, cotangents: &[f64], done: u64) -> Result<(), Error> {
        let words = [done, loss.to_bits()].into_iter().chain(cotangents.iter().map(|x| x.to_bits()));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.write(&self.folder.join(COTANGENTS), &bytes)
    }

    fn read_cotangents(&self) -> Result<Option<(f64, Vec<f64>, u64)>, Error> {
        let path = self.folder.join(COTANGENTS);
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
            .collect();
        let wanted = self.advance.inputs.iter().filter(|n| n.diff).count();
        match &words[..] {
            [done, loss, cotangents @ ..]
                if cotangents.len() == wanted && *done <= self.length.segments() =>
            {
                let cotangents = cotangents.iter().map(|&bits| f64::from_bits(bits)).collect();
                Ok(Some((f64::from_bits(*loss), cotangents, *done)))
            }
            _ => Err(self.foreign(&path)),
        }
    }

    /// Writes a file that is whole or not there, whenever the program ends.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let new = path.with_extension("new");
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(&self.sum(path, bytes))?;
            file.write_all(bytes)?;
            file.sync_data()
        });
        written.and_then(|()| fs::rename(&new, path)).map_err(|error| self.failed("write", path, &error))
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read", path, &error)),
        };
        match bytes.split_first_chunk::<16>() {
            Some((sum, rest)) if *sum == self.sum(path, rest) => Ok(Some(rest.to_vec())),
            _ => Err(self.foreign(path)),
        }
    }

    fn failed(&self, what: &str, path: &Path, error: &std::io::Error) -> Error {
        Error::input(format!("cannot {what} `{}`: {error}", path.display()))
    }

    /// The head of a file, which tells of which recurrence and segment it is, and that nothing has changed it.
    fn sum(&self, path: &Path, bytes: &[u8]) -> [u8; 16] {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        Key::new(&[&self.key, name, bytes]).bytes()
    }

    fn foreign(&self, path: &Path) -> Error {
        Error::input(format!(
            "`{}` is damaged, or of another recurrence: its program, its length or its start differ; remove the folder, or name \
             another",
            path.display()
        ))
    }
}

/// The numbers of the state: the first parameter, which is what the function gives.
fn state(advance: &Callee) -> Result<usize, Error> {
    let info = &advance.info;
    let n = advance.outputs.len();
    let same = info.params.first().is_some_and(|p| p.ty == info.result.ty && p.is_input)
        && !info.params.iter().any(|p| p.is_output)
        && advance.inputs.len() >= n
        && advance.inputs.iter().zip(&advance.outputs).all(|(a, b)| a.scalar == b.scalar && a.diff == b.diff);
    if same && n > 0 {
        return Ok(n);
    }
    let name = &info.name;
    Err(Error::input(format!(
        "`{name}` makes no steps of a recurrence: it has to give the type of its first parameter"
    )))
}

/// The input with the number of the first step, or with the number of steps.
fn counter(advance: &Callee, name: &str, length: Length) -> Result<usize, Error> {
    let is_counter = |n: &Number| n.name == name && n.scalar.is_int();
    let Some(at) = advance.inputs.iter().position(is_counter) else {
        let message = format!(
            "`{}` needs the integers `first` and `count`: it makes steps `first` up to `first + count - 1`",
            advance.info.name
        );
        return Err(Error::input(message));
    };
    let scalar = advance.inputs[at].scalar;
    let bits = scalar.bits() - u32::from(scalar.is_signed_int());
    if bits < 64 && length.steps >> bits != 0 {
        return Err(Error::input(format!(
            "`{name}` cannot hold {} steps: its type is too narrow",
            length.steps
        )));
    }
    Ok(at)
}
