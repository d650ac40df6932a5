//! Tests that cannot run here.

use std::fmt::Display;
use std::io::Write;

/// Reports that the calling test is skipped (as a whole or in part), and why: `skipped: why (name
/// of the test)`. Bypasses the harness, which hides the output of passing tests, so that `make
/// test` can list it.
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread of its own");
    let why = why.to_string();
    let why = why.trim().replace('\n', "; ");
    let _ = writeln!(std::io::stderr(), "skipped: {why} ({name})");
}
