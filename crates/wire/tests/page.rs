//! The page: its layout, the steps of a publication, and readers that never see a torn set, in
//! memory and through a file.

use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::page::{
    Level, Numbers, PAGE_SIZE, PageError, PageImage, PageView, STALE_AFTER, Step, offset,
};
use proptest::prelude::*;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

type Words = [AtomicU64; PAGE_SIZE / 8];

fn blank() -> Box<Words> {
    Box::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

/// Applies a step like `pwrite`, to words in this process.
fn apply(words: &Words, step: &Step<'_>) {
    assert!(step.offset.is_multiple_of(8) && step.bytes.len().is_multiple_of(8));
    for (index, word) in step.bytes.chunks(8).enumerate() {
        let value = u64::from_ne_bytes(word.try_into().unwrap());
        words[step.offset as usize / 8 + index].store(value, Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
}

/// Numbers that are all functions of `n`, so that a torn set is detected.
fn woven(n: u64) -> Numbers {
    Numbers {
        limit: n,
        available: n.wrapping_mul(3),
        owed: n ^ 0x5555,
        deadline: n.wrapping_add(17),
        uses: !n,
        share: n.rotate_left(9),
        level: Level::from_number(n % 3),
        sensed: n.wrapping_mul(5),
    }
}

fn assert_woven(view: &PageView<'_>) -> Option<u64> {
    let reading = view.read()?;
    let n = reading.numbers.limit;
    assert_eq!(reading.numbers, woven(n), "a torn set");
    assert_eq!(
        reading.heartbeat,
        n + 1,
        "numbers and heartbeat are of one publication"
    );
    assert_eq!(reading.generation, n, "and so is the generation");
    Some(n)
}

#[test]
fn a_published_page_reads_back() {
    let words = blank();
    let mut image = PageImage::new(42);
    apply(&words, &image.create());
    let view = PageView::of_words(&words);
    assert_eq!(view.check(), Ok(()));
    assert_eq!(view.read(), None, "nothing was published yet");
    let numbers = Numbers {
        limit: 7 << 30,
        level: Level::Warning,
        ..woven(5)
    };
    for step in image.publish(&numbers, Nanos(99)) {
        apply(&words, &step);
    }
    let reading = view.read().unwrap();
    assert_eq!(reading.numbers, numbers);
    assert_eq!(
        (reading.id, reading.heartbeat, reading.generation),
        (42, 99, 1)
    );
    assert_eq!(view.limit(), Bytes(7 << 30));
}

#[test]
fn the_layout_is_the_documented_one() {
    let mut image = PageImage::new(0x0102_0304);
    image.publish(&woven(6), Nanos(1234));
    let bytes = image.create().bytes;
    assert_eq!(bytes.len(), offset::END);
    assert_eq!(&bytes[..8], b"PLIMSOLL");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(word(8), 1 | 4096 << 32);
    assert_eq!(
        (word(16), word(24), word(32), word(40)),
        (2, 6, 18, 6 ^ 0x5555)
    );
    assert_eq!(
        (word(48), word(56), word(64), word(72)),
        (23, !6, 6 << 9, 0)
    );
    assert_eq!((word(80), word(88), word(96)), (1234, 1, 0x0102_0304));
    assert_eq!(word(104), 30);
}

#[test]
fn the_generation_moves_with_the_numbers_only() {
    let mut image = PageImage::new(1);
    image.publish(&Numbers::default(), Nanos(1));
    assert_eq!(image.generation(), 1, "the first publication counts");
    image.publish(
        &Numbers {
            uses: 9,
            share: 9,
            ..Numbers::default()
        },
        Nanos(2),
    );
    image.heartbeat(Nanos(3));
    assert_eq!(image.generation(), 1, "uses, share and heartbeat do not");
    image.publish(
        &Numbers {
            owed: 1,
            ..Numbers::default()
        },
        Nanos(4),
    );
    assert_eq!(image.generation(), 2);
}

#[test]
fn a_heartbeat_is_one_word_and_keeps_the_page_fresh() {
    let words = blank();
    let mut image = PageImage::new(1);
    apply(&words, &image.create());
    for step in image.publish(&woven(1), Nanos(1_000)) {
        apply(&words, &step);
    }
    let view = PageView::of_words(&words);
    let later = Nanos(1_000) + STALE_AFTER;
    assert!(!view.is_stale(later) && view.is_stale(later + Nanos(1)));
    let step = image.heartbeat(later);
    assert_eq!(step.bytes.len(), 8);
    apply(&words, &step);
    assert!(!view.is_stale(later + Nanos(1)));
    assert!(
        !view.is_stale(Nanos::ZERO),
        "a clock before the heartbeat is no reason to give up"
    );
    assert!(view.read().unwrap().is_stale(Nanos(u64::MAX)));
}

#[test]
fn a_writer_that_died_half_way_gives_nothing_and_the_next_one_mends_it() {
    let words = blank();
    let mut image = PageImage::new(1);
    apply(&words, &image.create());
    let steps = image.publish(&woven(1), Nanos(2));
    apply(&words, &steps[0]);
    apply(&words, &steps[1]);
    let view = PageView::of_words(&words);
    assert_eq!(view.read(), None);
    for step in image.publish(&woven(2), Nanos(3)) {
        apply(&words, &step);
    }
    assert_eq!(view.read().unwrap().numbers, woven(2));
}

#[test]
fn foreign_pages_are_named() {
    let words = blank();
    let view = PageView::of_words(&words);
    assert_eq!(view.check(), Err(PageError::Magic));
    apply(&words, &PageImage::new(1).create());
    words[1].store(2 | 4096 << 32, Ordering::Relaxed);
    assert_eq!(view.check(), Err(PageError::Version(2)));
    words[1].store(1 | 8192 << 32, Ordering::Relaxed);
    assert_eq!(view.check(), Err(PageError::Size(8192)));
    assert_eq!(Level::from_number(77), Level::Critical);
}

/// Publishes `count` times through `write` while two readers check every set they get.
fn stress(count: u64, view: PageView<'_>, mut write: impl FnMut(&Step<'_>)) {
    let (done, reading) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut image = PageImage::new(1);
    write(&image.create());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                let mut seen = 0u64;
                while !done.load(Ordering::Acquire) {
                    if let Some(n) = assert_woven(&view) {
                        assert!(n >= last, "numbers never go back");
                        if seen == 0 {
                            reading.fetch_add(1, Ordering::Relaxed);
                        }
                        seen += u64::from(n != last);
                        last = n;
                    }
                }
                assert_eq!(assert_woven(&view), Some(count));
            });
        }
        for n in 1..=count {
            for step in image.publish(&woven(n), Nanos(n + 1)) {
                write(&step);
            }
        }
        // A reader that was not scheduled yet sees at least the last set.
        let end = Instant::now() + Duration::from_secs(60);
        while reading.load(Ordering::Relaxed) < 2 && Instant::now() < end {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    let reading = reading.into_inner();
    assert_eq!(reading, 2, "not all readers saw something");
}

#[test]
fn readers_in_memory_never_see_a_torn_set() {
    let words = blank();
    stress(300_000, PageView::of_words(&words), |step| {
        apply(&words, step);
    });
}

/// A file, mapped for reading.
struct Mapped {
    base: NonNull<u8>,
}

impl Mapped {
    fn new(file: &File) -> Mapped {
        // SAFETY: a new shared mapping of a file that is PAGE_SIZE long; nothing else is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_SIZE,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Mapped {
            base: NonNull::new(base.cast()).unwrap(),
        }
    }

    fn view(&self) -> PageView<'_> {
        // SAFETY: page-aligned, PAGE_SIZE long, mapped until self is dropped; written by pwrite.
        unsafe { PageView::new(self.base) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: made by us in `new`, and no view outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE_SIZE) };
    }
}

fn page_file() -> File {
    let directory = if std::path::Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    let file = tempfile::tempfile_in(directory).unwrap();
    file.set_len(PAGE_SIZE as u64).unwrap();
    file
}

#[test]
fn readers_of_a_mapped_file_never_see_a_torn_set() {
    let file = page_file();
    let mapped = Mapped::new(&file);
    stress(200_000, mapped.view(), |step| {
        file.write_all_at(step.bytes, step.offset).unwrap();
        fence(Ordering::SeqCst);
    });
}

#[test]
fn readers_in_another_process_never_see_a_torn_set() {
    const COUNT: u64 = 100_000;
    let file = page_file();
    let mapped = Mapped::new(&file);
    let mut image = PageImage::new(1);
    file.write_all_at(image.create().bytes, 0).unwrap();
    // SAFETY: the child only reads the mapping and leaves by _exit: no allocation, no lock.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let code = watch_until(&mapped.view(), COUNT);
        // SAFETY: ends the child at once, without this process's exit handlers.
        unsafe { libc::_exit(code) };
    }
    for n in 1..=COUNT {
        for step in image.publish(&woven(n), Nanos(n + 1)) {
            file.write_all_at(step.bytes, step.offset).unwrap();
            fence(Ordering::SeqCst);
        }
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    assert_eq!(
        libc::WEXITSTATUS(status),
        0,
        "1: a torn set, 2: never saw the last"
    );
}

/// Returns 0 when every set until the last was whole. Runs after a fork: no panic, no allocation.
fn watch_until(view: &PageView<'_>, last: u64) -> i32 {
    for _ in 0..20_000_000_000u64 {
        let Some(reading) = view.read() else { continue };
        let n = reading.numbers.limit;
        if reading.numbers != woven(n) || reading.heartbeat != n + 1 {
            return 1;
        }
        if n == last {
            return 0;
        }
    }
    2
}

#[test]
fn views_go_to_threads() {
    fn is_send<T: Send + Sync>() {}
    is_send::<PageView<'static>>();
    is_send::<Arc<PageImage>>();
}

proptest! {
    #[test]
    fn any_numbers_come_back(
        values in any::<[u64; 6]>(),
        level in 0u64..3,
        id in any::<u64>(),
        now in any::<u64>(),
    ) {
        let [limit, available, owed, deadline, uses, share] = values;
        let level = Level::from_number(level);
        let numbers = Numbers { limit, available, owed, deadline, uses, share, level, sensed: now };
        let words = blank();
        let mut image = PageImage::new(id);
        for step in image.publish(&numbers, Nanos(now)) {
            apply(&words, &step);
        }
        apply(&words, &image.create());
        let reading = PageView::of_words(&words).read().unwrap();
        prop_assert_eq!(reading.numbers, numbers);
        prop_assert_eq!(reading.id, id);
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..PAGE_SIZE)) {
        plimsoll_wire::fuzz::fuzz_page(&bytes);
    }
}
