//! Groups on the real kernel: limits that nest and change, taking bytes, refusals.

use crate::common::{PATIENCE, alone, group, start, start_holding, swap};
use plimsoll_kernel::Error;
use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::cgroup::{Cgroup, Version};
use plimsoll_testbed::{TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use std::time::Instant;

#[test]
fn the_tightest_of_nested_limits_binds_and_changes_are_followed() {
    let _one = alone();
    let Some(outer) = group("nested", Some(96 * MIB)) else {
        return;
    };
    let Ok(inner) = TestCgroup::below(outer.cgroup(), "inner", Some(Bytes::mib(200))) else {
        skip("no groups within groups here");
        return;
    };
    let mut domain = Domain::of_group(inner.cgroup().dir()).unwrap();
    let first = domain.read().unwrap();
    assert_eq!(first.capacity, Bytes(96 * MIB));
    assert_eq!(domain.binding(), Some(outer.cgroup().dir()));

    inner.cgroup().set_limit(Some(Bytes(48 * MIB))).unwrap();
    assert_eq!(domain.read().unwrap().capacity, Bytes(48 * MIB));
    assert_eq!(domain.binding(), Some(inner.cgroup().dir()));

    // The outer group has less room now, although its limit is larger.
    let others = TestCgroup::below(outer.cgroup(), "others", None).unwrap();
    let outsider = start_holding(&["hog", "--bytes", "64M"], Some(&others));
    let less = domain.read().unwrap();
    assert_eq!(less.capacity, Bytes(96 * MIB));
    // Seen from the inner group nothing jumps: the outsider counts as use of a part of it.
    assert_eq!(
        (less.lowest, domain.lowest()),
        (Bytes::mib(48), Some(inner.cgroup().dir()))
    );
    assert_eq!(less.lowest - less.used_of_lowest(), less.room());
    assert!(
        (16 * MIB..48 * MIB).contains(&less.used_of_lowest().0),
        "{less:?}"
    );
    // The most that it can ever have is a different number.
    assert_eq!(domain.lowest_limit().unwrap(), Some(Bytes::mib(48)));
    drop(outsider);

    inner.cgroup().set_limit(None).unwrap();
    outer.cgroup().set_limit(Some(Bytes(80 * MIB))).unwrap();
    assert_eq!(domain.read().unwrap().capacity, Bytes(80 * MIB));
    assert_eq!(domain.lowest_limit().unwrap(), Some(Bytes::mib(80)));
    assert_eq!(Domain::machine().unwrap().lowest_limit().unwrap(), None);
}

/// Nothing can be paged out of a group without swap or with swappiness 0, nor of groups in it.
/// Otherwise as much can be paged out as the tightest group allows.
#[test]
fn what_can_be_paged_out_is_what_every_group_above_allows() {
    let _one = alone();
    // Others on this machine may take some of it.
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(outer) = group("pageable", Some(128 * MIB)) else {
        return;
    };
    let Ok(inner) = TestCgroup::below(outer.cgroup(), "inner", Some(Bytes::mib(64))) else {
        skip("no groups within groups here");
        return;
    };
    let mut domain = Domain::of_group(inner.cgroup().dir()).unwrap();
    let mut pageable = || {
        let reading = domain.read().unwrap();
        domain.pageable(&reading).unwrap()
    };
    assert!(pageable() > Bytes(32 * MIB));
    let bound = |group: &TestCgroup, limit: u64, swap: u64| {
        let dir = group.cgroup().dir();
        let (file, bytes) = match group.cgroup().version() {
            Version::V1 => ("memory.memsw.limit_in_bytes", limit + swap),
            Version::V2 => ("memory.swap.max", swap),
        };
        std::fs::write(dir.join(file), bytes.to_string()).is_ok()
    };
    if !bound(&inner, 64 * MIB, 16 * MIB) {
        skip("swap is not accounted here");
        return;
    }
    let some = pageable();
    assert!((15 * MIB..=16 * MIB).contains(&some.0), "{some}");
    assert!(bound(&inner, 64 * MIB, 0));
    assert_eq!(pageable() / MIB, Bytes(0));
    if outer.cgroup().version() == Version::V1 {
        assert!(bound(&inner, 64 * MIB, 16 * MIB));
        inner.cgroup().set_swappiness(0).unwrap();
        assert_eq!(pageable(), Bytes(0));
        inner.cgroup().set_swappiness(60).unwrap();
        // Memory of the inner group is full before memory and swap of the outer.
        assert!(bound(&outer, 128 * MIB, 0));
        assert!(pageable() > Bytes(8 * MIB));
        assert!(bound(&inner, 64 * MIB, 128 * MIB));
        assert!(pageable() > Bytes(32 * MIB));
        outer.cgroup().set_limit(Some(Bytes(64 * MIB))).unwrap();
        assert!(bound(&outer, 64 * MIB, 0));
        assert_eq!(pageable() / MIB, Bytes(0));
    } else {
        assert!(bound(&inner, 64 * MIB, 16 * MIB) && bound(&outer, 128 * MIB, 0));
        assert_eq!(pageable(), Bytes(0));
    }
}

#[test]
fn what_could_go_to_swap_is_anonymous_memory_that_is_not_locked() {
    let _one = alone();
    let Some(group) = group("anonymous", Some(128 * MIB)) else {
        return;
    };
    let mut domain = Domain::of_group(group.cgroup().dir()).unwrap();
    let mut anonymous = || domain.read().unwrap().anonymous;
    let hog = start_holding(&["hog", "--bytes", "48M"], Some(&group));
    let free = anonymous();
    assert!((40 * MIB..80 * MIB).contains(&free.0), "{free}");
    drop(hog);
    let _hog = start_holding(&["hog", "--bytes", "48M", "--lock"], Some(&group));
    let locked = anonymous();
    assert!(locked < Bytes(24 * MIB), "{locked}");
}

#[test]
fn used_counts_programs_but_not_what_can_be_dropped() {
    let _one = alone();
    let Some(group) = group("used", Some(256 * MIB)) else {
        return;
    };
    let mut domain = Domain::of_group(group.cgroup().dir()).unwrap();
    let hog = start_holding(&["hog", "--bytes", "64M"], Some(&group));
    let with_hog = domain.read().unwrap();
    assert!(
        (64 * MIB..80 * MIB).contains(&with_hog.used.0),
        "{with_hog:?}"
    );
    let of_process = Domain::of_process(hog.pid()).unwrap().read().unwrap();
    assert_eq!(of_process.capacity, Bytes(256 * MIB));

    // A file that was read once is in the usage, but not used.
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("read-once");
    std::fs::write(&path, vec![7u8; 32 << 20]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: advice on an open descriptor; drops the cached pages so that the reader below is
    // charged for them.
    unsafe {
        libc::posix_fadvise(
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
            0,
            libc::POSIX_FADV_DONTNEED,
        )
    };
    let before = domain.read().unwrap();
    let procs = group.cgroup().dir().join("cgroup.procs");
    let script = format!(
        "echo $$ > '{}' && cat '{}' > /dev/null",
        procs.display(),
        path.display()
    );
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &script])
            .status()
            .unwrap()
            .success()
    );
    let after = domain.read().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(
        after.usage >= before.usage + Bytes(24 * MIB),
        "{before:?} {after:?}"
    );
    assert!(
        after.used <= before.used + Bytes(8 * MIB),
        "{before:?} {after:?}"
    );
}

#[test]
fn memory_that_came_back_from_swap_is_used_though_its_place_there_is_kept() {
    let _one = alone();
    // The kernel keeps places in swap only while half of it is free.
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("came-back", Some(256 * MIB)) else {
        return;
    };
    let mut domain = Domain::of_group(group.cgroup().dir()).unwrap();
    let arguments = [
        "touch", "--bytes", "64M", "--part", "1.0", "--every", "20", "--read",
    ];
    let mut program = start_holding(&arguments, Some(&group));
    let process = plimsoll_kernel::process::Process::open(program.pid()).unwrap();
    // The kernel may free the places of some pages as they come back.
    let mut came_back = || {
        advise(&process, Advice::PageOut, Bytes(48 * MIB)).unwrap();
        let end = Instant::now() + PATIENCE;
        while process.memory().unwrap().anon < Bytes(64 * MIB) {
            assert!(Instant::now() < end, "{:?}", process.memory());
            program.latest(PATIENCE).unwrap().expect("it lives");
        }
        group.cgroup().stat().unwrap()
    };
    let stat = (0..10)
        .map(|_| came_back())
        .find(|stat| stat.swapcached >= 32 * MIB);
    let stat = stat.expect("it keeps most of them");
    let used = domain.read().unwrap().used;
    assert!(used >= Bytes(63 * MIB), "{used}, {stat:?}");
}

#[test]
fn taking_bytes_leaves_the_limit_and_the_program_alone() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    for limit in [None, Some(160 * MIB)] {
        let Some(group) = group("take", limit) else {
            return;
        };
        let hog = start_holding(&["hog", "--bytes", "96M"], Some(&group));
        let before = group.cgroup().usage().unwrap();
        let taken = group.cgroup().reclaim(Bytes(40 * MIB)).unwrap();
        let after = group.cgroup().usage().unwrap();
        assert!((32 * MIB..=72 * MIB).contains(&taken.0), "took {taken}");
        assert!(after <= before - Bytes(32 * MIB), "{before} to {after}");
        assert_eq!(group.cgroup().limit().unwrap(), limit.map(Bytes));
        assert_eq!(group.cgroup().events().unwrap().oom_kill, 0);
        assert!(group.cgroup().swapped().unwrap() >= Bytes(32 * MIB));
        assert!(
            plimsoll_kernel::process::Process::open(hog.pid())
                .unwrap()
                .alive()
        );
    }
}

#[test]
fn a_limit_below_the_usage_pushes_into_swap_and_can_be_lifted() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("shrink", Some(160 * MIB)) else {
        return;
    };
    let _hog = start_holding(&["hog", "--bytes", "96M"], Some(&group));
    assert_eq!(
        group.cgroup().set_limit(Some(Bytes(48 * MIB))).unwrap(),
        Some(Bytes::mib(48))
    );
    assert!(group.cgroup().usage().unwrap() <= Bytes(48 * MIB));
    assert!(group.cgroup().stat().unwrap().anon <= 48 * MIB);
    assert_eq!(group.cgroup().set_limit(None).unwrap(), None);
    assert_eq!(group.cgroup().events().unwrap().oom_kill, 0);
}

#[test]
fn locked_memory_cannot_be_taken_and_the_limit_stays() {
    let _one = alone();
    let Some(group) = group("locked", Some(96 * MIB)) else {
        return;
    };
    let hog = start_holding(&["hog", "--bytes", "48M", "--lock"], Some(&group));
    let shrunk = group.cgroup().set_limit(Some(Bytes(16 * MIB)));
    match group.cgroup().version() {
        Version::V1 => {
            assert!(matches!(shrunk, Err(Error::Busy { .. })), "{shrunk:?}");
            assert_eq!(group.cgroup().limit().unwrap(), Some(Bytes::mib(96)));
        }
        // Version 2 would kill; we stop at what is left.
        Version::V2 => assert!(shrunk.unwrap() >= Some(Bytes(48 * MIB))),
    }
    let taken = group.cgroup().reclaim(Bytes(40 * MIB)).unwrap();
    assert!(taken < Bytes(8 * MIB), "took {taken} of locked memory");
    assert_eq!(group.cgroup().events().unwrap().oom_kill, 0);
    assert!(
        plimsoll_kernel::process::Process::open(hog.pid())
            .unwrap()
            .alive()
    );
}

#[test]
fn members_are_listed_with_those_below_and_move_up_when_a_group_goes() {
    let _one = alone();
    let Some(outer) = group("members", None) else {
        return;
    };
    let inner = TestCgroup::below(outer.cgroup(), "inner", None).unwrap();
    let child = start(&["hog", "--bytes", "1M"], Some(&inner));
    let mut members = Vec::new();
    assert!(outer.cgroup().processes(100, &mut members).unwrap());
    assert_eq!(members, [child.pid()]);
    members.clear();
    assert!(!outer.cgroup().processes(0, &mut members).unwrap());

    let other = TestCgroup::below(outer.cgroup(), "other", None).unwrap();
    let removed = |refuge| Cgroup::at(inner.cgroup().dir()).unwrap().remove(refuge);
    let refuge = match outer.cgroup().version() {
        Version::V1 => {
            removed(None).unwrap();
            outer.cgroup()
        }
        // A group with limited children holds no processes, so they stay until a refuge is given.
        Version::V2 => {
            let refused = removed(None);
            assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
            assert_eq!(
                Cgroup::of(child.pid()).unwrap().unwrap().dir(),
                inner.cgroup().dir()
            );
            removed(Some(other.cgroup().dir())).unwrap();
            other.cgroup()
        }
    };
    assert!(!inner.cgroup().dir().exists());
    let now_in = Cgroup::of(child.pid()).unwrap().unwrap();
    assert_eq!(now_in.dir(), refuge.dir());
    // The open files of the removed group show that it is gone.
    let gone = inner.cgroup().usage();
    assert!(matches!(gone, Err(Error::Absent { .. })), "{gone:?}");

    let dir = outer.cgroup().dir().to_path_buf();
    drop((other, outer));
    assert!(!dir.exists());
}

#[test]
fn guards_clean_up_when_a_test_panics() {
    let _one = alone();
    let Some(probe) = group("panic", None) else {
        return;
    };
    drop(probe);
    let (tell, hear) = std::sync::mpsc::channel();
    let failed = std::thread::spawn(move || {
        let group = TestCgroup::new("panic", Some(Bytes::mib(64))).unwrap();
        let swap = plimsoll_testbed::SwapFile::new(
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")),
            Bytes::mib(16),
        )
        .ok();
        let child = start(&["tree", "--depth", "2", "--width", "2"], Some(&group));
        tell.send((
            group.cgroup().dir().to_path_buf(),
            swap.as_ref().map(|s| s.path().to_path_buf()),
            child.pid(),
        ))
        .unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(failed.is_err());
    let (dir, swap, pid) = hear.recv().unwrap();
    assert!(!dir.exists());
    assert!(swap.is_none_or(|path| !path.exists()));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}
