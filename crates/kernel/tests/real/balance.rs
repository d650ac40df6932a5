//! Which pages go when bytes are taken: with a swappiness for one call, version 2 takes either kind.

use crate::common::{PATIENCE, alone, group, start, start_holding, swap};
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{Child, TestCgroup};
use plimsoll_unit::{Bytes, MIB};
use std::path::Path;

/// Bytes of the file that the group has in its page cache.
const FILE: u64 = 48 * MIB;
const TAKEN: u64 = 24 * MIB;

/// Memory of a group, bytes.
#[derive(Clone, Copy, Debug)]
struct Has {
    anon: u64,
    file: u64,
    swapped: u64,
}

fn has(group: &Cgroup) -> Has {
    let stat = group.stat().unwrap();
    Has {
        anon: stat.anon,
        file: stat.file,
        swapped: group.swapped().unwrap().0,
    }
}

/// A file that is on the disk and in no cache.
fn file(dir: &Path) -> String {
    let path = dir.join("file");
    std::fs::write(&path, vec![7; FILE as usize]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The kernel's other way to find old pages, the multi-generational LRU, switched off. There a
/// swappiness moves the balance only between pages that are old by its count, and new anonymous memory
/// is not.
struct Generations(Vec<u8>);

const SWITCH: &str = "/sys/kernel/mm/lru_gen/enabled";

impl Generations {
    /// `None` where there is nothing to switch off.
    fn off() -> Option<Generations> {
        let before = std::fs::read(SWITCH).ok()?;
        std::fs::write(SWITCH, "n").ok()?;
        Some(Generations(before))
    }
}

impl Drop for Generations {
    fn drop(&mut self) {
        let _ = std::fs::write(SWITCH, &self.0);
    }
}

/// A hog, and a file that was read again and again, in a group.
fn fill(ground: &TestCgroup, path: &str) -> Child {
    let hog = start_holding(&["hog", "--bytes", "64M"], Some(ground));
    // Among pages that were read only once, the kernel takes those of files first, whatever it is asked.
    let mut reader = start(&["stream", "--path", path], Some(ground));
    reader.until(PATIENCE, |p| p.rounds >= 4).unwrap();
    drop(reader);
    let has = has(ground.cgroup());
    assert!(has.file > FILE / 4 * 3 && has.swapped == 0, "{has:?}");
    hog
}

/// Takes bytes with a swappiness; returns what the group had before and has afterwards.
fn take(group: &Cgroup, swappiness: u32) -> (Has, Has) {
    let before = has(group);
    group
        .reclaim_within(Bytes(TAKEN), Some(swappiness), PATIENCE)
        .unwrap();
    let after = has(group);
    println!("swappiness {swappiness}: {before:?} {after:?}");
    (before, after)
}

fn takes_files_only(group: &Cgroup) {
    let (before, after) = take(group, 0);
    let dropped = before.file - after.file;
    assert!(dropped >= TAKEN / 4 * 3, "{before:?} {after:?}");
    assert_eq!(before.swapped, after.swapped, "{before:?} {after:?}");
    // The kernel's counts of a group are behind by some pages for each processor.
    let less = before.anon.saturating_sub(after.anon);
    assert!(less < MIB, "{before:?} {after:?}");
}

fn takes_anonymous_memory_only(group: &Cgroup) {
    let (before, after) = take(group, 200);
    let away = after.swapped - before.swapped;
    assert!(away >= TAKEN / 4 * 3, "{before:?} {after:?}");
    assert!(
        before.anon - after.anon >= TAKEN / 4 * 3,
        "{before:?} {after:?}"
    );
    let dropped = before.file.saturating_sub(after.file);
    assert!(dropped <= away / 8, "{before:?} {after:?}");
}

/// Before Linux 6.9. Nothing is taken then.
fn is_refused(group: &Cgroup) {
    let before = has(group);
    let text = group
        .reclaim_within(Bytes(TAKEN), Some(200), PATIENCE)
        .unwrap_err()
        .to_string();
    println!("this kernel's memory.reclaim takes no swappiness: {text}");
    assert!(text.contains("memory.reclaim: Invalid argument"), "{text}");
    let after = has(group);
    assert!(after.swapped == 0 && after.file >= before.file, "{after:?}");
}

#[test]
fn a_swappiness_for_one_call_says_which_pages_go() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(ground) = group("balance", None) else {
        return;
    };
    let group = ground.cgroup();
    if group.version() == Version::V1 {
        // Its groups have a swappiness of their own. The guest runs this test under version 2.
        assert!(!group.takes_by_swappiness());
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = file(dir.path());
    let hog = fill(&ground, &path);
    if !group.takes_by_swappiness() {
        return is_refused(group);
    }
    takes_files_only(group);
    drop((hog, ground));

    let _off = Generations::off();
    let Some(ground) = crate::common::group("balance", None) else {
        return;
    };
    let path = file(dir.path());
    let _hog = fill(&ground, &path);
    // In this order: while many file pages are not in use, the kernel takes those, whatever it is asked.
    takes_anonymous_memory_only(ground.cgroup());
    takes_files_only(ground.cgroup());
}
