//! Files on a Btrfs. The kernel lists their mappings with the device of the whole file system, `stat(2)` has
//! another for each subvolume, and a file in a snapshot has the inode of the original.

use crate::common::*;
use plimsoll_kernel::smaps::FileKey;
use plimsoll_pin::mapped_pages::Watched;
use plimsoll_testbed::{Child, Disk};
use plimsoll_unit::MIB;
use std::path::{Path, PathBuf};

/// A Btrfs with a file in a subvolume, and the same file in a snapshot of that.
struct Twins {
    original: PathBuf,
    copy: PathBuf,
    /// Unmounted last.
    _disk: Disk,
}

fn twins() -> Option<Twins> {
    let disk = Disk::btrfs(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let one = disk.subvolume("one");
    let original = make_file(&one, "hot", FILE);
    let copy = disk.snapshot(&one, "two").join("hot");
    let (here, there) = (key_of(&original), key_of(&copy));
    assert_eq!(here.inode, there.inode, "a snapshot keeps the inodes");
    assert_ne!(here, there);
    Some(Twins {
        original,
        copy,
        _disk: disk,
    })
}

/// A program that read the first third of a file once, and sleeps.
fn start_sleeping(path: &Path) -> Child {
    let (path, bytes) = (path.to_str().unwrap(), FILE.to_string());
    let arguments = [
        "pages", "--path", path, "--bytes", &bytes, "--part", "0.3334", "--every", "1000000",
    ];
    let mut program = start(&arguments, None);
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    program
}

#[test]
fn a_file_and_its_copy_in_a_snapshot_are_two() {
    let _one = alone();
    let Some(twins) = twins() else { return };
    for path in [&twins.original, &twins.copy] {
        let program = start_sleeping(path);
        let seen = Watched::open(program.pid()).unwrap().look().unwrap();
        let of_file =
            |view: &&plimsoll_pin::mapped_pages::View| Path::new(&view.path) == path.as_path();
        let keys: Vec<FileKey> = seen.views.iter().filter(of_file).map(|v| v.key).collect();
        assert_eq!(keys, [key_of(path)], "{:?}", seen.passed);
    }
}

#[test]
fn a_file_of_a_btrfs_is_held_and_not_its_copy_in_a_snapshot() {
    let _one = alone();
    let Some(group) = group("pin-btrfs", 56 * MIB) else {
        return;
    };
    let Some(twins) = twins() else { return };
    let dir = directory();
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    // The original is in memory all the time.
    let still = start_sleeping(&twins.original);
    let mut program = start_pages(&twins.copy, Some(&group));
    let _stream = start_stream(&cold, Some(&group));
    program
        .until(PATIENCE, |p| p.major_faults > 10_000)
        .unwrap();
    let mut pinner = pinner(options(), &[still.pid(), program.pid()]);
    tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    tick_for(&mut pinner, 8);
    let key = key_of(&twins.copy);
    let held = pinner.held(1000);
    let of_btrfs = held.iter().filter(|range| range.path.ends_with("/hot"));
    let names: Vec<_> = of_btrfs
        .map(|range| (&range.path, range.inode, &range.device))
        .collect();
    let expected = (
        &twins.copy.to_str().unwrap().to_owned(),
        key.inode,
        &format!("{}:{}", key.major, key.minor),
    );
    assert!(
        !names.is_empty() && names.iter().all(|name| *name == expected),
        "{held:?}"
    );
    loses_without(pinner, &mut program);
}
