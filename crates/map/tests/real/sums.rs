//! Sums equal the kernel's own, and each label gets the pages that it has.

use crate::common::{PATIENCE, alone, group, start, stop, swap};
use plimsoll_kernel::advise::{Advice, advise_ranges};
use plimsoll_kernel::pages::{PageMap, Tier};
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::{Addresses, Rollup, rollup};
use plimsoll_map::attribute::attribute;
use plimsoll_map::count::count;
use plimsoll_map::labels::Label;
use plimsoll_map::parts::cut;
use plimsoll_map::{Kind, Look, Options, Picture, Snapshot, States, cached_files, look};
use plimsoll_testbed::skip;
use plimsoll_unit::MIB;
use rustix::fs::MemfdFlags;
use rustix::mm::{
    Advice as Madvice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect,
    munmap,
};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Memory of this process, unmapped in the end.
struct Mapped(*mut u8, usize);

impl Mapped {
    /// Between two pages of no access, which stay: the kernel would make it one mapping with the stack of a
    /// thread beside it.
    fn anonymous(bytes: usize) -> Mapped {
        let page = page_size() as usize;
        // SAFETY: a fresh mapping, placed by the kernel; all but its outermost pages are opened.
        let at = unsafe {
            let all = bytes + 2 * page;
            let at =
                mmap_anonymous(null_mut(), all, ProtFlags::empty(), MapFlags::PRIVATE).unwrap();
            let inner = at.byte_add(page);
            mprotect(inner, bytes, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
            inner
        };
        Mapped(at.cast(), bytes)
    }

    fn of(file: impl AsFd, bytes: usize, flags: MapFlags) -> Mapped {
        // SAFETY: a fresh mapping of a file that is long enough and that only this test writes to.
        let at = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(null_mut(), bytes, protection, flags, file, 0).unwrap()
        };
        Mapped(at.cast(), bytes)
    }

    fn addresses(&self) -> Addresses {
        self.0 as u64..self.0 as u64 + self.1 as u64
    }

    /// Some pages, by number.
    fn pages(&self, pages: std::ops::Range<usize>) -> Addresses {
        let (start, size) = (self.0 as u64, page_size());
        start + pages.start as u64 * size..start + pages.end as u64 * size
    }

    fn advise(&self, pages: std::ops::Range<usize>, advice: Madvice) -> bool {
        let range = self.pages(pages);
        // SAFETY: the range is inside of the mapping; no reference into it is held.
        unsafe {
            madvise(
                range.start as *mut _,
                (range.end - range.start) as usize,
                advice,
            )
        }
        .is_ok()
    }

    fn touch(&self, pages: std::ops::Range<usize>, write: bool) {
        for page in pages {
            let at = self.pages(page..page + 1).start as *mut u8;
            // A write does not read before: that would map the page's neighbours, too.
            // SAFETY: the page is inside of the mapping.
            unsafe {
                if write {
                    at.write_volatile(1);
                } else {
                    at.read_volatile();
                }
            }
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is not used after this.
        let _ = unsafe { munmap(self.0.cast(), self.1) };
    }
}

/// Labels pieces of 7 and 5 pages and half a page, in turns.
fn stripes(range: &Addresses) -> Vec<Label> {
    let kinds = [Kind::Eden, Kind::Old, Kind::Stacks];
    let lengths = [7 * page_size(), 5 * page_size(), page_size() / 2];
    let (mut labels, mut at, mut turn) = (Vec::new(), range.start, 0);
    while at < range.end {
        let end = range.end.min(at + lengths[turn % 3]);
        labels.push(Label {
            addresses: at..end,
            kind: kinds[turn % 3],
        });
        at = end;
        turn += 1;
    }
    labels
}

/// The picture of some of our own memory, labelled in stripes.
fn striped(ranges: &[Addresses], tier: Option<Tier>) -> Picture {
    let own = Arc::new(Process::own().unwrap());
    let mut snapshot = Snapshot::of(&own, Duration::from_secs(60)).unwrap();
    (snapshot.mappings).retain(|area| ranges.iter().any(|r| r.contains(&area.addresses.start)));
    let labels: Vec<Label> = ranges.iter().flat_map(stripes).collect();
    let parts = cut(&snapshot.mappings, &labels);
    let pages = match tier {
        Some(tier) => PageMap::open_with(&own, tier).unwrap(),
        None => PageMap::open(&own).unwrap(),
    };
    let counted = count(&snapshot.mappings, &parts, &pages, None);
    assert!(!counted.missed);
    let (caches, _) = cached_files::look(&snapshot, &parts, None);
    let picture = attribute(
        &snapshot.mappings,
        &parts,
        &counted,
        &caches,
        &mut |_, _| {},
    );
    let mut sum = States::default();
    picture.areas.iter().for_each(|area| sum.add(&area.states));
    assert_eq!(sum, picture.total);
    let kernel = |of: fn(&plimsoll_kernel::smaps::Area) -> u64| {
        snapshot.mappings.iter().map(of).sum::<u64>()
    };
    assert_eq!(picture.total.resident, kernel(|area| area.rss));
    assert_eq!(picture.total.swapped, kernel(|area| area.swap));
    assert_eq!(picture.total.shared, Some(kernel(|area| area.shared())));
    assert_eq!(picture.total.size, kernel(|area| area.size()));
    picture
}

fn of(picture: &Picture, kind: Kind) -> States {
    let area = picture.areas.iter().find(|area| area.kind == kind);
    area.map_or_else(States::default, |area| area.states)
}

fn is_whole(picture: &Picture) {
    assert_eq!(
        of(picture, Kind::Unattributed),
        States::default(),
        "{picture:?}"
    );
}

#[test]
fn pages_of_zeros_and_guards_are_not_resident() {
    let _one = alone();
    let memory = Mapped::anonymous(256 * page_size() as usize);
    memory.advise(0..256, Madvice::LinuxNoHugepage);
    memory.touch(0..64, true);
    memory.touch(64..128, false);
    let guard = memory.pages(200..232);
    let install = 102; // MADV_GUARD_INSTALL, Linux 6.13
    // SAFETY: the range is inside of the mapping and nobody touches it.
    let guarded =
        unsafe { libc::madvise(guard.start as *mut _, 32 * page_size() as usize, install) };
    if guarded != 0 {
        skip("this kernel has no guard pages");
    }
    for tier in [None, Some(Tier::Words)] {
        let picture = striped(&[memory.addresses()], tier);
        is_whole(&picture);
        assert_eq!(picture.total.resident, 64 * page_size(), "{tier:?}");
        assert_eq!(picture.total.anonymous, picture.total.resident);
        assert_eq!(picture.total.swapped, 0);
        // 64 pages are 5 times 12.5 pages and 1.5 pages of the first kind.
        let eden = of(&picture, Kind::Eden).resident;
        assert_eq!(eden, 5 * 7 * page_size() + page_size() * 3 / 2, "{tier:?}");
    }
}

#[test]
fn huge_pages_count_as_the_kernel_counts_them() {
    let _one = alone();
    let memory = Mapped::anonymous(16 * MIB as usize);
    if !memory.advise(0..4096, Madvice::LinuxHugepage) {
        skip("this kernel has no huge pages");
        return;
    }
    // One page of each 2 MiB is enough; half of them are only read, which gives huge pages of zeros.
    let step = (2 * MIB / page_size()) as usize;
    for block in 0..6 {
        memory.touch(block * step + 600..block * step + 601, block % 2 == 0);
    }
    for tier in [None, Some(Tier::Words)] {
        is_whole(&striped(&[memory.addresses()], tier));
    }
}

/// Keeps the thread of a test where it is. The kernel hands new pages over in batches of each processor, and
/// cannot page out those that wait in the batch of another one.
fn stay_on_this_processor() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).unwrap();
}

/// Shared memory without a name.
fn memfd(bytes: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create("plimsoll-test", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

#[test]
fn swapped_pages_are_counted_wherever_they_are() {
    let _one = alone();
    let Some(_swap) = swap(128 * MIB) else { return };
    stay_on_this_processor();
    let bytes = 200 * page_size();
    let file = memfd(bytes);
    let private = Mapped::anonymous(bytes as usize);
    private.advise(0..200, Madvice::LinuxNoHugepage);
    let first = Mapped::of(&file, bytes as usize, MapFlags::SHARED);
    let second = Mapped::of(&file, bytes as usize, MapFlags::SHARED);
    private.touch(0..160, true);
    first.touch(0..160, true);
    // Reading a page would map its neighbours too.
    second.touch(0..80, true);
    let own = Process::own().unwrap();
    // Pages that are mapped twice are not paged out by advice: take those of one view only.
    let out = [private.pages(13..90), first.pages(100..150)];
    if let Err(e) = advise_ranges(&own, Advice::PageOut, &out) {
        skip(e);
        return;
    }
    for tier in [None, Some(Tier::Words)] {
        let picture = striped(&[private.addresses()], tier);
        is_whole(&picture);
        assert!(picture.total.swapped > 0, "{picture:?}");
        assert_eq!(
            picture.total.resident + picture.total.swapped,
            160 * page_size()
        );
    }
    let views = striped(&[first.addresses(), second.addresses()], None);
    is_whole(&views);
    let once = views.total.swapped - views.total.repeated_swapped;
    assert_eq!(once, 50 * page_size(), "{views:?}");
    assert_eq!(
        views.total.swapped,
        2 * once,
        "the kernel counts it in each view"
    );
    assert_eq!(views.total.repeated, 80 * page_size());
    assert!(views.total.shared > Some(0) && views.total.shared < Some(views.total.resident));
    let exact = views.areas.iter().all(|area| !area.estimated.swapped);
    assert!(
        exact,
        "the file says where its swapped pages are: {views:?}"
    );
}

#[test]
fn copies_of_file_pages_are_told_from_the_cache() {
    let _one = alone();
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::io::Write::write_all(&mut &file, &vec![1; 100 * page_size() as usize]).unwrap();
    let memory = Mapped::of(&file, 100 * page_size() as usize, MapFlags::PRIVATE);
    memory.touch(0..50, false);
    memory.touch(10..30, true);
    let picture = striped(&[memory.addresses()], None);
    is_whole(&picture);
    assert_eq!(picture.total.anonymous, 20 * page_size());
    // It is deleted, and can be opened by its mapping only.
    match picture.total.cached {
        Some(cached) => assert_eq!(cached, 100 * page_size()),
        None => skip("page caches of deleted files are not told to us here"),
    }
}

/// A look at a process that does nothing, and what the kernel says of it before and after. The kernel may
/// take pages of its own accord meanwhile, or look which are in use; then it is looked at again.
fn settled(process: &Process) -> (Look, Rollup) {
    let options = Options {
        addresses: true,
        ..Options::default()
    };
    for _ in 0..20 {
        let before = rollup(process).unwrap();
        let look = look(process.pid(), &options).unwrap();
        let after = rollup(process).unwrap();
        let same = |of: fn(&Rollup) -> u64| of(&before) == of(&after);
        if same(|it| it.rss) && same(|it| it.swap) && same(|it| it.referenced) {
            return (look, after);
        }
    }
    panic!("the kernel took pages all the time: this machine has no memory to test in");
}

/// A look must agree with the kernel about the same process. Returns the look.
fn agrees(process: &Process) -> Look {
    let (look, kernel) = settled(process);
    let ours = (look.total.resident, look.total.swapped, look.proportional);
    assert_eq!(ours.0, kernel.rss, "{}", look.name);
    assert_eq!(ours.1, kernel.swap, "{}", look.name);
    assert!(
        ours.2.unwrap().abs_diff(kernel.pss) <= 1024 * 1024,
        "{}",
        look.name
    );
    assert_eq!(look.total.referenced, Some(kernel.referenced));
    let mut sum = States::default();
    look.areas.iter().for_each(|area| sum.add(&area.states));
    assert_eq!(sum, look.total);
    assert!(
        look.areas
            .iter()
            .all(|area| area.kind != Kind::Unattributed)
    );
    look
}

#[test]
fn real_programs_at_rest_add_up() {
    let _one = alone();
    let swap = swap(256 * MIB);
    let group = group("sums", 48 * MIB).filter(|_| swap.is_some());
    let path = format!("/dev/shm/plimsoll-map-{}", std::process::id());
    let programs = [
        &["hog", "--bytes", "64M"][..],
        &["hog", "--bytes", "24M", "--huge"],
        &["share", "--path", &path, "--bytes", "8M", "--unpaced"],
    ];
    for arguments in programs {
        let whole = arguments[2] == "64M" && group.is_none();
        if whole {
            skip("without a group and swap nothing is swapped");
        }
        let child = start(arguments, group.as_ref());
        let look = agrees(&stop(&child));
        let (mut parts, mut end) = (States::default(), 0);
        for part in &look.parts {
            parts.add(&part.states);
            assert!(part.start >= end && part.end > part.start);
            end = part.end;
        }
        assert_eq!(parts, look.total);
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn a_plain_program_is_told_apart() {
    let _one = alone();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let process = Process::open(i32::try_from(child.id()).unwrap()).unwrap();
    // Its libraries and its heap are there once it sleeps.
    let end = Instant::now() + PATIENCE;
    while process.comm().unwrap() != "sleep" || process.stat().unwrap().state != b'S' {
        assert!(Instant::now() < end, "it does not sleep");
        std::thread::sleep(Duration::from_millis(5));
    }
    let look = agrees(&process);
    child.kill().unwrap();
    child.wait().unwrap();
    for kind in [
        Kind::Executable,
        Kind::Libraries,
        Kind::Stacks,
        Kind::Malloc,
    ] {
        let area = look.areas.iter().find(|area| area.kind == kind);
        assert!(
            area.is_some_and(|area| area.states.resident > 0),
            "{kind:?}"
        );
    }
    assert_eq!(look.runtime, None);
}
