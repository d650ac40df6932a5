//! Roots that are not stacks: static data of all loaded objects, and what the program adds.
//!
//! Static data is read in the moment when the world stops, with the [loader's](crate::loader) lock
//! held from before until after that. So nobody can unload what is read, and nobody waits for the
//! lock while the world stands: a thread that is not stopped may have it, and wait for a lock of
//! `malloc` that a stopped thread has. What is read is kept, for marking begins later, after
//! callbacks: one of these may fork, and the child would never get the lock again. No other way is
//! as good: files of `/proc` may be closed, and a fault that is caught would be caught in the
//! program's place.
//!
//! Where the program is told that the world stands, it may store to static data then, and libgc
//! reads that afterwards. So we read it later in such a program, and take the lock for that.

use crate::collect::{GC_disable, GC_enable};
use crate::settings::{GC_no_dls, Variable, on_collection_event, on_thread_event};
use crate::thread::AtStop;
use crate::{collector, loader};
use libc::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

type HasRoots = unsafe extern "C" fn(*const c_char, *mut c_void, usize) -> c_int;

/// Room for so many words of static data is made at first: 512 KiB. Most programs have a few thousand
/// that refer to the heap.
const WORDS: usize = 1 << 16;

/// So often is static data read for one stop. Each time there is room for a quarter more than was
/// found before.
const READINGS: u32 = 3;

const WORD: usize = size_of::<usize>();

static HAS_ROOTS: Variable<Option<HasRoots>> = Variable::new(None);

/// Ranges of addresses that hold references.
#[derive(Default)]
pub(crate) struct Roots {
    /// What the program added.
    added: Vec<Range<usize>>,
    /// What it took out, of whatever else is here.
    excluded: Vec<Range<usize>>,
    /// Static data of the objects that were loaded before the world was stopped last, and what of
    /// that the program said has no references.
    loaded: Vec<Range<usize>>,
    refused: Vec<Range<usize>>,
    /// How many objects had been unloaded until then: while that is the same, a range is the same.
    unloaded: u64,
    /// Static data counts.
    data: bool,
    /// What static data referred to in the heap when the world stopped. Its room is made before.
    words: Vec<usize>,
    /// They are all: there was room, and nobody may have stored to static data since.
    are_all: bool,
    /// How many there were when static data was read last, with those for which there was no room;
    /// and how many there should be room for now.
    found: usize,
    wanted: usize,
}

/// Reads static data when the world stops.
pub(crate) struct Reading<'a> {
    roots: &'a mut Roots,
    /// Addresses where objects are.
    heap: Range<usize>,
    /// When it began to read; the world stood then.
    began: Instant,
    /// How often it may read, until it is content with what it has.
    left: u32,
}

impl Reading<'_> {
    /// Since when the world stands.
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

/// What the program took out before there was a collector.
static EARLY: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

fn early(then: impl FnOnce(&mut Vec<Range<usize>>)) {
    if let Ok(mut early) = EARLY.lock() {
        then(&mut early);
    }
}

impl Roots {
    /// Those of a new collector.
    pub(crate) fn begin() -> Roots {
        let mut roots = Roots::default();
        early(|early| roots.excluded.append(early));
        roots
    }

    /// What reads static data that may refer to these addresses.
    pub(crate) fn reading(&mut self, heap: Range<usize>) -> Reading<'_> {
        Reading {
            roots: self,
            heap,
            began: Instant::now(),
            left: READINGS,
        }
    }

    /// Lists what is loaded, and makes room for what will be read of it. The loader's lock is held,
    /// and the world runs: this allocates, and asks the program.
    fn list(&mut self) {
        self.loaded.clear();
        self.refused.clear();
        // Without them not the program's own data either: libgc finds that in the same way.
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
            match wanted {
                true => self.loaded.push(range),
                false => self.refused.push(range),
            }
        });
        self.unloaded = unloaded;
        let most = self.loaded.iter().map(Range::len).sum::<usize>() / WORD;
        self.wanted = most.min(WORDS.max(self.found + self.found / 4));
        self.words.clear();
        // Where there is no memory for them, static data is read later.
        let _ = self.words.try_reserve_exact(self.wanted);
    }

    /// Keeps the words of static data that may refer to the heap. The world stands still, and the
    /// loader's lock is held. False where more room should be made, which needs a world that runs.
    fn read(&mut self, heap: &Range<usize>) -> bool {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        // Asked only now, for a callback before may have set or unset one.
        if on_collection_event.get().is_some() || on_thread_event.get().is_some() {
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
        // Without memory it is read later: another attempt makes no more room.
        self.are_all || self.words.capacity() < self.wanted
    }

    /// Bytes that [`each`](Roots::each) reports, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
        of(&self.loaded) + of(&self.added)
    }

    /// Every stretch of memory that holds references and was not read when the world stopped: what
    /// the program added. Where the words of static data are not all that counts, it is listed, too:
    /// then `root` is no more than a look, for the loader's lock is held meanwhile.
    pub(crate) fn each(&self, mut root: impl FnMut(usize, usize)) {
        for range in &self.added {
            self.each_part(range, &mut root);
        }
        if !self.are_all {
            self.each_loaded(&mut root);
        }
    }

    /// Every word of static data that may refer to the heap, where these are all that counts.
    pub(crate) fn each_word(&self, root: impl FnMut(usize)) {
        if self.are_all {
            self.words.iter().copied().for_each(root);
        }
    }

    /// Every stretch of static data that holds references.
    fn each_loaded(&self, root: &mut impl FnMut(usize, usize)) {
        if self.data {
            loader::each_segment(|object, range| {
                // Another one may have come to the addresses of one that was refused.
                if object.unloaded != self.unloaded || !self.refused.contains(&range) {
                    self.each_part(&range, root);
                }
            });
        }
    }

    /// What of a range is not excluded.
    fn each_part(&self, range: &Range<usize>, root: &mut impl FnMut(usize, usize)) {
        let mut at = range.start;
        while at < range.end {
            // The excluded range that is met next.
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

/// Adds the words of a range that are addresses of the heap, as far as there is room: the world is
/// stopped, and nothing may be allocated. How many such words there are.
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

fn range(low: *mut c_void, high: *mut c_void) -> Range<usize> {
    (low as usize).next_multiple_of(WORD)..high as usize / WORD * WORD
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !range.is_empty() {
        let mut gc = collector::lock();
        if !gc.roots.added.contains(&range) {
            gc.roots.added.push(range);
        }
    }
}

/// Takes out added ranges that lie inside of this one, as libgc does.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if !collector::is_ready() {
        return;
    }
    let inside = |added: &Range<usize>| added.start >= range.start && added.end <= range.end;
    collector::lock().roots.added.retain(|added| !inside(added));
}

/// What the loader knows of is found again by the next collection, as by libgc's.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_roots() {
    let mut gc = collector::lock();
    gc.roots.added.clear();
    gc.roots.loaded.clear();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    let range = range(low, high);
    if range.is_empty() {
        return;
    }
    let _guard = collector::guard();
    if collector::is_ready() {
        collector::held().roots.excluded.push(range);
    } else {
        early(|early| early.push(range));
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_clear_exclusion_table() {
    let _guard = collector::guard();
    if collector::is_ready() {
        collector::held().roots.excluded.clear();
    } else {
        early(Vec::clear);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn GC_register_has_static_roots_callback(callback: Option<HasRoots>) {
    HAS_ROOTS.set(callback);
}

/// Whether an address lies in roots that the loader added and may take away.
#[unsafe(no_mangle)]
extern "C-unwind" fn GC_is_tmp_root(address: *mut c_void) -> c_int {
    let holds = |range: &Range<usize>| range.contains(&(address as usize));
    c_int::from(collector::is_ready() && collector::either().roots.loaded.iter().any(holds))
}

/// As `dlopen`, without a collection meanwhile: who collects asks the loader, which may wait for
/// what is loaded.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    unsafe extern "C-unwind" {
        /// Runs the program's constructors, which may throw.
        fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    }
    struct Enable;
    impl Drop for Enable {
        fn drop(&mut self) {
            GC_enable();
        }
    }
    GC_disable();
    let _enable = Enable;
    // SAFETY: the caller's arguments.
    unsafe { dlopen(path, mode) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Where a heap might be.
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
        // Nobody reads it, as far as the compiler can see.
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
        // The next collection knows.
        roots.list();
        assert!(roots.read(&OTHER));
    }

    #[test]
    fn too_little_room_has_all_tried_again_but_not_for_ever() {
        let mut roots = Roots::default();
        let mut reading = roots.reading(HEAP);
        for left in (0..READINGS).rev() {
            reading.prepare();
            // As if more had been loaded since than there is room for.
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
