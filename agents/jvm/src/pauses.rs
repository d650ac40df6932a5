//! The work at the beginning and at the end of a pause. The VM Thread runs this at a safepoint: nothing here
//! calls Java or JVMTI, allocates, sleeps or waits for another thread. Memory is allocated only where the
//! signal stops working, to open and to name another one: as the machine's own code does in pauses.

use crate::counters::Counters;
use crate::heap::{Free, Heap};
use crate::machine::Refusal;
use crate::stall_signal::{Reader, Reading};
use crate::time_budget::TimeBudget;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::{Kind, Pause, Process, ProcessWriter, Totals, Writer};

/// Measures pauses and gives memory back at their ends.
#[derive(Debug)]
pub struct Pauses {
    writer: Writer<'static>,
    /// Writes readings of the process, where no thread of its own does.
    process: Option<ProcessWriter<'static>>,
    reader: Reader,
    /// Limits the time that readings take at the beginning and at the end of pauses.
    ration: TimeBudget,
    counters: Option<Counters>,
    /// The kind of every pause where there are no counters.
    usual: Kind,
    /// `None` where nothing is given back.
    heap: Option<Heap>,
    /// The pause that is under way.
    begun: Option<Begun>,
    totals: Totals,
}

/// Notes from the beginning of a pause.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// When it was.
    start: Nanos,
    /// `None` where it was too soon to read again.
    read: Option<Read>,
}

/// A reading, and what it cost.
#[derive(Clone, Copy, Debug)]
struct Read {
    reading: Reading,
    took: Nanos,
}

impl Pauses {
    /// Begins to count.
    pub fn new(
        writer: Writer<'static>,
        process: Option<ProcessWriter<'static>>,
        reader: Reader,
        counters: Option<Counters>,
        heap: Result<Heap, Refusal>,
    ) -> Pauses {
        // Where another thread reads the process, the collector works beside the program.
        let usual = match process {
            Some(_) => Kind::Unknown,
            None => Kind::Concurrent,
        };
        let mut pauses = Pauses {
            writer,
            process,
            reader,
            ration: TimeBudget::default(),
            counters,
            usual,
            heap: None,
            begun: None,
            totals: Totals::default(),
        };
        match heap {
            Ok(heap) => pauses.heap = Some(heap),
            Err(why) => pauses.writer.refuse(&why.to_string()),
        }
        pauses
    }

    /// A pause begins.
    ///
    /// # Safety
    /// As [`Heap::begin`], and the heap is that of this process's machine.
    pub unsafe fn begin(&mut self) {
        let start = clock::now();
        if let Some(counters) = &mut self.counters {
            counters.begin();
        }
        // SAFETY: as the caller promises.
        self.try_heap(|heap| unsafe { heap.begin() }.map(|()| Free::default()));
        let read = self.ration.allows(start).then(|| self.read());
        self.begun = Some(Begun { start, read });
        self.totals.agent_ns += (clock::now() - start).0;
    }

    /// The pause ends. Returns what is known of the heap after it.
    ///
    /// # Safety
    /// As [`Heap::end`], and the heap is that of this process's machine.
    pub unsafe fn end(&mut self) -> Free {
        let end = clock::now();
        // A pause whose beginning was missed has no length.
        let begun = self.begun.take().unwrap_or(Begun {
            start: end,
            read: None,
        });
        let counters = self.counters.as_mut();
        let kind = counters.map_or(self.usual, Counters::kind);
        let within = self.read_within(begun.read, end);
        let start = begun.start;
        let tier = self.reader.tier();
        let is_short = within
            .zip(tier)
            .is_some_and(|(within, tier)| tier.is_short(within.stalled, end - start));
        let resident = wished(&self.writer, start, is_short);
        // SAFETY: as the caller promises.
        let free = self.try_heap(|heap| unsafe { heap.end(resident, kind, end) });
        let counts = within.unwrap_or_default();
        let pause = Pause {
            number: self.totals.pauses + 1,
            kind,
            start_ns: start.0,
            end_ns: end.0,
            stalls: counts.stalled.count,
            stall_ns: counts.stalled.time.0,
            major_faults: counts.major_faults,
            given_back: free.given_back,
        };
        self.count(&pause, &free);
        self.totals.unread += u64::from(within.is_none());
        self.totals.agent_ns += (clock::now() - end).0;
        self.writer.ended(&pause, &self.totals);
        free
    }

    /// The counts within the pause that ends; `None` if they are not known. Writes the counts by now to the
    /// page, if they are read: also after a pause that was long enough for it, though nothing was read at its
    /// beginning.
    fn read_within(&mut self, before: Option<Read>, end: Nanos) -> Option<Reading> {
        if before.is_none() && !self.ration.allows(end) {
            return None;
        }
        let now = self.read();
        let took = before.map_or(Nanos::ZERO, |before| before.took);
        self.ration.spent(now.took + took, clock::now());
        if let Some(process) = &mut self.process {
            self.reader.tell_fall(process);
            process.read(&reading(now.reading, end));
        }
        before.map(|before| now.reading.since(before.reading))
    }

    fn read(&mut self) -> Read {
        let start = clock::now();
        let reading = self.reader.read(start);
        Read {
            reading,
            took: clock::now() - start,
        }
    }

    fn count(&mut self, pause: &Pause, free: &Free) {
        let totals = &mut self.totals;
        totals.pauses = pause.number;
        totals.young += u64::from(pause.kind == Kind::Young);
        totals.full += u64::from(pause.kind == Kind::Full);
        totals.pause_ns += pause.end_ns.saturating_sub(pause.start_ns);
        totals.stalls += pause.stalls;
        totals.stall_ns += pause.stall_ns;
        totals.major_faults += pause.major_faults;
        totals.given_back += free.given_back;
        totals.used = free.used;
        totals.free = free.free;
        totals.kept = free.kept;
    }

    /// Another thread told of a pause while this was at work.
    pub fn miss(&mut self, missed: u64) {
        self.totals.missed += missed;
    }

    /// So many collections were asked for so far.
    pub fn ask(&mut self, asked: u64) {
        self.totals.asked = asked;
    }

    /// Does something with the heap. The first failure is the last: it is said on the page, and
    /// nothing is given back any more.
    fn try_heap(&mut self, work: impl FnOnce(&mut Heap) -> Result<Free, Refusal>) -> Free {
        match self.heap.as_mut().map(work) {
            None => Free::default(),
            Some(Ok(free)) => free,
            Some(Err(why)) => {
                self.refuse(&why);
                Free::default()
            }
        }
    }

    /// Gives nothing back any more, and says why on the page.
    pub fn refuse(&mut self, why: &Refusal) {
        self.heap = None;
        self.writer.refuse(why.short());
    }
}

/// How much of the heap may stay resident after a pause that began at this time. A wish that was fresh
/// then counts, however long the pause took: while it lasts, the adapter may be waiting for its end. After a
/// pause that was short of memory (`is_short`) nothing free may stay: the adapter would wish that for the
/// next pause, when the kernel has written it to swap.
fn wished(writer: &Writer<'_>, start: Nanos, is_short: bool) -> Option<u64> {
    let wish = writer.wish(start)?;
    Some(if is_short { 0 } else { wish.resident.0 })
}

/// A reading as it is on the page.
pub fn reading(counts: Reading, at: Nanos) -> Process {
    Process {
        at_ns: at.0,
        stalls: counts.stalled.count,
        stall_ns: counts.stalled.time.0,
        major_faults: counts.major_faults,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{About, SIZE, View, WISH_LASTS, Wish, Words, wish};
    use std::sync::atomic::AtomicU64;

    use plimsoll_unit::Bytes;

    #[test]
    fn what_was_read_just_before_is_not_read_again_if_it_is_dear() {
        let page: &'static [AtomicU64; SIZE / 8] =
            Box::leak(Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        let words = Words::of(page);
        let (writer, process) = Writer::new(words, &About::default());
        let no_heap = Err(Refusal::NotAnonymous);
        let mut pauses = Pauses::new(writer, Some(process), Reader::open(), None, no_heap);
        let view = View::new(words).unwrap();
        let mut pause = |next: [Nanos; 2]| {
            pauses.ration = TimeBudget::until(next[0]);
            // SAFETY: it has no heap.
            unsafe { pauses.begin() };
            pauses.ration = TimeBudget::until(next[1]);
            // SAFETY: as above.
            unsafe { pauses.end() };
            let at_ns = view.process().map(|process| process.at_ns);
            (pauses.totals.unread, at_ns)
        };
        const NEVER: Nanos = Nanos(u64::MAX);
        assert_eq!(pause([NEVER, NEVER]), (1, None));
        // Long enough that its end could be read: what the process has by now is told.
        let (unread, told) = pause([NEVER, Nanos::ZERO]);
        assert_eq!(unread, 2);
        assert!(told.is_some());
        assert_eq!(pause([NEVER, NEVER]), (3, told), "nothing new");
        // A beginning that was read needs its end.
        let (unread, next) = pause([Nanos::ZERO, NEVER]);
        assert_eq!(unread, 3);
        assert!(next > told);
        assert_eq!(view.totals().unwrap().unread, 3);
    }

    #[test]
    fn a_wish_holds_to_the_end_of_the_pause_that_it_was_for() {
        let page: [AtomicU64; SIZE / 8] = std::array::from_fn(|_| AtomicU64::new(0));
        let words = Words::of(&page);
        let (writer, _) = Writer::new(words, &About::default());
        let wished = |start| super::wished(&writer, start, false);
        assert_eq!(wished(Nanos::ZERO), None, "nobody wished anything");
        wish(words, Some(Wish::stay(Bytes(7))), Nanos::seconds(3));
        // A minute long, or longer: what counts is when it began.
        assert_eq!(wished(Nanos::seconds(4)), Some(7));
        assert_eq!(wished(Nanos::seconds(3) + WISH_LASTS), Some(7));
        assert_eq!(wished(Nanos::seconds(4) + WISH_LASTS), None);
        // Left or taken back meanwhile: the last word counts.
        wish(words, Some(Wish::stay(Bytes(9))), Nanos::seconds(30));
        assert_eq!(wished(Nanos::seconds(4)), Some(9));
        wish(words, None, Nanos::seconds(31));
        assert_eq!(wished(Nanos::seconds(4)), None);
    }

    #[test]
    fn after_a_pause_that_was_short_of_memory_nothing_free_stays_if_anything_was_wished() {
        let page: [AtomicU64; SIZE / 8] = std::array::from_fn(|_| AtomicU64::new(0));
        let words = Words::of(&page);
        let (writer, _) = Writer::new(words, &About::default());
        assert_eq!(wished(&writer, Nanos::seconds(1), true), None);
        wish(words, Some(Wish::stay(Bytes(7))), Nanos::seconds(1));
        let after = [true, false].map(|is_short| wished(&writer, Nanos::seconds(1), is_short));
        assert_eq!(after, [Some(0), Some(7)]);
    }
}
