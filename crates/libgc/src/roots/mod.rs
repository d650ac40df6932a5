//! Roots other than stacks: the static data of all loaded objects, and ranges that the program
//! adds. `loader`: the list of loaded objects.
//!
//! Static data is read at the moment when the world stops. The [loader's](loader) lock is
//! held from before that until the data has been read. So nobody can unload what is read. And
//! nobody waits for the lock while the world is stopped: a thread that is not stopped may hold it
//! while it waits for a lock of `malloc` that a stopped thread holds. The words that were read are
//! kept, because marking begins later, after the program's callbacks. One of these may fork, and
//! the child could never take the lock again. The alternatives are worse: a program may close files
//! of `/proc`, and a handler that catches faults would take the place of the program's own.
//!
//! A program that is told when the world is stopped may store to static data then, and libgc reads
//! the data after that. For such a program static data is read later here, too, and the lock is
//! taken for that.

pub(crate) mod loader;

use crate::abi::variables::{GC_no_dls, GC_push_other_roots, on_collection_event, on_thread_event};
use crate::racy_cell::Variable;
use crate::thread::stop::AtStop;
use libc::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

pub(crate) type HasRoots = unsafe extern "C" fn(*const c_char, *mut c_void, usize) -> c_int;

/// The initial capacity in words of static data: 512 KiB. Most programs have a few thousand words
/// that refer to the heap.
const WORDS: usize = 1 << 16;

/// How often static data is read for one stop at most. For each attempt there is room for a quarter
/// more than was found before.
const READINGS: u32 = 3;
const WORD: usize = size_of::<usize>();

/// The program's filter of static data.
pub(crate) static HAS_ROOTS: Variable<Option<HasRoots>> = Variable::new(None);

/// Address ranges that hold references. Guarded by the collector's lock.
#[derive(Default)]
pub(crate) struct Roots {
    /// Ranges that the program added.
    pub(crate) added: Vec<Range<usize>>,
    /// Ranges that the program excluded, wherever they overlap others.
    pub(crate) excluded: Vec<Range<usize>>,
    /// As of the last stop. `loaded`: static data of the loaded objects. `refused`: the ranges
    /// among these that hold no references, according to the program.
    pub(crate) loaded: Vec<Range<usize>>,
    refused: Vec<Range<usize>>,
    /// How many objects had been unloaded until then. While this is unchanged, equal ranges are the
    /// same object.
    unloaded: u64,
    /// Whether static data counts as roots.
    data: bool,
    /// The words of static data that referred to the heap when the world stopped. The capacity is
    /// reserved before the stop.
    words: Vec<usize>,
    /// Whether `words` is complete: there was room for all, and nobody may have stored to static
    /// data since.
    are_all: bool,
    /// `found`: how many words the last reading found, including those for which there was no room.
    /// `wanted`: the capacity to reserve now.
    found: usize,
    wanted: usize,
}

/// Reads static data when the world is stopped.
pub(crate) struct Reading<'a> {
    roots: &'a mut Roots,
    /// The addresses at which objects may lie.
    heap: Range<usize>,
    /// When the last reading began; the world was stopped then.
    began: Instant,
    /// How many more readings are allowed before an incomplete result is accepted.
    left: u32,
}

impl Reading<'_> {
    /// The time since which the world is stopped.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }
}

impl AtStop for Reading<'_> {
    fn prepare(&mut self) {
        self.roots.list();
    }

    fn stopped(&mut self) -> bool {
        self.began = Instant::now();
        self.left = self.left.saturating_sub(1);
        self.roots.read(&self.heap) || self.left == 0
    }
}

/// Ranges that the program excluded before the collector was made.
static EARLY: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Changes the ranges that the program excluded before the collector was made.
pub(crate) fn early(then: impl FnOnce(&mut Vec<Range<usize>>)) {
    if let Ok(mut early) = EARLY.lock() {
        then(&mut early);
    }
}

impl Roots {
    /// The roots of a new collector.
    pub(crate) fn begin() -> Roots {
        let mut roots = Roots::default();
        early(|early| roots.excluded.append(early));
        roots
    }

    /// A reader of static data that may refer to the addresses in `heap`.
    pub(crate) fn reading(&mut self, heap: Range<usize>) -> Reading<'_> {
        Reading {
            roots: self,
            heap,
            began: Instant::now(),
            left: READINGS,
        }
    }

    /// Lists the loaded objects, and reserves room for the words to be read. The loader's lock is
    /// held and the world runs, because this allocates and calls the program's filter.
    fn list(&mut self) {
        self.loaded.clear();
        self.refused.clear();
        // Without libraries, the program's own data does not count either, because libgc finds it
        // in the same way.
        self.data = GC_no_dls.get() == 0;
        if !self.data {
            return;
        }
        let mut unloaded = 0;
        loader::each_segment(|object, range| {
            unloaded = object.unloaded;
            let wanted = HAS_ROOTS.get().is_none_or(|ask| {
                // SAFETY: the program's own callback, with what libgc gives it.
                unsafe { ask(object.name, range.start as *mut c_void, range.len()) != 0 }
            });
            if wanted {
                self.loaded.push(range);
            } else {
                self.refused.push(range);
            }
        });
        self.unloaded = unloaded;
        let most = self.loaded.iter().map(Range::len).sum::<usize>() / WORD;
        self.wanted = most.min(WORDS.max(self.found + self.found / 4));
        self.words.clear();
        // If there is no memory for them, static data is read later.
        let _ = self.words.try_reserve_exact(self.wanted);
    }

    /// Stores the words of static data that may refer to the heap. The world is stopped and the
    /// loader's lock is held. False if more room is needed, which can be made only while the world
    /// runs.
    fn read(&mut self, heap: &Range<usize>) -> bool {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        // A callback that runs later may store references. Checked only now, because a callback may
        // have set or removed a callback before.
        let called_later = on_collection_event.get().is_some()
            || on_thread_event.get().is_some()
            || GC_push_other_roots.get().is_some();
        if called_later {
            (self.words, self.are_all) = (words, false);
            return true;
        }
        let mut found = 0;
        self.each_loaded(&mut |start, end| {
            // SAFETY: static data that stays as long as the lock is held.
            found += unsafe { keep(start..end, heap, &mut words) };
        });
        self.are_all = found == words.len();
        (self.words, self.found) = (words, found);
        // If there was no memory for the words, another attempt makes no more room: static data is
        // read later.
        self.are_all || self.words.capacity() < self.wanted
    }

    /// Roughly the bytes that [`each`](Roots::each) reports.
    pub(crate) fn bytes(&self) -> usize {
        let of = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
        of(&self.loaded) + of(&self.added)
    }

    /// Calls `root` with every range that holds references and was not read when the world stopped:
    /// the ranges that the program added and, if the words of static data are incomplete, the
    /// static data. In that case the loader's lock is held, so `root` must do no more than read.
    pub(crate) fn each(&self, mut root: impl FnMut(usize, usize)) {
        for range in &self.added {
            self.each_part(range, &mut root);
        }
        if !self.are_all {
            self.each_loaded(&mut root);
        }
    }

    /// Calls `root` with every word of static data that may refer to the heap, if these words are
    /// complete.
    pub(crate) fn each_word(&self, root: impl FnMut(usize)) {
        if self.are_all {
            self.words.iter().copied().for_each(root);
        }
    }

    /// Calls `root` with every range of static data that holds references.
    fn each_loaded(&self, root: &mut impl FnMut(usize, usize)) {
        if self.data {
            loader::each_segment(|object, range| {
                // Another object may have been loaded at the addresses of one that was refused.
                if object.unloaded != self.unloaded || !self.refused.contains(&range) {
                    self.each_part(&range, root);
                }
            });
        }
    }

    /// Calls `root` with the parts of a range that are not excluded.
    fn each_part(&self, range: &Range<usize>, root: &mut impl FnMut(usize, usize)) {
        let mut at = range.start;
        while at < range.end {
            // The next excluded range from here on.
            let next = self
                .excluded
                .iter()
                .filter(|excluded| excluded.end > at && excluded.start < range.end)
                .min_by_key(|excluded| excluded.start);
            let end = next.map_or(range.end, |excluded| excluded.start.max(at));
            if at < end {
                root(at, end);
            }
            at = next.map_or(range.end, |excluded| excluded.end);
        }
    }
}

/// Appends the words of a range that are addresses in the heap, as far as there is capacity: the
/// world is stopped, so nothing may be allocated. Returns how many such words there are.
///
/// # Safety
/// The range can be read.
unsafe fn keep(range: Range<usize>, heap: &Range<usize>, words: &mut Vec<usize>) -> usize {
    let mut found = 0;
    for at in (range.start.next_multiple_of(WORD)..range.end / WORD * WORD).step_by(WORD) {
        // SAFETY: a word of the range. Threads that are not stopped may write to it.
        let word = unsafe { (at as *const usize).read_volatile() };
        if heap.contains(&word) {
            found += 1;
            if words.len() < words.capacity() {
                words.push(word);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A plausible address range of a heap.
    const HEAP: Range<usize> = 0x7654_3000..0x7654_4000;
    static WRITABLE: AtomicUsize = AtomicUsize::new(HEAP.start + 0x210);

    fn finds(roots: &Roots) -> bool {
        let word = &raw const WRITABLE as usize;
        let mut found = false;
        roots.each(|start, end| found |= (start..end).contains(&word));
        roots.each_word(|found_word| found |= found_word == WRITABLE.load(Relaxed));
        found
    }

    #[test]
    fn static_data_of_the_program_is_found() {
        let mut roots = Roots::default();
        roots.list();
        assert!(roots.read(&HEAP));
        let word = &raw const WRITABLE as usize;
        assert!(roots.are_all && finds(&roots));
        assert!(roots.loaded.iter().any(|range| range.contains(&word)));
        assert!(roots.bytes() > 1000);
        roots.read(&(0..0));
        assert!(roots.are_all && !finds(&roots), "no heap");
        roots.refused = roots.loaded.clone();
        roots.read(&HEAP);
        assert!(!finds(&roots));
        roots.unloaded += 1;
        roots.read(&HEAP);
        assert!(finds(&roots), "another object at those addresses");
        roots.unloaded -= 1;
        roots.refused.clear();
        roots.loaded.clear();
        roots.read(&HEAP);
        assert!(finds(&roots), "what was loaded since");
        roots.data = false;
        roots.read(&HEAP);
        assert!(!finds(&roots));
    }

    #[test]
    fn static_data_for_which_there_is_no_memory_is_read_later() {
        let mut roots = Roots::default();
        roots.list();
        roots.words = Vec::new();
        assert!(
            roots.read(&HEAP),
            "another attempt would find no memory either"
        );
        assert!(!roots.are_all && roots.words.is_empty());
        assert!(finds(&roots));
    }

    #[test]
    fn room_is_made_for_all_that_was_found() {
        const MANY: usize = WORDS + 10_000;
        const OTHER: Range<usize> = 0x5432_1000..0x5432_2000;
        static TABLE: [AtomicUsize; MANY] = [const { AtomicUsize::new(0) }; MANY];
        // The compiler must not see that nobody reads it.
        for word in std::hint::black_box(&TABLE) {
            word.store(OTHER.start, Relaxed);
        }
        let mut roots = Roots::default();
        let mut reading = roots.reading(OTHER);
        reading.prepare();
        assert!(!reading.stopped(), "there is room for {WORDS}");
        reading.prepare();
        assert!(reading.stopped());
        assert!(roots.are_all && roots.words.len() >= MANY);
        // The next collection finds out.
        roots.list();
        assert!(roots.read(&OTHER));
    }

    #[test]
    fn too_little_room_has_all_tried_again_but_not_for_ever() {
        let mut roots = Roots::default();
        let mut reading = roots.reading(HEAP);
        for left in (0..READINGS).rev() {
            reading.prepare();
            // As if more had been loaded since then than there is room for.
            reading.roots.words = Vec::new();
            reading.roots.wanted = 0;
            assert_eq!(reading.stopped(), left == 0);
        }
        assert!(!roots.are_all && finds(&roots));
    }

    #[test]
    fn what_is_excluded_is_cut_out() {
        let roots = Roots {
            added: vec![100..200, 300..400],
            excluded: vec![190..310, 120..130, 110..125],
            ..Roots::default()
        };
        let mut found = Vec::new();
        roots.each(|start, end| found.push(start..end));
        assert_eq!(found, [100..110, 130..190, 310..400]);
    }
}
