//! Tests that cannot run here.

use std::fmt::Display;
use std::io::Write;

/// Says that the test which calls this is skipped (as a whole or in part), and why: `skipped: why
/// (name of the test)`. Written past what the test harness keeps of tests that pass, so that `make
/// test` can list it.
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread of its own");
    let why = why.to_string();
    let why = why.trim().replace('\n', "; ");
    let _ = writeln!(std::io::stderr(), "skipped: {why} ({name})");
}
