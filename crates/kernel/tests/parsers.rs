//! Every parser on good text, cut text, changed text and noise. None panics, and fields that are missing stay
//! 0.

use plimsoll_kernel::cgroup::{
    Events, Location, Membership, Mount, Stat, Version, choose, parse_membership, parse_mounts,
};
use plimsoll_kernel::meminfo::Meminfo;
use plimsoll_kernel::pressure::parse_psi;
use plimsoll_kernel::process::{
    parse_stat, parse_statm, parse_status, parse_status_ids, parse_status_signals,
};
use plimsoll_kernel::referenced::segments_of;
use plimsoll_kernel::smaps::{parse_areas, parse_rollup};
use plimsoll_kernel::stalls::{TaskStalls, Vmstat};
use plimsoll_kernel::swap::parse_swaps;
use plimsoll_unit::{Bytes, Nanos};
use proptest::prelude::*;
use std::path::Path;

const STATUS: &str = "Name:\tja va\nUmask:\t0022\nState:\tS \
                      (sleeping)\nTgid:\t42\nPid:\t42\nPPid:\t7\nUid:\t1000\t1001\t1000\t1000\n\
Gid:\t100\t101\t100\t100\nNSpid:\t42\t3\t1\nVmLck:\t      4 kB\nRssAnon:\t    1000 \
kB\nRssFile:\t     200 kB\nRssShmem:\t      30 kB\nVmSwap:\t       8 kB\n";
const STAT: &str = "42 (ja) va\n() S 7 42 42 0 -1 4194304 1500 0 12 0 30 40 0 0 20 -5 17 0 98765 1000000 \
                    333 18446744073709551615";
const SMAPS: &str = "7f00-8f00 rw-s 00000000 00:1b 99                       /dev/shm/a b (deleted)\n\
Size:                 64 kB\nRss:                  32 kB\nPss:                  16 \
kB\nPrivate_Dirty:         8 kB\nReferenced:           24 kB\nAnonymous:             0 kB\nVmFlags: rd \
wr sh mr mw me ms sd\n\
a000-b000 rw-p 00000000 00:00 0\nRss:                   4 kB\nAnonymous:             4 \
kB\nPrivate_Dirty:         4 kB\nSwap:                 12 kB\nLocked:                4 kB\nVmFlags: rd \
wr mr mw me lo ac\n\
b000-c000 rw-s 00000000 00:1b 99                       /dev/shm/a b (deleted)\nRss:                   4 \
kB\nReferenced:            4 kB\n";
const MEMINFO: &str = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    300 \
                       kB\nSwapCached:       10 kB\nActive(anon):     70 kB\nInactive(anon):   30 \
                       kB\nActive(file):    200 kB\nInactive(file):  250 \
                       kB\nDirty:            50 kB\nSReclaimable:     40 kB\nSwapTotal:       500 \
                       kB\nSwapFree:        400 kB\n";
const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory\n\
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n\
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
const MEMBERSHIP: &str = "9:name=systemd:/\n4:memory,hugetlb:/a/b:c\n0::/user.slice/x.scope\n";
const CGROUP_STAT: &str = "cache 1\nrss 2\ninactive_file 3\ntotal_cache 100\ntotal_rss \
                           200\ntotal_inactive_file 50\ntotal_dirty 10\ntotal_inactive_anon \
                           204\ntotal_swapcached 5\ntotal_swap \
                           7\ntotal_pgmajfault 9\n";
const SWAPS: &str = concat!(
    "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "/a\\040b                                 file\t\t1024\t\t12\t\t-2\n",
    "/dev/zram0                              partition\t2048\t0\t100\n"
);

#[test]
fn good_text_gives_the_numbers_in_it() {
    let memory = parse_status(STATUS.as_bytes());
    assert_eq!(
        (memory.anon, memory.file, memory.shmem, memory.swap),
        (
            Bytes(1000 << 10),
            Bytes(200 << 10),
            Bytes(30 << 10),
            Bytes(8 << 10)
        )
    );
    let ids = parse_status_ids(STATUS.as_bytes()).unwrap();
    assert_eq!(
        (ids.uid, ids.gid, ids.parent, ids.inner_pid, ids.pid_levels),
        (1001, 101, 7, 1, 3)
    );
    let stat = parse_stat(STAT.as_bytes()).unwrap();
    assert_eq!(
        (stat.state, stat.parent, stat.threads, stat.start_time),
        (b'S', 7, 17, 98765)
    );
    assert_eq!(
        (stat.faults.minor, stat.faults.major, stat.cpu_ticks),
        (1500, 12, 70)
    );
    assert_eq!(
        parse_statm(b"10 5 2 0 0 0 0\n", Bytes(4096))
            .unwrap()
            .anon(),
        Bytes(3 * 4096)
    );
    let m = Meminfo::parse(MEMINFO.as_bytes());
    // 1000 - 100 - (250 - 50) - 10 - 40/2 = 670. But the kernel says that 300 of 1000 are available, so 700
    // are used.
    assert_eq!(m.used(), Bytes(700 << 10));
    assert_eq!(m.anonymous(), Bytes(100 << 10));
    let events = Events::parse(b"low 0\nhigh 3\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n");
    assert_eq!(
        (events.high, events.max, events.oom, events.oom_kill),
        (3, 2, 1, 1)
    );
    let psi = parse_psi(
        b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 \
                          avg300=0.00 total=7\n",
    );
    assert_eq!((psi.some, psi.full), (Nanos(12_000), Nanos(7_000)));
    let vmstat = Vmstat::parse(
        b"allocstall_dma 1\nallocstall_normal 2\npswpout \
                                 5\nworkingset_refault_anon 3\nworkingset_refault_file 4\n",
    );
    assert_eq!(
        (vmstat.allocation_stalls, vmstat.swap_out, vmstat.refaults),
        (3, 5, 7)
    );
}

#[test]
fn areas_know_their_file_and_segments_are_summed() {
    let areas = parse_areas(SMAPS.as_bytes(), 10);
    assert_eq!(areas.len(), 3);
    assert_eq!((areas[0].file.minor, areas[0].file.inode), (0x1b, 99));
    assert_eq!(areas[0].name, "/dev/shm/a b (deleted)");
    assert!(areas[0].shared_mapping && !areas[0].pinned && areas[1].pinned);
    assert_eq!((areas[1].swap, areas[1].locked), (12 << 10, 4 << 10));
    let segments = segments_of(&areas, &|_| false, 10).memory;
    assert_eq!(segments.len(), 1);
    assert_eq!(
        (segments[0].size, segments[0].rss, segments[0].referenced),
        (Bytes(0x2000), Bytes(36 << 10), Bytes(28 << 10))
    );
    // On a disk it would be a file.
    let on_disk = segments_of(&areas, &|key| key.inode == 99, 10);
    assert_eq!((on_disk.memory, on_disk.files), (Vec::new(), segments));
    assert_eq!(parse_areas(SMAPS.as_bytes(), 1).len(), 1);
    for bad in [
        &b""[..],
        b"7f00",
        b"7f00-x rw-p 0 00:00 0",
        b"\xff-1 rw-p 0 00:00 0",
        b"1-2 rw-p 0 0",
    ] {
        assert_eq!(parse_areas(bad, 1), []);
    }
    let rollup = parse_rollup(b"a-b ---p 0 00:00 0 [rollup]\nRss: 8 kB\nReferenced: 4 kB\n");
    assert_eq!((rollup.rss, rollup.referenced), (8192, 4096));
}

#[test]
fn sums_of_groups_follow_the_hierarchy() {
    let all = Stat::parse(CGROUP_STAT.as_bytes(), Version::V1, true);
    assert_eq!(
        (all.anon, all.file, all.swap, all.major_faults),
        (200, 100, 7, 9)
    );
    // The lists have 204 pages. 200 are mapped; one of those is in the swap cache.
    assert_eq!(all.droppable(), Bytes(50 - 10 + 4));
    let alone = Stat::parse(CGROUP_STAT.as_bytes(), Version::V1, false);
    assert_eq!((alone.anon, alone.file, alone.inactive_file), (2, 1, 3));
    let two = Stat::parse(
        b"anon 7\nfile_dirty 3\ninactive_file 10\npgscan_direct 4\nrss 99\n",
        Version::V2,
        true,
    );
    assert_eq!(
        (two.anon, two.droppable(), two.scan_direct),
        (7, Bytes(7), 4)
    );
}

#[test]
fn swap_spaces_with_odd_names() {
    let spaces = parse_swaps(SWAPS.as_bytes());
    assert_eq!(spaces.len(), 2);
    assert_eq!(
        (spaces[0].path.as_path(), spaces[0].size, spaces[0].used),
        (Path::new("/a b"), Bytes(1 << 20), Bytes(12 << 10))
    );
    assert!(!spaces[0].in_memory && spaces[1].in_memory);
    assert!(parse_swaps(b"").is_empty());
}

fn located(
    membership: &Membership,
    mounts: &[Mount],
    v2_has_memory: bool,
) -> Option<(Version, String, bool)> {
    let Location {
        version,
        dir,
        exact,
        ..
    } = choose(membership, mounts, &|_| v2_has_memory, &|mount, name| {
        mount.below(name, None)
    })?;
    Some((version, dir.to_str().unwrap().to_owned(), exact))
}

#[test]
fn groups_are_found_under_every_layout() {
    let membership = parse_membership(MEMBERSHIP.as_bytes());
    let mounts = parse_mounts(MOUNTS.as_bytes());
    // Version 1, and a hybrid setup, in which version 2 is mounted without the memory controller.
    let v1 = Some((Version::V1, "/sys/fs/cgroup/memory/a/b:c".into(), true));
    assert_eq!(located(&membership, &mounts, false), v1);
    // Pure version 2.
    let unified = parse_mounts(
        b"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    let v2 = Some((
        Version::V2,
        "/sys/fs/cgroup/user.slice/x.scope".into(),
        true,
    ));
    assert_eq!(located(&membership, &unified, true), v2);
    // Version 2 without the controller, and no cgroups at all.
    assert_eq!(located(&membership, &unified, false), None);
    assert_eq!(located(&Membership::default(), &mounts, true), None);
    assert_eq!(located(&membership, &[], true), None);
    // A container in which only its own part of the tree is mounted.
    let part = parse_mounts(
        b"35 31 0:32 /docker/12ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
    );
    let inside = parse_membership(b"4:memory:/docker/12ab/child\n");
    assert_eq!(
        located(&inside, &part, false),
        Some((Version::V1, "/sys/fs/cgroup/memory/child".into(), true))
    );
    // A process in another part of the tree is not visible there; the top of the mount is the nearest group.
    let outside = parse_membership(b"4:memory:/docker/ffff\n");
    assert_eq!(
        located(&outside, &part, false),
        Some((Version::V1, "/sys/fs/cgroup/memory".into(), false))
    );
    // In a cgroup namespace, the path of a group outside of it begins with "..".
    let climbing = parse_membership(b"0::/../other.service\n");
    assert_eq!(
        located(&climbing, &unified, true),
        Some((Version::V2, "/sys/fs/cgroup".into(), false))
    );
    let below_the_mount =
        parse_mounts(b"30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    let own = parse_membership(b"0::/\n");
    assert_eq!(
        located(&own, &below_the_mount, true).map(|found| found.2),
        Some(false)
    );
    // Names with blanks are escaped in mountinfo.
    let blank = parse_mounts(b"30 23 0:26 / /mnt/c\\040g rw - cgroup2 cgroup2 rw\n");
    assert_eq!(blank[0].point, Path::new("/mnt/c g"));
}

/// Runs every parser. The results are not checked, only that nothing panics and that bounds are kept.
fn parse_all(text: &[u8]) {
    let _ = (
        parse_status(text),
        parse_status_ids(text),
        parse_status_signals(text),
        parse_stat(text),
        parse_statm(text, Bytes(4096)),
    );
    let m = Meminfo::parse(text);
    assert!(m.total == Bytes(0) || m.used() <= m.total);
    for version in [Version::V1, Version::V2] {
        for hierarchical in [true, false] {
            let _ = Stat::parse(text, version, hierarchical).droppable();
        }
    }
    let _ = (
        Events::parse(text),
        parse_psi(text),
        Vmstat::parse(text),
        TaskStalls::parse(text),
        parse_rollup(text),
    );
    let areas = parse_areas(text, 4);
    let segments = segments_of(&areas, &|file| file.inode % 2 == 0, 2);
    assert!(areas.len() <= 4 && segments.memory.len() <= 2 && segments.files.len() <= 2);
    let _ = plimsoll_kernel::advise::coldest_first(&areas);
    let membership = parse_membership(text);
    let mounts = parse_mounts(text);
    let place = |mount: &Mount, name: &Path| mount.below(name, None);
    if let Some(found) = choose(&membership, &mounts, &|_| true, &place) {
        assert!(found.dir.starts_with(&found.mount));
    }
    let _ = parse_swaps(text);
}

fn samples() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        STATUS,
        STAT,
        SMAPS,
        MEMINFO,
        MOUNTS,
        MEMBERSHIP,
        CGROUP_STAT,
        SWAPS,
    ])
}

proptest! {
    #[test]
    fn noise_is_harmless(text in prop::collection::vec(any::<u8>(), 0..2000)) {
        parse_all(&text);
    }

    #[test]
    fn cut_text_is_harmless(sample in samples(), end in any::<prop::sample::Index>()) {
        parse_all(&sample.as_bytes()[..end.index(sample.len())]);
    }

    #[test]
    fn mutated_text_is_harmless(
        sample in samples(),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut text = sample.as_bytes().to_vec();
        let at = at.index(text.len());
        let end = (at + with.len()).min(text.len());
        text.splice(at..end, with);
        parse_all(&text);
    }

    #[test]
    fn huge_numbers_saturate(sample in samples(), digits in 1usize..40) {
        let nines = "9".repeat(digits);
        let text: String = sample.split_inclusive(char::is_whitespace)
            .map(|word| if word.trim().bytes().all(|b| b.is_ascii_digit()) && !word.trim().is_empty() {
                word.replace(word.trim(), &nines)
            } else { word.to_owned() })
            .collect();
        parse_all(text.as_bytes());
    }

    #[test]
    fn a_missing_line_leaves_zero_and_the_rest(skip in 0usize..14) {
        let kept = STATUS.lines().enumerate().filter(|(i, _)| *i != skip);
        let text: Vec<&str> = kept.map(|(_, line)| line).collect();
        let (full, part) = (parse_status(STATUS.as_bytes()), parse_status(text.join("\n").as_bytes()));
        let whole = [full.anon, full.file, full.shmem, full.swap];
        let cut = [part.anon, part.file, part.shmem, part.swap];
        for (whole, cut) in whole.into_iter().zip(cut) {
            prop_assert!(cut == whole || cut == Bytes(0));
        }
    }
}
