//! Programs that misbehave on purpose, for tests and measurements: see `plimsoll_testbed::programs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    plimsoll_testbed::programs::run(&arguments)
}
