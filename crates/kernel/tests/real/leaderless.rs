//! A process whose first thread has ended (`pthread_exit` in `main`) while another goes on. The kernel shows
//! its directory as that of a zombie.

use crate::common::{alone, group};
use plimsoll_kernel::advise::{Advice, advise_ranges};
use plimsoll_kernel::cgroup::{Version, locate};
use plimsoll_kernel::mounts::Mounts;
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::{Handle, Process, Walk, page_size};
use plimsoll_kernel::process_vm::{Copied, Piece, copy, copy_pieces};
use plimsoll_kernel::{clock, descriptors, mapped, referenced, smaps};
use plimsoll_testbed::{Leaderless, skip};
use plimsoll_unit::{Bytes, MIB};
use rustix::process::Signal;
use std::os::unix::fs::MetadataExt;

/// Memory that the copy shares with us.
fn block() -> Vec<u8> {
    vec![7; 16 << 20]
}

#[test]
fn it_lives_and_has_its_memory() {
    let block = block();
    let child = Leaderless::start().unwrap();
    let process = Process::open(child.pid()).unwrap();
    let handle = Handle::new(child.pid() as u32).unwrap();
    assert!(process.alive() && handle.alive() && !process.is_ending());
    assert!(!process.stat().unwrap().has_ended() && process.stat().unwrap().is_exiting);
    let (slow, fast) = (process.memory().unwrap(), process.memory_fast().unwrap());
    assert!(
        slow.anon >= Bytes(16 * MIB) && slow == handle.memory().unwrap(),
        "{slow:?}"
    );
    assert!(
        fast.size > fast.resident && fast.anon() >= Bytes(16 * MIB),
        "{fast:?}"
    );
    let walk = Walk::new(Process::open(child.pid()).unwrap(), 1);
    assert_eq!(walk.totals().unwrap().memory.anon, slow.anon);
    let all = smaps::areas(&process, 65_536).unwrap();
    assert!(all.iter().map(|area| area.rss).sum::<u64>() >= 16 * MIB);
    assert!(smaps::rollup(&process).unwrap().rss >= 16 * MIB);
    let (mut mappings, mut again, mut sizes) = (0, 0, 0);
    smaps::each_mapping(&process, &mut |_| {
        mappings += 1;
        true
    })
    .unwrap();
    smaps::each_mapping_of(child.pid() as u32, &mut |_| {
        again += 1;
        true
    })
    .unwrap();
    smaps::each_area(child.pid() as u32, &mut |_| {
        sizes += 1;
        true
    })
    .unwrap();
    assert!(mappings > 3 && again == mappings && sizes == mappings && all.len() == mappings);
    drop(block);
}

#[test]
fn it_has_its_program_its_files_and_its_places() {
    let child = Leaderless::start().unwrap();
    let (own, process) = (Process::own().unwrap(), Process::open(child.pid()).unwrap());
    let handle = Handle::new(child.pid() as u32).unwrap();
    assert_eq!(process.exe().unwrap(), own.exe().unwrap());
    assert!(process.exe().unwrap().is_some());
    assert_eq!(process.cmdline().unwrap(), own.cmdline().unwrap());
    assert_eq!(process.ids().unwrap().parent, own.pid());
    assert!(process.shares_users() && handle.sees_our_files());
    let ours = Handle::new(std::process::id()).unwrap();
    assert_eq!(handle.arguments(), ours.arguments());
    assert_eq!(handle.variables(), ours.variables());
    assert!(handle.inner_directory("proc").is_ok() && !handle.lockable().is_empty());
    assert!(descriptors::of(child.pid()).unwrap().count() >= 3);
    assert_eq!(clock::ahead_ns(child.pid() as u32), 0);
    let root = std::fs::metadata("/").unwrap().dev();
    let device = (rustix::fs::major(root), rustix::fs::minor(root));
    let kind = |process| Mounts::of(process).unwrap().kind(device).map(str::to_owned);
    assert!(kind(&process).is_some() && kind(&process) == kind(&own));
    assert_eq!(process.cgroup().unwrap(), own.cgroup().unwrap());
}

#[test]
fn its_pages_are_seen_copied_and_named() {
    let block = block();
    let child = Leaderless::start().unwrap();
    let process = Process::open(child.pid()).unwrap();
    let pages = PageMap::open(&process).unwrap();
    let at = (block.as_ptr() as u64).next_multiple_of(page_size());
    assert!(pages.counts(&(at..at + page_size())).unwrap().present > Bytes(0));
    let mut bytes = [0; 100];
    assert_eq!(copy(&process, &pages, at, &mut bytes).unwrap(), Copied::All);
    assert_eq!(bytes, [7; 100]);
    bytes.fill(0);
    let pieces = &mut [Piece::new(at, &mut bytes)];
    assert_eq!(copy_pieces(&process, pieces).unwrap(), 1);
    assert_eq!(bytes, [7; 100]);
    let program = process.exe().unwrap().unwrap();
    let mounts = Mounts::of(&process).unwrap();
    let mut named = None;
    smaps::each_mapping(&process, &mut |area| {
        if std::path::Path::new(&area.name) == program {
            named = mapped::Named::of(child.pid(), &area.addresses, &area.name, &mounts).ok();
        }
        named.is_none()
    })
    .unwrap();
    assert!(named.is_some_and(|named| named.by_mapping && named.is_regular()));
    referenced::clear(&process).unwrap();
    let left = smaps::rollup(&process).unwrap();
    assert!(left.referenced < left.rss / 2, "{left:?}");
    // The kernel cannot do this one: it is said, and not that the process has exited.
    let here = at..at + page_size();
    let refused = advise_ranges(&process, Advice::Cold, std::slice::from_ref(&here)).unwrap_err();
    assert!(refused.is_busy() || refused.is_denied(), "{refused}");
    drop(block);
}

#[test]
fn its_group_is_that_of_the_thread_that_lives() {
    let _one = alone();
    let Some(group) = group("leaderless", None) else {
        return;
    };
    let child = Leaderless::start().unwrap();
    if let Err(error) = group.cgroup().add(child.pid()) {
        skip(format_args!("not moved: {error}"));
        return;
    }
    let found = locate(child.pid()).unwrap().unwrap();
    assert_eq!(found.dir, group.cgroup().dir());
    if group.cgroup().version() == Version::V1 {
        // Version 2 lists first threads only, and moves only those that live.
        let mut listed = Vec::new();
        group.cgroup().processes(10, &mut listed).unwrap();
        assert_eq!(listed, [child.pid()]);
    }
}

#[test]
fn it_takes_signals_and_is_gone_when_it_has_ended() {
    let child = Leaderless::start().unwrap();
    let process = Process::open(child.pid()).unwrap();
    let handle = Handle::new(child.pid() as u32).unwrap();
    handle.signal(Signal::KILL).unwrap();
    let deadline = std::time::Instant::now() + crate::common::PATIENCE;
    while process.alive() || handle.alive() {
        assert!(
            std::time::Instant::now() < deadline,
            "the signal has no effect"
        );
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // A zombie, until we wait for it.
    assert!(process.stat().unwrap().has_ended() && process.is_ending());
    assert_eq!(
        process.memory().unwrap(),
        plimsoll_kernel::process::Memory::default()
    );
    assert!(smaps::areas(&process, 10).is_err_and(|error| error.is_gone()));
    assert!(Handle::new(child.pid() as u32).is_err());
}
