//! A look disturbs nothing: what was not in memory before is not in memory afterwards, and no fault is
//! taken for it.

use crate::common::{PATIENCE, alone, group, start, stop, swap};
use plimsoll_kernel::page_cache;
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::{Faults, Memory as Holds, Process, page_size};
use plimsoll_kernel::smaps::{Addresses, areas};
use plimsoll_map::memory::{Memory, ProcessMemory, Unread};
use plimsoll_map::{Options, Watch, look};
use plimsoll_testbed::{Child, children, skip};
use plimsoll_unit::{Bytes, MIB};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Where each present page is, and what the kernel counted.
#[derive(Debug, PartialEq)]
struct Residency {
    present: Vec<Addresses>,
    holds: Holds,
    faults: Faults,
}

fn residency(process: &Process) -> Residency {
    let pages = PageMap::open(process).unwrap();
    let mut present = Vec::new();
    for area in areas(process, 100_000).unwrap() {
        // The kernel's own pages are there in every process.
        if area.name != "[vsyscall]" {
            pages
                .present_runs(&area.addresses, 1 << 20, &mut present)
                .unwrap();
        }
    }
    Residency {
        present,
        holds: process.memory().unwrap(),
        faults: process.faults().unwrap(),
    }
}

/// Does something and asserts that it brought nothing into memory. The kernel may take pages of its
/// own accord meanwhile, when others on this machine need memory; then it is done again.
fn brings_nothing_in(process: &Process, what: impl Fn()) {
    for _ in 0..5 {
        let before = residency(process);
        what();
        let after = residency(process);
        assert_eq!(before.faults, after.faults);
        let inside = |run: &Addresses| {
            let mut before = before.present.iter();
            before.any(|b| b.start <= run.start && run.end <= b.end)
        };
        let new: Vec<_> = after.present.iter().filter(|run| !inside(run)).collect();
        assert!(new.is_empty(), "brought in: {new:?}");
        if before == after {
            return;
        }
    }
    panic!("the kernel took pages all the time: this machine has no memory to test in");
}

fn everything() -> Options {
    Options {
        addresses: true,
        who: true,
        ..Options::default()
    }
}

#[test]
fn what_is_in_swap_and_on_disk_stays_there() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("rest", 40 * MIB) else {
        return;
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("file").to_str().unwrap().to_owned();
    let shared = format!("/dev/shm/plimsoll-map-rest-{}", std::process::id());
    let rare = ["--rate", "0.001"];
    let of = |path, bytes| [&["share", "--path", path, "--bytes", bytes][..], &rare].concat();
    let files = start(&of(&file, "16M"), Some(&group));
    let tmpfs = start(&of(&shared, "16M"), Some(&group));
    let hog = start(&["hog", "--bytes", "64M"], Some(&group));
    let processes = [&files, &tmpfs, &hog].map(stop);
    let mut swapped = 0;
    for process in &processes {
        brings_nothing_in(process, || {
            look(process.pid(), &everything()).unwrap();
        });
        brings_nothing_in(process, || {
            let mut watch = Watch::default();
            for _ in 0..2 {
                watch.look(process.pid(), &everything()).unwrap();
            }
        });
        swapped += look(process.pid(), &everything()).unwrap().total.swapped;
    }
    let _ = std::fs::remove_file(shared);
    // There was something to bring in.
    assert!(swapped > 20 * MIB, "{swapped}");
    reads_only_what_is_there(&processes[2]);
}

/// Numbers of the pages of a file that are in the page cache. `None` where that is not told.
fn cached(path: &Path) -> Option<Vec<u64>> {
    let file = File::open(path).unwrap();
    if !page_cache::tells_of(&file) {
        return None;
    }
    let mut found = Vec::new();
    for page in 0..file.metadata().unwrap().len().div_ceil(page_size()) {
        let part = page * page_size()..(page + 1) * page_size();
        if page_cache::of(&file, path, part).ok()?.cached > Bytes::ZERO {
            found.push(page);
        }
    }
    Some(found)
}

#[test]
fn what_tells_the_runtime_is_read_and_not_kept() {
    let _one = alone();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("program");
    children::copy_program(std::env::current_exe().unwrap(), &path).unwrap();
    let program = ["hog", "--bytes", "1M"];
    let mut child = Child::start_copy(&path, "common::program", &program, None).unwrap();
    child.until(PATIENCE, |p| p.holding).unwrap();
    let process = stop(&child);
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    // Pages that it has mapped stay. Tables of names for the linker and for debuggers are not mapped.
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let all = file.metadata().unwrap().len().div_ceil(page_size());
    let Some(before) = cached(&path).filter(|cached| (cached.len() as u64) < all) else {
        return skip("the page cache does not tell of a file in the target directory");
    };
    let mut watch = Watch::default();
    look(process.pid(), &everything()).unwrap();
    for _ in 0..2 {
        watch.look(process.pid(), &everything()).unwrap();
    }
    // The kernel may have taken some of its own accord.
    let mut after = cached(&path).unwrap();
    after.retain(|page| !before.contains(page));
    assert!(after.is_empty(), "brought in: {after:?}");
}

/// Tries to read a word of each page of each mapping.
fn reads_only_what_is_there(process: &Arc<Process>) {
    brings_nothing_in(process, || {
        let memory = ProcessMemory::open(process).unwrap();
        let (mut read, mut refused) = (0u64, 0u64);
        for area in areas(process, 100_000).unwrap() {
            let pages = area.addresses.clone().step_by(page_size() as usize);
            for at in pages.take(20_000) {
                match memory.word(at) {
                    Ok(_) => read += 1,
                    Err(Unread::NotResident | Unread::Absent) => refused += 1,
                    Err(Unread::Denied) => return,
                    Err(other) => panic!("{other} at {at:x}"),
                }
            }
        }
        assert!(read > 1000 && refused > 1000, "{read} {refused}");
    });
}

#[test]
fn only_so_much_is_read_in_one_look() {
    let own = Arc::new(Process::own().unwrap());
    let memory = ProcessMemory::open(&own).unwrap();
    let text = vec![7u8; 1 << 20];
    let mut into = vec![0u8; 1 << 20];
    let mut outcome = Ok(());
    for _ in 0..100 {
        outcome = memory.read(text.as_ptr() as u64, &mut into);
        if outcome.is_err() {
            break;
        }
    }
    assert!(matches!(outcome, Err(Unread::TooMuch | Unread::Denied)));
}
