//! Where in the address space the memory of a process lies.

use super::html::{Space, State};
use plimsoll_kernel::pagemap_scan::{GUARD, PRESENT, SWAPPED, ZERO};
use plimsoll_kernel::pages::PageMap;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::timeout::within;
use plimsoll_map::attribute::PartOf;
use std::time::{Duration, Instant};

/// Parts up to this size are not read page by page, bytes: they lie in few blocks of any picture.
const FINE: u64 = 64 << 10;

/// Spreads the memory of parts, which come by address, over the address space. Reads the pages of parts
/// that are in several states, as long as `limit` allows; in other parts resident memory comes first.
pub(super) fn spread(pid: i32, parts: Vec<PartOf>, limit: Duration) -> Space {
    if parts.is_empty() {
        return Space::default();
    }
    let end = Instant::now() + limit;
    let space = within(limit.saturating_mul(2), move || {
        let process = Process::open(pid).ok();
        let pages = process.and_then(|process| PageMap::open(&process).ok());
        let mut space = Space::default();
        for part in &parts {
            let pages = pages.as_ref().filter(|_| Instant::now() < end);
            add(&mut space, part, pages);
        }
        space
    });
    space.unwrap_or_default()
}

fn add(space: &mut Space, part: &PartOf, pages: Option<&PageMap>) {
    let states = &part.states;
    let size = part.end.saturating_sub(part.start);
    let cached = states.cached_only();
    let mut filled = Filled {
        space,
        part,
        at: part.start,
        cached,
    };
    let mixed = states.resident < size && states.resident + states.swapped > 0;
    let Some(pages) = pages.filter(|_| mixed && size > FINE) else {
        filled.until(part.start.saturating_add(states.resident), State::Resident);
        filled.until(filled.at.saturating_add(states.swapped), State::Swapped);
        filled.rest();
        return;
    };
    // An error leaves the rest of the part without memory; the process may have exited.
    let _ = pages.each_place(&(part.start..part.end), &mut |run, categories| {
        filled.hole_before(run.start);
        let state = match categories {
            c if c & PRESENT != 0 && c & ZERO == 0 => State::Resident,
            c if c & SWAPPED != 0 && c & GUARD == 0 => State::Swapped,
            _ => State::Absent,
        };
        filled.until(run.end, state);
        true
    });
    filled.rest();
}

/// A part that is filled from its start on.
struct Filled<'a> {
    space: &'a mut Space,
    part: &'a PartOf,
    at: u64,
    /// Bytes of the page cache that have no place yet. Which pages of a file they are is not known;
    /// they take the first ones that are not resident.
    cached: u64,
}

impl Filled<'_> {
    fn until(&mut self, end: u64, state: State) {
        let end = end.min(self.part.end);
        if end > self.at {
            self.space.add(self.at..end, self.part.kind, state);
            self.at = end;
        }
    }

    fn hole_before(&mut self, end: u64) {
        let cached = end.saturating_sub(self.at).min(self.cached);
        self.cached -= cached;
        self.until(self.at.saturating_add(cached), State::Cached);
        self.until(end, State::Absent);
    }

    fn rest(&mut self) {
        self.hole_before(self.part.end);
    }
}
