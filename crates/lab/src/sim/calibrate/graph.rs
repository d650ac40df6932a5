//! A heap of objects that refer to each other, and what collectors do with it: copy, mark, sweep, compact.
//! Each does the work of a plain collector of its kind, on real memory, in one thread.
//!
//! An object is a head of one word, its references, and data. A reference is the index of a head; 0 is none.
//! The heap is made from a seed: every other object is alive, and most have 3 to 15 words. A live object is
//! referred to by one that is at most 256 live ones older (one in sixteen: by any older one), and refers to
//! one more near it.

use std::hint::black_box;

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// The most words of data of an object.
const DATA: u64 = 12;
/// How far back most references go, in live objects.
const NEAR: u64 = 256;

/// The head of an object: 32 bits for where it moves to, 16 for its references, 16 for its words.
#[derive(Clone, Copy)]
struct Head(u64);

impl Head {
    fn new(words: usize, references: usize) -> Head {
        Head((references as u64) << 16 | words as u64)
    }

    fn words(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    fn references(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }

    /// The index that it moves to; 0 where none was chosen.
    fn moves_to(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn moving_to(self, index: usize) -> Head {
        Head(self.0 & 0xffff_ffff | (index as u64) << 32)
    }
}

/// A heap with live and dead objects.
#[derive(Clone)]
pub(super) struct Graph {
    /// Heads, references and data. The first word belongs to no object.
    words: Vec<u64>,
    /// A bit for each word: whether a live object begins there.
    marks: Vec<u64>,
    /// Objects that were marked, and whose references were not followed yet.
    grey: Vec<usize>,
    /// The first of the live objects: all others are reached from it.
    root: usize,
    /// Bytes of live objects.
    pub live: u64,
}

/// Numbers from a seed (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % bound.max(1)
    }
}

impl Graph {
    /// A heap with about `live` live bytes, at most 8 GiB, and as many dead ones.
    pub(super) fn new(live: u64) -> Graph {
        let mut random = Random(29);
        // Words of an object: a head, one reference to it, one across, half of the most data.
        let count = (live / (WORD_BYTES as u64 * (3 + DATA / 2))).max(1) as usize;
        let parents: Vec<usize> = (0..count as u64)
            .map(|object| match random.below(16) {
                0 => random.below(object) as usize,
                _ => (object - 1.min(object) - random.below(NEAR.min(object))) as usize,
            })
            .collect();
        let mut children = vec![0u32; count];
        for &parent in &parents[1..] {
            children[parent] += 1;
        }
        let mut graph = Graph {
            words: vec![0],
            marks: Vec::new(),
            grey: Vec::new(),
            root: 1,
            live: 0,
        };
        let mut heads: Vec<usize> = Vec::with_capacity(count);
        for (object, &children) in children.iter().enumerate() {
            let data = random.below(DATA + 1) as usize;
            let head = graph.push(children as usize + 1, data);
            let near = random.below(NEAR.min(object as u64 + 1)) as usize;
            heads.push(head);
            // The last reference is the one across; the others come with their objects.
            let across = head + 1 + children as usize;
            graph.words[across] = heads[object - near] as u64;
            if object > 0 {
                graph.refer(heads[parents[object]], head);
            }
            graph.live += ((children as usize + 2 + data) * WORD_BYTES) as u64;
            // A dead one beside it.
            graph.push(2, random.below(DATA + 1) as usize);
        }
        graph.marks = vec![0; graph.words.len().div_ceil(64)];
        graph
    }

    /// Appends an object without references yet.
    fn push(&mut self, references: usize, data: usize) -> usize {
        let head = self.words.len();
        let words = 1 + references + data;
        self.words.push(Head::new(words, references).0);
        self.words.resize(head + words, 0);
        head
    }

    /// Makes an object refer to another one with its first reference that is free.
    fn refer(&mut self, from: usize, to: usize) {
        let references = Head(self.words[from]).references();
        let mut free = self.words[from + 1..from + references].iter_mut();
        if let Some(free) = free.find(|word| **word == 0) {
            *free = to as u64;
        }
    }

    /// Bytes of all objects.
    pub(super) fn bytes(&self) -> u64 {
        ((self.words.len() - 1) * WORD_BYTES) as u64
    }

    /// Room for copies of the live objects, whose pages are all there.
    pub(super) fn room(&self) -> Vec<u64> {
        vec![u64::MAX; self.live as usize / WORD_BYTES + 1]
    }

    /// Copies the live objects into other room, breadth first (Cheney 1970). Returns their bytes.
    pub(super) fn copy(&mut self, room: &mut [u64]) -> u64 {
        let (mut scanned, mut end) = (1, 1);
        self.root = self.forward(self.root, room, &mut end);
        while scanned < end {
            let head = Head(room[scanned]);
            for slot in scanned + 1..=scanned + head.references() {
                let to = room[slot] as usize;
                if to != 0 {
                    room[slot] = self.forward(to, room, &mut end) as u64;
                }
            }
            scanned += head.words();
        }
        ((end - 1) * WORD_BYTES) as u64
    }

    fn forward(&mut self, object: usize, room: &mut [u64], end: &mut usize) -> usize {
        let head = Head(self.words[object]);
        if head.moves_to() != 0 {
            return head.moves_to();
        }
        let (words, to) = (head.words(), *end);
        *end += words;
        room[to..*end].copy_from_slice(&self.words[object..object + words]);
        self.words[object] = head.moving_to(to).0;
        to
    }

    /// Marks the live objects, depth first. Returns their bytes.
    pub(super) fn mark(&mut self) -> u64 {
        let mut bytes = 0;
        self.grey.push(self.root);
        self.set(self.root);
        while let Some(object) = self.grey.pop() {
            let head = Head(self.words[object]);
            bytes += head.words() * WORD_BYTES;
            for slot in object + 1..=object + head.references() {
                let to = self.words[slot] as usize;
                if to != 0 && self.set(to) {
                    self.grey.push(to);
                }
            }
        }
        bytes as u64
    }

    /// Marks an object. Whether it was not marked.
    fn set(&mut self, object: usize) -> bool {
        let (word, bit) = (&mut self.marks[object / 64], 1 << (object % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn is_marked(&self, object: usize) -> bool {
        self.marks[object / 64] & 1 << (object % 64) != 0
    }

    /// Goes through all objects after [`Graph::mark`] and puts the dead ones into a list of free room.
    /// Returns the bytes of all.
    pub(super) fn sweep(&mut self) -> u64 {
        let (mut object, mut free) = (1, 0u64);
        while object < self.words.len() {
            let words = Head(self.words[object]).words();
            if !self.is_marked(object) {
                self.words[object + 1] = std::mem::replace(&mut free, object as u64);
            }
            object += words;
        }
        black_box(free);
        self.bytes()
    }

    /// Moves the objects that [`Graph::mark`] found to the low end of the heap in their order: chooses where
    /// each goes, changes the references, moves. Returns their bytes.
    pub(super) fn compact(&mut self) -> u64 {
        let mut end = 1;
        self.each_marked(|words, object| {
            let head = Head(words[object]);
            words[object] = head.moving_to(end).0;
            end += head.words();
        });
        self.each_marked(|words, object| {
            let references = Head(words[object]).references();
            for slot in object + 1..=object + references {
                // The first word has no head: no reference stays none.
                words[slot] = Head(words[words[slot] as usize]).moves_to() as u64;
            }
        });
        self.each_marked(|words, object| {
            let head = Head(words[object]);
            let to = head.moves_to();
            words.copy_within(object..object + head.words(), to);
            words[to] = head.moving_to(0).0;
        });
        ((end - 1) * WORD_BYTES) as u64
    }

    /// Calls `act` with the words of the heap and each marked object, in order.
    fn each_marked(&mut self, mut act: impl FnMut(&mut [u64], usize)) {
        let mut object = 1;
        while object < self.words.len() {
            let words = Head(self.words[object]).words();
            if self.is_marked(object) {
                act(&mut self.words, object);
            }
            object += words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_alive_is_found_and_nothing_else() {
        let graph = Graph::new(1 << 20);
        assert!(graph.live.abs_diff(1 << 20) < 1 << 17, "{}", graph.live);
        assert!(graph.bytes() > graph.live * 3 / 2);
        assert_eq!(graph.clone().copy(&mut graph.room()), graph.live);
        assert_eq!(graph.clone().mark(), graph.live);
        let mut swept = graph.clone();
        swept.mark();
        assert_eq!(swept.sweep(), graph.bytes());
        let mut compacted = graph.clone();
        compacted.mark();
        assert_eq!(compacted.compact(), graph.live);
        // The compacted objects are still a whole graph.
        compacted
            .words
            .truncate(graph.live as usize / WORD_BYTES + 1);
        compacted.marks.fill(0);
        assert_eq!(compacted.mark(), graph.live);
    }

    #[test]
    fn the_smallest_heap_is_one_object() {
        let mut graph = Graph::new(0);
        assert!(graph.live > 0);
        assert_eq!(graph.mark(), graph.live);
        assert_eq!(graph.compact(), graph.live);
    }
}
