//! The machine's own counts of its collections, in the memory in which it publishes its counters
//! (`PerfMemory`; the layout is that of the `hsperfdata` file). They tell what a pause was for.

use crate::machine::{Machine, word};
use plimsoll_kernel::process_vm::copy_own;
use plimsoll_wire::collections::{Collector, Kind};
use std::collections::HashMap;

/// Bytes of that memory that are looked at, at most. HotSpot makes it 32 KiB.
const MAX_MEMORY: usize = 1 << 20;
/// The most counters.
const MAX_ENTRIES: u32 = 8192;
/// First bytes of that memory.
const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
/// The type of a counter: a 64-bit number, as the signature of a Java `long`.
const LONG: u8 = b'J';

/// Counts of collections: of the young generation, of the whole heap, and beside the program.
const NAMES: [(&str, Kind); 3] = [
    ("sun.gc.collector.0.invocations", Kind::Young),
    ("sun.gc.collector.1.invocations", Kind::Full),
    ("sun.gc.collector.2.invocations", Kind::Concurrent),
];

/// Where the counts are, and what they were last.
#[derive(Debug)]
pub struct Counters {
    /// Address of each count; 0 where this collector has none.
    places: [u64; 3],
    /// Their values at the last look.
    last: [u64; 3],
}

impl Counters {
    /// Finds them. `None` without (`-XX:-UsePerfData`), and for collectors that count something else
    /// under these names.
    pub fn of(machine: &Machine) -> Option<Counters> {
        let collectors = [Collector::Serial, Collector::Parallel, Collector::G1];
        if !collectors.contains(&machine.collector()) {
            return None;
        }
        let start = machine.of_static("PerfMemory", "_start").ok()?;
        let size = machine.of_static("PerfMemory", "_capacity").ok()?;
        let start = word(start).filter(|&start| start != 0 && start % 8 == 0)?;
        let size = usize::try_from(word(size)?).ok()?.min(MAX_MEMORY);
        let mut memory = vec![0; size];
        if !copy_own(start, &mut memory) {
            return None;
        }
        let found = longs(&memory);
        let place = |name: &str| found.get(name).map_or(0, |&at| start + at as u64);
        let places = NAMES.map(|(name, _)| place(name));
        (places[0] != 0 || places[1] != 0).then(|| {
            let mut counters = Counters {
                places,
                last: [0; 3],
            };
            counters.begin();
            counters
        })
    }

    /// A pause begins. Earlier counts are none of its: a collection may have begun before the agent was told
    /// of any.
    pub fn begin(&mut self) {
        self.last = self.read();
    }

    /// The kind of the pause, by the counts since it began.
    pub fn kind(&mut self) -> Kind {
        let now = self.read();
        let last = std::mem::replace(&mut self.last, now);
        // A pause for a whole collection may have tried a young one first.
        for index in [1, 0, 2] {
            if now[index] != last[index] {
                return NAMES[index].1;
            }
        }
        Kind::Unknown
    }

    fn read(&self) -> [u64; 3] {
        self.places.map(|at| match at {
            0 => 0,
            // SAFETY: `of` found a counter there, aligned and in memory that the machine keeps mapped
            // until it ends, before which the agent is told (`VMDeath`) and stops.
            at => unsafe { (at as *const u64).read_volatile() },
        })
    }
}

/// Where each 64-bit counter is, bytes from the start. Any bytes give some counters or none.
fn longs(memory: &[u8]) -> HashMap<&str, usize> {
    let mut found = HashMap::new();
    if !memory.starts_with(&MAGIC) {
        return found;
    }
    let number = |at: usize| {
        let bytes = memory.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (Some(mut at), Some(count)) = (number(24), number(28)) else {
        return found;
    };
    for _ in 0..count.min(MAX_ENTRIES) {
        let Some((length, name, place)) = entry(memory, at as usize, number) else {
            break;
        };
        if let (Some(name), Some(place)) = (name, place) {
            found.insert(name, place);
        }
        match at.checked_add(length) {
            Some(next) if length > 0 => at = next,
            _ => break,
        }
    }
    found
}

/// Length of an entry, its name, and where its number is, if it is one.
fn entry(
    memory: &[u8],
    at: usize,
    number: impl Fn(usize) -> Option<u32>,
) -> Option<(u32, Option<&str>, Option<usize>)> {
    let length = number(at)?;
    let name = memory.get(at.checked_add(number(at + 4)? as usize)?..);
    let end = name.and_then(|name| name.iter().position(|&byte| byte == 0));
    let name = name.zip(end).map(|(name, end)| &name[..end]);
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let is_one = number(at + 8)? == 0 && *memory.get(at + 12)? == LONG;
    let place = at.checked_add(number(at + 16)? as usize);
    let fits = |&place: &usize| place % 8 == 0 && place + 8 <= memory.len();
    Some((length, name, place.filter(fits).filter(|_| is_one)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_programs::hotspot::tables::{Field, Place, Tables};

    fn memory(entries: &[(&str, u64)]) -> Vec<u8> {
        let mut memory = MAGIC.to_vec();
        memory.resize(32, 0);
        memory[24..28].copy_from_slice(&32u32.to_ne_bytes());
        memory[28..32].copy_from_slice(&(entries.len() as u32).to_ne_bytes());
        for (name, value) in entries {
            let start = memory.len();
            let data = (20 + name.len() + 1).next_multiple_of(8);
            for part in [data as u32 + 8, 20, 0, u32::from(LONG), data as u32] {
                memory.extend(part.to_le_bytes());
            }
            memory.extend(name.bytes());
            memory.resize(start + data, 0);
            memory.extend(value.to_ne_bytes());
        }
        memory
    }

    #[test]
    fn counters_are_found_and_tell_what_a_pause_was_for() {
        let mut memory = memory(&[
            ("sun.gc.collector.0.invocations", 3),
            ("other", 5),
            ("sun.gc.collector.1.invocations", 1),
        ]);
        let found = longs(&memory);
        assert_eq!(found.len(), 3);
        let place = |name: &str| memory.as_ptr() as u64 + found[name] as u64;
        let places = [place(NAMES[0].0), place(NAMES[1].0), 0];
        let (young, full) = (found[NAMES[0].0], found[NAMES[1].0]);
        let mut counters = Counters {
            places,
            last: [3, 1, 0],
        };
        assert_eq!(counters.kind(), Kind::Unknown);
        memory[young] += 1;
        assert_eq!(counters.kind(), Kind::Young);
        memory[young] += 1;
        memory[full] += 1;
        assert_eq!(counters.kind(), Kind::Full);
        // One that the agent was not told of, and then a young one.
        memory[full] += 1;
        counters.begin();
        memory[young] += 1;
        assert_eq!(counters.kind(), Kind::Young);
    }

    #[test]
    fn a_machine_that_tells_of_no_counters_has_none() {
        let (set, values) = (1u8, [0u64, 8, u64::MAX, 64]);
        let at = |word: &u64| Place::Static(std::ptr::from_ref(word) as u64);
        let of = |fields: &[(&str, Place)]| {
            let mut tables = Tables::default();
            let flag = std::ptr::from_ref(&set) as u64;
            tables.flags.insert("UseSerialGC".to_owned(), flag);
            for (name, place) in fields {
                let field = Field {
                    place: *place,
                    kind: String::new(),
                };
                tables
                    .fields
                    .insert(("PerfMemory".to_owned(), (*name).to_owned()), field);
            }
            // SAFETY: nothing is read by what is found, which is nothing.
            Counters::of(&unsafe { Machine::with(tables) }).is_none()
        };
        let start = |word| ("_start", at(word));
        let size = ("_capacity", at(&values[3]));
        assert!(of(&[]) && of(&[size]) && of(&[start(&values[1])]));
        for word in &values {
            assert!(of(&[start(word), size]), "it is at {word:x}");
        }
        assert!(of(&[("_start", Place::Offset(8)), size]));
        let one = ("_start", Place::Static(1));
        assert!(of(&[one, size]), "nothing is mapped there");
        assert!(of(&[start(&values[0]), ("_capacity", at(&values[2]))]));
    }

    #[test]
    fn any_bytes_give_counters_or_none() {
        assert!(longs(&[]).is_empty() && longs(&MAGIC).is_empty());
        let whole = memory(&[("a", 1), ("b", 2)]);
        for length in 0..whole.len() {
            longs(&whole[..length]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[at] = byte;
                longs(&broken);
            }
        }
    }
}
