//! Bad input: processes that end, that are hidden, that have very many mappings, and odd files.

use crate::common::alone;
use plimsoll_kernel::identity::as_user;
use plimsoll_kernel::process::page_size;
use plimsoll_map::{Kind, Look, LookError, Options, look};
use plimsoll_testbed::skip;
use plimsoll_unit::MIB;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::io::Write;
use std::ptr::null_mut;

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[test]
fn a_process_that_ends_meanwhile_is_gone() {
    let _one = alone();
    let mut gone = 0;
    for round in 0..60 {
        let mut child = std::process::Command::new("sleep")
            .arg(format!("0.00{}", round % 10))
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        loop {
            match look(pid, &Options::default()) {
                Ok(_) => {}
                Err(LookError::Gone { pid: told }) => {
                    assert_eq!(told, pid);
                    gone += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
        child.wait().unwrap();
    }
    assert_eq!(gone, 60);
    for nobody in [i32::MAX, 1 << 29] {
        let error = look(nobody, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("no process"), "{error}");
    }
    assert!(look(0, &Options::default()).is_err() && look(-3, &Options::default()).is_err());
}

#[test]
fn a_thread_of_the_kernel_is_told() {
    // The one that starts all others; in a container it is not seen.
    match look(2, &Options::default()) {
        Err(LookError::KernelThread { .. }) => {}
        Err(LookError::Gone { .. }) => skip("no threads of the kernel are seen here"),
        other => skip(format_args!("process 2 is none: {other:?}")),
    }
}

#[test]
fn another_users_process_shows_its_total_and_what_to_do() {
    let _one = alone();
    if !rustix::process::geteuid().is_root() {
        skip("only root can look as another user");
        return;
    }
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let seen = as_user(65_534, 65_534, || look(pid, &Options::default())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let seen = seen.unwrap();
    assert!(seen.total.resident > 0 && seen.areas.is_empty());
    assert_eq!((seen.total.cached, seen.total.shared), (None, None));
    assert!(seen.notes[0].contains(&format!("sudo plimsoll map {pid}")));
}

#[test]
fn sixty_thousand_mappings_are_read() {
    let _one = alone();
    let pages = 60_000;
    let size = page_size() as usize;
    // SAFETY: a fresh mapping, placed by the kernel.
    let start = unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        mmap_anonymous(null_mut(), pages * size, protection, MapFlags::PRIVATE).unwrap()
    };
    let mut made = 0;
    for page in (0..pages).step_by(2) {
        // SAFETY: the page is inside of the mapping, and nobody uses it.
        let split = unsafe { mprotect(start.byte_add(page * size), size, MprotectFlags::READ) };
        made += usize::from(split.is_ok());
    }
    let seen = look(
        own(),
        &Options {
            addresses: true,
            ..Options::default()
        },
    );
    // SAFETY: the mapping is not used after this.
    unsafe { munmap(start, pages * size).unwrap() };
    let seen = seen.unwrap();
    let range = start as u64..start as u64 + (pages * size) as u64;
    let parts = seen.parts.iter().filter(|part| range.contains(&part.start));
    assert!(parts.count() >= made, "{made}");
}

/// A look at us while a file is mapped, and the state of the mapping's parts.
fn mapped(file: &std::fs::File, bytes: u64) -> (Look, plimsoll_map::States) {
    // SAFETY: a fresh mapping; no page of it is read or written.
    let start = unsafe {
        let flags = MapFlags::SHARED;
        mmap(null_mut(), bytes as usize, ProtFlags::READ, flags, file, 0).unwrap()
    };
    let seen = look(
        own(),
        &Options {
            addresses: true,
            ..Options::default()
        },
    );
    // SAFETY: the mapping is not used after this.
    unsafe { munmap(start, bytes as usize).unwrap() };
    let seen = seen.unwrap();
    let part = seen.parts.iter().find(|part| part.start == start as u64);
    let states = part.expect("it is mapped").states;
    (seen, states)
}

#[test]
fn odd_files_are_told_as_far_as_they_go() {
    let _one = alone();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = |name: &str| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.open(dir.path().join(name)).unwrap()
    };
    let sparse = open("sparse");
    sparse.set_len(1 << 40).unwrap();
    assert!(
        mapped(&sparse, 1 << 40)
            .1
            .cached
            .is_none_or(|cached| cached == 0)
    );

    let mut growing = open("growing");
    growing.write_all(&vec![1; MIB as usize]).unwrap();
    // More is mapped than there is.
    let before = mapped(&growing, 4 * MIB).1;
    growing.write_all(&vec![1; MIB as usize]).unwrap();
    let after = mapped(&growing, 4 * MIB).1;
    if before.cached.is_some() {
        assert_eq!((before.cached, after.cached), (Some(MIB), Some(2 * MIB)));
        assert_eq!((before.resident, before.cached_only()), (0, MIB));
    }

    std::fs::remove_file(dir.path().join("growing")).unwrap();
    let (seen, deleted) = mapped(&growing, 4 * MIB);
    match deleted.cached {
        Some(cached) => assert_eq!(cached, 2 * MIB),
        None => assert!(seen.notes.iter().any(|note| note.contains("deleted"))),
    }
    // Another file of that name is not the mapped one.
    drop(open("growing"));
    assert_ne!(mapped(&growing, 4 * MIB).1.cached, Some(0));

    let tmpfs = format!("/dev/shm/plimsoll-map-odd-{}", std::process::id());
    std::fs::write(&tmpfs, vec![1; MIB as usize]).unwrap();
    let file = std::fs::File::open(&tmpfs).unwrap();
    let (seen, states) = mapped(&file, MIB);
    std::fs::remove_file(&tmpfs).unwrap();
    assert!(states.cached.is_none_or(|cached| cached == MIB));
    let shared = seen.parts.iter().find(|part| part.name == tmpfs).unwrap();
    assert_eq!(shared.kind, Kind::SharedMemory);
}
