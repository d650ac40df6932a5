//! The program used for measurements.

use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the program: beside this test, or compiled now. `None` if it is not there, and there
/// is no compiler, or no libgc to link with.
pub(crate) fn heapload() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(compile).as_deref()
}

fn compile() -> Option<PathBuf> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs/libgc/heapload.c");
    let test = std::env::current_exe().expect("tests know where they are");
    let program = test.with_file_name("heapload");
    if !source.exists() && program.exists() {
        // In the guest of a virtual machine.
        return Some(program);
    }
    // Another test binary may do the same, or run the program.
    let draft = test.with_file_name(format!("heapload-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .arg(&draft)
        .arg(source)
        .arg("-lgc")
        .output();
    match compiled {
        Ok(compiled) if compiled.status.success() => {
            std::fs::rename(draft, &program).expect("beside this test");
            Some(program)
        }
        _ => {
            skip("no C compiler, or no libgc-dev");
            None
        }
    }
}
