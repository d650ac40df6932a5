//! Where the simulations of a sweep are kept: `FILE`, as Parquet, when all of them are done; before that
//! `FILE.cells`, to which each is added as soon as it is done.
//!
//! A line of `FILE.cells` is a simulation: the CRC-32 of its JSON in eight hexadecimal digits, a space, the
//! JSON. A line that was written by half has another checksum, or no end; it is passed over, and its
//! simulation is made again. So a process may be killed, and a disk may be full, at any time. Lines have no
//! order, and one process at a time adds to the file (`flock`).

use super::parquet;
use super::plan::Plan;
use super::run::{Run, Status};
use crate::error::LabError;
use plimsoll_cli::error::CliError;
use plimsoll_cli::output::Output;
use plimsoll_cli::output::say;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest line of `FILE.cells` that is read, bytes.
const LONGEST: u64 = 1 << 20;
/// Characters of a checksum.
const SUM: usize = 8;

/// A simulation as a line.
pub(super) fn line(run: &Run) -> String {
    let json = plimsoll_cli::json::line(run);
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// The simulation of a line without its end, if it is whole.
fn parse(line: &[u8]) -> Option<Run> {
    let (sum, json) = line.split_at_checked(SUM)?;
    let json = json.strip_prefix(b" ")?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    let run = (sum == crc32fast::hash(json)).then(|| serde_json::from_slice(json));
    run?.ok()
}

/// Whether this may be the beginning of a line.
fn begins(line: &[u8]) -> bool {
    let (sum, rest) = line.split_at(line.len().min(SUM));
    sum.iter().all(u8::is_ascii_hexdigit)
        && b" {\"version\":".starts_with(&rest[..rest.len().min(12)])
}

/// The place of the simulations of one sweep.
pub(super) struct Store {
    path: PathBuf,
    cells_path: PathBuf,
    /// Open for the whole time, and locked.
    cells: File,
    /// Whether all was in `FILE` from the beginning, in this order.
    is_written: bool,
}

/// `FILE.cells`.
pub(super) fn cells_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(".cells");
    PathBuf::from(name)
}

impl Store {
    /// Opens the place, and finds what is done already, by its number in the plan. Nothing there is changed,
    /// except that `FILE.cells` is made when it is absent, which shows that the place can be written to.
    ///
    /// # Errors When it cannot be written to, when another sweep writes to it, and when something is there
    /// that would be lost: a foreign file, or simulations that are not of this plan.
    pub(super) fn open(path: &Path, plan: &Plan) -> Result<(Store, Vec<Option<Run>>), LabError> {
        let cells_path = cells_path(path);
        let finished = match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|it| it.is_file()) => {
                parquet::read(file).map_err(|why| refused(path, &why))?
            }
            Ok(_) => return Err(refused(path, "it is no regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(LabError::path(path)(error)),
        };
        let mut cells = open_cells(&cells_path)?;
        let added = read_cells(&mut cells, &cells_path)?;
        let is_written = finished.len() == plan.len()
            && (finished.iter().enumerate())
                .all(|(index, run)| run.cell == *plan.cell(index) && run.status != Status::Unread);
        let mut runs = vec![None; plan.len()];
        for (found, path) in [(finished, path), (added, &*cells_path)] {
            let strangers = place(found, plan, &mut runs);
            if strangers > 0 {
                let why = format!(
                    "simulations of other traces, settings or versions are in it ({strangers}), and \
                     would be lost"
                );
                return Err(refused(path, &why));
            }
        }
        let store = Store {
            path: path.to_owned(),
            cells_path,
            cells,
            is_written,
        };
        Ok((store, runs))
    }

    /// Keeps a simulation.
    ///
    /// # Errors
    /// When the file cannot be written. Simulations that were kept before stay.
    pub(super) fn add(&mut self, run: &Run) -> Result<(), LabError> {
        let written = self.cells.write_all(line(run).as_bytes());
        written.map_err(|source| LabError::NotKept {
            path: self.cells_path.clone(),
            source,
        })
    }

    /// Writes `FILE`, if all is done, and takes `FILE.cells` away.
    ///
    /// # Errors
    /// When it cannot be written. Then `FILE.cells` stays, and so does what was in `FILE` before.
    pub(super) fn finish(&mut self, runs: &[Run]) -> Result<(), LabError> {
        if !self.is_written {
            self.write(runs)?;
            self.is_written = true;
        }
        std::fs::remove_file(&self.cells_path).map_err(LabError::path(&self.cells_path))
    }

    fn write(&self, runs: &[Run]) -> Result<(), LabError> {
        let written = Output::create(&self.path).and_then(|mut output| {
            let write = parquet::write(runs, &mut output).map_err(io::Error::other);
            write.map_err(CliError::path(&self.path))?;
            output.sync()?;
            output.complete()
        });
        written.map_err(|error| match error {
            CliError::Path { path, source } => LabError::NotKept { path, source },
            other => other.into(),
        })
    }

    /// Where what is done is kept until all is.
    pub(super) fn cells_path(&self) -> &Path {
        &self.cells_path
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Nothing was added: the file that was made to see whether it can be is of no use.
        if self.cells.metadata().is_ok_and(|it| it.len() == 0) {
            let _ = std::fs::remove_file(&self.cells_path);
        }
    }
}

fn refused(path: &Path, why: &str) -> LabError {
    LabError::Place {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

/// Puts simulations that are done where the plan has them, and returns how many it does not have.
fn place(found: Vec<Run>, plan: &Plan, runs: &mut [Option<Run>]) -> usize {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for index in 0..plan.len() {
        places
            .entry(plan.cell(index).key())
            .or_default()
            .push(index);
    }
    let mut strangers = 0;
    for run in found {
        let Some(indices) = places.get(&run.cell.key()) else {
            strangers += 1;
            continue;
        };
        for &index in indices.iter().filter(|_| run.status != Status::Unread) {
            runs[index] = Some(Run {
                cell: plan.cell(index).clone(),
                ..run.clone()
            });
        }
    }
    strangers
}

fn open_cells(path: &Path) -> Result<File, LabError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    let file = options.open(path).map_err(LabError::path(path))?;
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    // The process that had the lock before may have taken the file away meanwhile.
    let is_there = path.metadata().is_ok_and(|it| {
        let ours = file.metadata();
        ours.is_ok_and(|ours| ours.ino() == it.ino())
    });
    match locked {
        Ok(()) if is_there => Ok(file),
        Ok(()) | Err(Errno::WOULDBLOCK) => Err(refused(path, "another sweep adds to it just now")),
        Err(error) => Err(LabError::path(path)(error)),
    }
}

/// The simulations of whole lines. A last line without an end gets one, so that what is added is a line.
fn read_cells(file: &mut File, path: &Path) -> Result<Vec<Run>, LabError> {
    let failed = LabError::path(path);
    let mut reader = BufReader::new(&*file);
    let (mut runs, mut lost, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let read = io::Read::take(&mut reader, LONGEST).read_until(b'\n', &mut line);
        match read {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        match parse(line.trim_ascii_end()) {
            Some(run) => runs.push(run),
            None if runs.is_empty() && lost == 0 && !begins(&line) => {
                return Err(refused(path, "it is no list of simulations"));
            }
            None => lost += 1,
        }
        if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST {
            let end = file
                .seek(SeekFrom::End(0))
                .and_then(|_| file.write_all(b"\n"));
            return end.map(|()| runs).map_err(LabError::path(path));
        }
    }
    if lost > 0 {
        let path = path.display();
        say(format_args!(
            "warning: {lost} lines of {path} are damaged; their simulations are made again"
        ));
    }
    Ok(runs)
}
