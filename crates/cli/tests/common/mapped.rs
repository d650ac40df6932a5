//! Programs that tests look at from outside. A test binary that starts any but [`sleeper`] has a test
//! `program`, which is that binary started again.

use super::{Place, Started, wait_for};
use plimsoll_testbed::{Child, Disk};
use std::path::Path;
use std::time::Duration;

/// Longest wait for a program of a test.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A program that sleeps, once it is itself.
pub fn sleeper(place: &Place) -> (Started, String) {
    let started = Started(place.program("sleep", &["600"]).spawn().unwrap());
    let pid = started.0.id().to_string();
    is_called(&pid, "sleep");
    (started, pid)
}

/// Waits until a program has this name.
pub fn is_called(pid: &str, name: &str) {
    wait_for("the program is itself", || {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // Its libraries are there once it sleeps.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (comm.trim() == name && state.contains(") S ")).then_some(())
    });
}

/// A program that has mapped a file of 1 MiB, and reads it over and over.
pub fn reader(file: &Path) -> Child {
    let line = format!("pages --path {} --bytes 1048576 --every 50", file.display());
    let words: Vec<&str> = line.split(' ').collect();
    let mut program = Child::start_again("program", &words, None).unwrap();
    program.until(PATIENCE, |p| p.rounds > 2).unwrap();
    program
}

/// A program that maps and unmaps a file on this disk: once the disk is frozen, its address space is locked.
pub fn shifter(disk: &Disk) -> Child {
    let file = disk.path().join("file");
    let arguments = ["shift", "--path", file.to_str().unwrap()];
    let mut program = Child::start_again("program", &arguments, None).unwrap();
    program.until(PATIENCE, |p| p.rounds > 10).unwrap();
    program
}

/// The output of `plimsoll` with these words, which ends well. Through a file, so that nothing waits for
/// processes that it leaves behind.
pub fn printed(place: &Place, words: &[&str]) -> String {
    let out = place.path("out");
    let mut command = place.command(words);
    command.stdout(std::fs::File::create(&out).unwrap());
    assert!(Started(command.spawn().unwrap()).wait().success());
    std::fs::read_to_string(out).unwrap()
}
