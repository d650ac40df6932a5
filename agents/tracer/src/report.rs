//! The recorder's report to `plimsoll trace` at the end: a file of lines, `key value`. `plimsoll trace` makes
//! it and gives it its length, so that it can be written even when the disk is full.

use crate::session::{Mode, Session};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of the file in the folder of a recording.
pub const FILE: &str = "report";

static OUT: OnceLock<File> = OnceLock::new();
static BEFORE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Classes and methods that could not be changed.
static UNCHANGED: AtomicU64 = AtomicU64::new(0);

/// Notes classes or methods that stay as they are, and so do not record what they do.
pub fn unchanged(count: u64) {
    UNCHANGED.fetch_add(count, Ordering::Relaxed);
}

/// Deaths are known from the collector's own cycles only.
static OWN_CYCLES: AtomicBool = AtomicBool::new(false);

/// Notes that.
pub fn own_cycles() {
    OWN_CYCLES.store(true, Ordering::Relaxed);
}

/// Pauses of the collector, in sampled recordings.
static COLLECTIONS: AtomicU64 = AtomicU64::new(0);

/// Notes one.
pub fn collected() {
    COLLECTIONS.fetch_add(1, Ordering::Relaxed);
}

/// Opens the file.
pub fn open(folder: &Path) {
    if let Ok(file) = File::options().write(true).open(folder.join(FILE)) {
        let _ = OUT.set(file);
    }
}

/// Notes objects and bytes that were there before the recording.
pub fn before(sums: (u64, u64)) {
    BEFORE[0].store(sums.0, Ordering::Relaxed);
    BEFORE[1].store(sums.1, Ordering::Relaxed);
}

/// Writes everything, at the end of the machine.
pub fn end(session: &Session, allocated: (u64, u64), by_machine: Option<u64>) {
    let mut text = String::from("ended yes\n");
    let mut line = |key: &str, value: u64| {
        let _ = writeln!(text, "{key} {value}");
    };
    line("objects", allocated.0);
    line("bytes", allocated.1);
    line("objects-before", BEFORE[0].load(Ordering::Relaxed));
    line("bytes-before", BEFORE[1].load(Ordering::Relaxed));
    line("doubles", session.doubles.load(Ordering::Relaxed));
    line("unchanged", UNCHANGED.load(Ordering::Relaxed));
    if session.mode == Mode::Sampled {
        line("collections", COLLECTIONS.load(Ordering::Relaxed));
    }
    if OWN_CYCLES.load(Ordering::Relaxed) {
        line("own-cycles", 1);
    }
    if let Some(bytes) = by_machine {
        line("bytes-by-machine", bytes);
    }
    if let Some(why) = session.failure() {
        let _ = writeln!(text, "failed {}", why.replace('\n', " "));
    }
    if let Some(file) = OUT.get() {
        let _ = file.write_all_at(text.as_bytes(), 0);
    }
}
