//! The nursery: cells of one size in two halves. Objects that live are copied from one half to the other,
//! and at the second time into the heap; a pinned one stays in its cell.

use plimsoll_heap::SUPERPAGE;
use plimsoll_heap::mark::Space;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Words of an object: its number, two references, and its number again, as a seal.
pub(crate) const WORDS: usize = 4;
pub(crate) const BYTES: usize = WORDS * size_of::<usize>();
/// Cells of a half.
const HALF: usize = 4096;
/// Fills cells that hold no object.
const POISON: usize = 0xdead_dead_dead_dead;

#[derive(Clone, Copy, Default)]
struct Cell {
    used: bool,
    /// It was copied once.
    old: bool,
    pinned: bool,
    /// Where its object is now, if that was decided in this collection.
    now: Option<usize>,
}

struct State {
    cells: Vec<Cell>,
    /// In which half objects are made, and the cell to try next.
    half: usize,
    next: usize,
    /// Objects of this space whose references were not reported.
    gray: Vec<usize>,
    /// Places in the heap for objects that are copied there.
    places: Vec<usize>,
    /// Where objects are now that were in the superpage of the heap.
    moved: BTreeMap<usize, usize>,
}

pub(crate) struct Nursery {
    start: usize,
    /// A superpage of the heap that objects are moved out of; 0 for none.
    emptied: AtomicUsize,
    state: Mutex<State>,
}

/// Addresses of an object's references.
pub(crate) fn references(object: usize) -> [usize; 2] {
    [1, 2].map(|word| object + word * size_of::<usize>())
}

impl Nursery {
    /// A nursery whose memory stays for ever.
    pub(crate) fn new() -> Nursery {
        let memory: &'static mut [usize] = vec![POISON; 2 * HALF * WORDS].leak();
        let state = State {
            cells: vec![Cell::default(); 2 * HALF],
            half: 0,
            next: 0,
            gray: Vec::new(),
            places: Vec::new(),
            moved: BTreeMap::new(),
        };
        Nursery {
            start: memory.as_mut_ptr().expose_provenance(),
            emptied: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + 2 * HALF * BYTES
    }

    /// A cell for a new object. `None` if the nursery is full.
    pub(crate) fn allocate(&self) -> Option<usize> {
        self.state.lock().unwrap().take().map(|at| self.place(at))
    }

    fn place(&self, cell: usize) -> usize {
        self.start + cell * BYTES
    }

    fn cell(&self, address: usize) -> usize {
        (address - self.start) / BYTES
    }

    /// How many objects the next collection may copy into the heap.
    pub(crate) fn old(&self) -> usize {
        let state = self.state.lock().unwrap();
        let old = |cell: &&Cell| cell.used && cell.old;
        state.cells.iter().filter(old).count()
    }

    /// Begins a collection: from now on, new cells are those of the other half. `places` are free for
    /// objects that are copied into the heap.
    pub(crate) fn begin(&self, places: Vec<usize>) {
        let mut state = self.state.lock().unwrap();
        state.places = places;
        state.half = 1 - state.half;
        state.next = 0;
    }

    /// Has the next collection move objects out of a superpage of the heap.
    pub(crate) fn empty(&self, superpage: usize) {
        self.emptied.store(superpage, SeqCst);
    }

    /// Whether an address is in that superpage.
    fn is_emptied(&self, word: usize) -> bool {
        let start = self.emptied.load(SeqCst);
        start != 0 && word.wrapping_sub(start) < SUPERPAGE
    }

    /// Ends a collection: cells whose objects moved, or died, are free.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock().unwrap();
        assert!(state.gray.is_empty(), "all references were reported");
        for (from, now) in std::mem::take(&mut state.moved) {
            if from != now {
                // SAFETY: a slot whose object moved.
                unsafe { *std::ptr::with_exposed_provenance_mut(from) = [POISON; WORDS] };
            }
        }
        self.empty(0);
        for at in 0..state.cells.len() {
            let place = self.place(at);
            let cell = &mut state.cells[at];
            let stays = cell.now == Some(place);
            if cell.used && !stays {
                *cell = Cell::default();
                // SAFETY: a cell that nothing refers to.
                unsafe { *std::ptr::with_exposed_provenance_mut(place) = [POISON; WORDS] };
            }
            cell.pinned = false;
            cell.now = None;
        }
    }
}

impl State {
    fn take(&mut self) -> Option<usize> {
        let cells = self.half * HALF + self.next..(self.half + 1) * HALF;
        let free = cells.clone().find(|&at| !self.cells[at].used)?;
        self.next = free + 1 - self.half * HALF;
        self.cells[free].used = true;
        Some(free)
    }
}

fn copy(from: usize, to: usize) -> usize {
    let object: *const [usize; WORDS] = std::ptr::with_exposed_provenance(from);
    // SAFETY: an object, and the place for its copy.
    unsafe { *std::ptr::with_exposed_provenance_mut(to) = *object };
    to
}

// SAFETY: all references of a copied or pinned object are reported by `scan`, and the test's front end
// reports ambiguous words first. Moved objects are overwritten when the collection is over.
unsafe impl Space for Nursery {
    fn contains(&self, word: usize) -> bool {
        self.range().contains(&word) || self.is_emptied(word)
    }

    fn pin(&self, word: usize) {
        if self.is_emptied(word) {
            let object = word / BYTES * BYTES;
            let before = self.state.lock().unwrap().moved.insert(object, object);
            assert!(before.is_none_or(|now| now == object), "nothing moved yet");
            return;
        }
        let at = self.cell(word);
        let mut state = self.state.lock().unwrap();
        let cell = &mut state.cells[at];
        if cell.used && !cell.pinned {
            assert_eq!(cell.now, None, "nothing moved yet");
            (cell.pinned, cell.now) = (true, Some(self.place(at)));
            state.gray.push(self.place(at));
        }
    }

    unsafe fn forward(&self, word: usize) -> usize {
        if self.is_emptied(word) {
            let mut state = self.state.lock().unwrap();
            let State { places, moved, .. } = &mut *state;
            return *moved
                .entry(word)
                .or_insert_with(|| copy(word, places.pop().unwrap()));
        }
        let at = self.cell(word);
        assert_eq!(word, self.place(at), "references are to the start");
        let mut state = self.state.lock().unwrap();
        assert!(state.cells[at].used, "a reference to nothing: {word:x}");
        if let Some(now) = state.cells[at].now {
            return now;
        }
        let place = state.cells[at].old.then(|| state.places.pop()).flatten();
        let now = place.unwrap_or_else(|| {
            let to = state.take().expect("a half has room for all of the other");
            let now = self.place(to);
            (state.cells[to].old, state.cells[to].now) = (true, Some(now));
            state.gray.push(now);
            now
        });
        state.cells[at].now = Some(copy(word, now));
        now
    }

    fn scan(&self, mut each: impl FnMut(usize)) -> bool {
        let mut any = false;
        let next = || self.state.lock().unwrap().gray.pop();
        while let Some(object) = next() {
            any = true;
            references(object).into_iter().for_each(&mut each);
        }
        any
    }
}
