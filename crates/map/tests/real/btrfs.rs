//! Files on a Btrfs. The kernel lists their mappings with the device of the whole file system, `stat(2)` has
//! another for each subvolume, and a file in a snapshot has the inode of the original.

use crate::common::{PATIENCE, alone};
use plimsoll_kernel::identity::as_user;
use plimsoll_kernel::page_cache;
use plimsoll_map::{Look, Options, look};
use plimsoll_testbed::{Child, Disk};
use plimsoll_unit::MIB;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

const NOBODY: u32 = 65_534;

/// A Btrfs with a file of 1 MiB in a subvolume, and the same file in a snapshot of that.
struct Twins {
    original: PathBuf,
    copy: PathBuf,
    /// Unmounted last.
    _disk: Disk,
}

fn twins() -> Option<Twins> {
    // Where other users may enter.
    let disk = Disk::btrfs(Path::new("/var/tmp"))?;
    let one = disk.subvolume("one");
    let original = one.join("file");
    std::fs::write(&original, vec![7; MIB as usize]).unwrap();
    File::open(&original).unwrap().sync_all().unwrap();
    chown(&original, Some(NOBODY), Some(NOBODY)).unwrap();
    let copy = disk.snapshot(&one, "two").join("file");
    let (here, there) = (original.metadata().unwrap(), copy.metadata().unwrap());
    assert_eq!(here.ino(), there.ino(), "a snapshot keeps the inodes");
    assert_ne!(here.dev(), there.dev());
    Some(Twins {
        original,
        copy,
        _disk: disk,
    })
}

/// Looks at this process while it has both files mapped: as root, and as the user whose files they are.
fn looks_at(files: [&File; 2]) -> Vec<Look> {
    let bytes = MIB as usize;
    let starts = files.map(|file| {
        // SAFETY: a fresh mapping; no page of it is read or written.
        unsafe {
            mmap(
                null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
            .unwrap()
        }
    });
    let options = Options {
        addresses: true,
        ..Options::default()
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let as_owner = as_user(NOBODY, NOBODY, || look(own, &options)).unwrap();
    let seen = vec![look(own, &options).unwrap(), as_owner.unwrap()];
    for start in starts {
        // SAFETY: the mapping is not used after this.
        unsafe { munmap(start, bytes).unwrap() };
    }
    seen
}

/// Bytes of both files in the page cache, by the kernel itself.
fn cached(files: [&File; 2]) -> [u64; 2] {
    files.map(|file| {
        let cached = page_cache::of(file, Path::new("of a Btrfs"), 0..MIB).unwrap();
        cached.cached.0
    })
}

#[test]
fn a_file_and_its_copy_in_a_snapshot_are_counted_apart() {
    let _one = alone();
    let Some(twins) = twins() else { return };
    let [original, copy] = [&twins.original, &twins.copy].map(|path| File::open(path).unwrap());
    let files = [&original, &copy];
    // The original was just written, but the kernel may take a page of it at any time. Then we look again.
    let (seen, told) = (0..100)
        .map(|_| (cached(files), looks_at(files), cached(files)))
        .find_map(|(before, seen, after)| (before == after).then_some((seen, after)))
        .expect("pages do not leave the cache all the time");
    assert!(told[0] > 0, "nobody else needs the memory");
    assert_eq!(told[1], 0, "nobody has read the copy");
    for seen in seen {
        let states = |path: &PathBuf| {
            let part = seen
                .parts
                .iter()
                .find(|part| part.name == path.to_str().unwrap());
            part.expect("it is mapped").states
        };
        let counted = [&twins.original, &twins.copy].map(|path| states(path).cached);
        assert_eq!(counted, told.map(Some), "{:?}", seen.notes);
        assert_eq!(states(&twins.original).resident, 0);
    }
}

/// A program that reads a file over and over.
fn reader(path: &Path) -> Child {
    let line = format!("pages --path {} --bytes 1048576 --every 50", path.display());
    let words: Vec<&str> = line.split(' ').collect();
    let mut program = Child::start_again("common::program", &words, None).unwrap();
    program.until(PATIENCE, |p| p.rounds > 2).unwrap();
    program
}

#[test]
fn who_maps_the_copy_of_a_file_does_not_share_it() {
    let _one = alone();
    let Some(twins) = twins() else { return };
    let [first, second] = [&twins.original; 2].map(|path| reader(path));
    let other = reader(&twins.copy);
    let options = Options {
        who: true,
        ..Options::default()
    };
    let seen = look(first.pid(), &options).unwrap();
    let name = twins.original.to_str().unwrap();
    let file = seen.sharers.iter().find(|file| file.name == name);
    let file = file.unwrap_or_else(|| panic!("{:?}", seen.sharers));
    assert_eq!(file.shared, MIB);
    let pids: Vec<i32> = file.processes.iter().map(|sharer| sharer.pid).collect();
    assert_eq!(pids, [second.pid()], "and not {}", other.pid());
}
