//! The stall signal of a machine: how often and how long the kernel made its process wait for memory.
//!
//! Every source tells the same thing: the stalls of the whole process in a [`Span`] of time, inside and
//! outside of collections. Isla Vista (Grzegorczyk and others, section 3.1) counts those within collections
//! only, because its machine touches new pages only there. A Java program walks into memory that went to
//! swap by itself, too; `docs/src/isla-vista.md` shows what a rule is worth that does not hear of it. So the
//! time that it waits for such memory counts as time in stalls, where it is known. Stalls within pauses are
//! told apart where an agent counts them: all of the program waits for those.
//!
//! We read the process from outside. The agent in the machine, which may have rights that we have not, is
//! asked where its signal is better than ours.

use plimsoll_kernel::clock;
use plimsoll_kernel::stalls::{Stalled, Stalls, Tier};
use plimsoll_unit::Nanos;
use plimsoll_wire::collections::{Signal as Told, View};
use tracing::info;

/// This many looks may see further collections that the agent's page does not tell of; the machine counts
/// pauses of G1 (remark, cleanup) that no agent hears of, and with thousands of threads an agent reads a few
/// times a second only. After that its agent is taken for dead, until the page changes.
const MAX_LATE: u32 = 10;

/// Stalls of the process in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// The stalls, all threads together, with the time in which they waited for memory to come back.
    pub(super) stalled: Stalled,
    /// The allocation stalls within pauses; `None` where no agent counts them.
    pub(super) in_pauses: Option<Stalled>,
    /// Its length; 0 if nothing was read.
    pub(super) length: Nanos,
}

impl Span {
    /// This one and the one after it.
    #[must_use]
    pub(super) fn and(self, next: Span) -> Span {
        let sum = |a: Stalled, b: Stalled| Stalled {
            count: a.count.saturating_add(b.count),
            time: a.time + b.time,
        };
        let both = self.in_pauses.zip(next.in_pauses);
        Span {
            stalled: sum(self.stalled, next.stalled),
            in_pauses: match both {
                Some((a, b)) => Some(sum(a, b)),
                None => self.in_pauses.or(next.in_pauses),
            },
            length: self.length + next.length,
        }
    }
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    /// The stalls of the process so far.
    stalled: Stalled,
    /// When this was read: monotonic time.
    at: Nanos,
}

impl Reading {
    /// The span since the reading in `last`, which becomes this one. Counters that went backwards had no
    /// stalls.
    fn since(self, last: &mut Option<Reading>) -> Span {
        let before = last.replace(self).unwrap_or(self);
        Span {
            stalled: self.stalled.since(before.stalled),
            length: self.at - before.at,
            ..Span::default()
        }
    }
}

/// The signal of one machine. Used by the steering loop's thread alone.
#[derive(Debug)]
pub(super) struct Signal {
    /// The process's number.
    pid: u32,
    /// The signal of the process from outside; `None` if the process is gone or closed to us.
    outside: Option<Box<Stalls>>,
    /// Its last reading; `None` while another source is read, and at first.
    last: Option<Reading>,
    /// The last reading of the agent's page; `None` likewise.
    page: Option<Reading>,
    /// The stalls within pauses that the agent's page told last; `None` without one.
    in_pauses: Option<Stalled>,
    /// Looks that saw further collections since the page last changed.
    late: u32,
    /// Collections at the last look.
    collections: u64,
}

impl Signal {
    /// Takes the best signal of process `pid` that works here. Returns it with lines about it for `-v`: what
    /// is read, and why nothing better is.
    pub(super) fn open(pid: u32) -> (Signal, Vec<String>) {
        let opened = Stalls::open(i32::try_from(pid).unwrap_or(-1));
        let mut told = Vec::new();
        match &opened {
            Ok(stalls) => {
                let declined = stalls.declined().iter();
                told.extend(
                    declined.map(|(tier, why)| format!("{} does not work: {why}", tier.name())),
                );
                told.push(format!("{} of the process", stalls.tier().name()));
            }
            Err(error) => told.push(format!("no stall of it can be seen: {error}")),
        }
        let mut signal = Signal {
            pid,
            outside: opened.ok().map(Box::new),
            last: None,
            page: None,
            in_pauses: None,
            late: 0,
            collections: 0,
        };
        // The first reading is where it begins.
        signal.outside();
        (signal, told)
    }

    /// Fewer stalls than this in a collection tell nothing.
    pub(super) fn few(&self) -> u64 {
        match self.tier() {
            Some(tier) if self.page.is_none() => tier.few(),
            _ => 0,
        }
    }

    /// The span since the last call; of the agent's page, up to the last moment that it tells of. `page`:
    /// that of an agent in the machine. `collections`: how many have ended.
    pub(super) fn read(&mut self, page: Option<View<'_>>, collections: u64) -> Span {
        // The pressure of a group tells of its other processes too.
        let own = page
            .as_ref()
            .filter(|view| view.about().signal != Told::Pressure);
        let in_pauses = own.and_then(View::totals).map(|totals| Stalled {
            count: totals.stalls,
            time: Nanos(totals.stall_ns),
        });
        let before = std::mem::replace(&mut self.in_pauses, in_pauses);
        let both = in_pauses.zip(before);
        Span {
            in_pauses: both.map(|(now, before)| now.since(before)),
            ..self.read_all(page, collections)
        }
    }

    /// The same, without telling pauses apart.
    fn read_all(&mut self, page: Option<View<'_>>, collections: u64) -> Span {
        let collected = std::mem::replace(&mut self.collections, collections) < collections;
        let told = page.and_then(|view| told(view, self.tier()));
        let Some(now) = told else {
            (self.page, self.late) = (None, 0);
            return self.outside();
        };
        match self.page {
            Some(last) if last.at == now.at => self.late += u32::from(collected),
            _ => self.late = 0,
        }
        let span = now.since(&mut self.page);
        if self.late > MAX_LATE {
            self.late = MAX_LATE + 1;
            return self.outside();
        }
        self.last = None;
        span
    }

    fn tier(&self) -> Option<Tier> {
        self.outside.as_ref().map(|stalls| stalls.tier())
    }

    fn outside(&mut self) -> Span {
        let Some(stalls) = &mut self.outside else {
            return Span::default();
        };
        let before = stalls.tier();
        let read = stalls.read();
        if stalls.tier() != before {
            // Another counter, which counts from where it is now.
            self.last = None;
            info!("process {}, stalls: {}", self.pid, fall(stalls, before));
        }
        let Ok(stalled) = read else {
            return Span::default();
        };
        let at = clock::now();
        let stalled = Stalled {
            time: stalled.time + stalls.returning(),
            ..stalled
        };
        Reading { stalled, at }.since(&mut self.last)
    }
}

/// Says that another tier is read, because tier `lost` stopped working.
fn fall(stalls: &Stalls, lost: Tier) -> String {
    let mut declined = stalls.declined().iter().filter(|(tier, _)| *tier == lost);
    let why = declined
        .next()
        .map_or(String::new(), |(_, why)| why.to_string());
    let (lost, now) = (lost.name(), stalls.tier().name());
    format!("{lost} stopped working: {why}; {now} of the process from now on")
}

/// The agent's reading of its process, if its signal is better than one of tier `ours`.
fn told(view: View<'_>, ours: Option<Tier>) -> Option<Reading> {
    // In this order: a signal is written before what is read by it.
    let process = view.process()?;
    let theirs = tier(view.about().signal)?;
    if ours.is_some_and(|ours| ours <= theirs) {
        return None;
    }
    Some(Reading {
        stalled: Stalled {
            count: process.stalls,
            time: Nanos(process.stall_ns),
        },
        at: Nanos(process.at_ns),
    })
}

/// The tier that a number on a page means.
pub(super) fn tier(told: Told) -> Option<Tier> {
    u8::try_from(told as u64).ok().and_then(Tier::from_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{
        About, Pause, Process, ProcessWriter, SIZE, Totals, Words, Writer,
    };
    use std::sync::atomic::AtomicU64;

    type Page = [AtomicU64; SIZE / 8];

    /// A page in our own memory, of an agent with this signal.
    fn page(signal: Told) -> Page {
        let page: Page = std::array::from_fn(|_| AtomicU64::new(0));
        let about = About {
            signal,
            ..About::default()
        };
        let _ = Writer::new(Words::of(&page), &about);
        page
    }

    /// Its writer: what is fixed is written once more.
    fn writer(page: &Page, signal: Told) -> ProcessWriter<'_> {
        let about = About {
            signal,
            ..About::default()
        };
        Writer::new(Words::of(page), &about).1
    }

    fn view(page: &Page) -> Option<View<'_>> {
        View::new(Words::of(page)).ok()
    }

    /// A signal that sees nothing from outside.
    fn blind() -> Signal {
        let (signal, told) = Signal::open(4_194_305);
        assert!(told[0].contains("no stall"), "{told:?}");
        signal
    }

    fn at(at_ns: u64, stalls: u64, stall_ns: u64) -> Process {
        Process {
            at_ns,
            stalls,
            stall_ns,
            major_faults: 0,
        }
    }

    fn span(ns: u64, count: u64, stalled_ns: u64) -> Span {
        let stalled = Stalled {
            count,
            time: Nanos(stalled_ns),
        };
        Span {
            stalled,
            length: Nanos(ns),
            ..Span::default()
        }
    }

    #[test]
    fn sums_do_not_overflow() {
        let sum = span(7, 1, 1).and(span(u64::MAX, u64::MAX, 2));
        assert_eq!(sum, span(u64::MAX, u64::MAX, 3));
    }

    #[test]
    fn a_process_that_is_gone_has_no_stalls() {
        assert_eq!(blind().read(None, 1), Span::default());
    }

    #[test]
    fn numbers_of_pages_are_those_of_tiers() {
        for number in 0..=300 {
            let told = Told::from_number(number);
            let known = tier(told).map(|tier| tier as u64);
            assert_eq!(known.unwrap_or(0), told as u64, "{number}");
        }
        for (told, known) in [
            (Told::Delays, Tier::DelayAccounting),
            (Told::Reclaim, Tier::Reclaim),
            (Told::ReclaimCount, Tier::ReclaimCount),
            (Told::Pressure, Tier::Pressure),
            (Told::MajorFaults, Tier::MajorFaults),
        ] {
            assert_eq!(tier(told), Some(known));
            assert_eq!(Told::from_number(known as u64), told);
        }
        assert_eq!(tier(Told::None), None);
        let last = Tier::ALL.map(|tier| tier as u64).into_iter().max();
        assert_eq!(last, Some(Told::MajorFaults as u64), "none is left out");
    }

    #[test]
    fn a_page_is_asked_only_where_it_is_better() {
        let page = page(Told::Pressure);
        writer(&page, Told::Pressure).read(&at(5, 1, 1));
        let asked = |ours| told(view(&page).unwrap(), ours).is_some();
        assert!(asked(None) && asked(Some(Tier::MajorFaults)));
        assert!(!asked(Some(Tier::Pressure)) && !asked(Some(Tier::Reclaim)));
        let nothing = self::page(Told::None);
        writer(&nothing, Told::None).read(&at(5, 1, 1));
        assert_eq!(told(view(&nothing).unwrap(), None), None);
    }

    #[test]
    fn what_a_page_tells_is_of_all_the_time_between_its_readings() {
        let (page, mut signal) = (page(Told::Delays), blind());
        let mut agent = writer(&page, Told::Delays);
        let mut collections = 0;
        let mut read = |collected: bool| {
            collections += u64::from(collected);
            signal.read(view(&page), collections)
        };
        assert_eq!(read(false), Span::default(), "it has not read yet");
        agent.read(&at(1000, 5, 50));
        assert_eq!(
            read(true),
            Span::default(),
            "what was before us is not ours"
        );
        agent.read(&at(3000, 7, 90));
        assert_eq!(read(true), span(2000, 2, 40));
        assert_eq!(read(false), Span::default(), "nothing new");
        agent.read(&at(4000, 1, 10));
        assert_eq!(read(true), span(1000, 0, 0), "counters went backwards");
        agent.read(&at(5000, 2, 30));
        assert_eq!(read(true), span(1000, 1, 20));
    }

    #[test]
    fn stalls_in_pauses_are_told_apart_whatever_source_tells_of_all() {
        let page = page(Told::Delays);
        let mut writer = Writer::new(Words::of(&page), &About::default()).0;
        let mut signal = Signal {
            outside: Some(Box::new(Stalls::own().unwrap())),
            ..blind()
        };
        let mut after = |stalls: u64| {
            let totals = Totals {
                pauses: stalls,
                stalls,
                stall_ns: 10 * stalls,
                ..Totals::default()
            };
            writer.ended(&Pause::default(), &totals);
            signal.read(view(&page), stalls).in_pauses
        };
        let of = |count, ns| {
            Some(Stalled {
                count,
                time: Nanos(ns),
            })
        };
        assert_eq!(after(3), None, "what was before us is not ours");
        assert_eq!(after(5), of(2, 20));
        assert_eq!(after(1), of(0, 0), "counters went backwards");
        let both = Span {
            in_pauses: of(1, 5),
            ..span(9, 0, 0)
        };
        assert_eq!(both.and(both).in_pauses, of(2, 10));
        assert_eq!(span(1, 0, 0).and(both).in_pauses, of(1, 5));
    }

    #[test]
    fn a_page_that_was_emptied_or_stands_still_is_not_waited_for() {
        let page = page(Told::Delays);
        let mut agent = writer(&page, Told::Delays);
        let mut signal = blind();
        agent.read(&at(1000, 0, 0));
        let last = u64::from(MAX_LATE) + 1;
        for collections in 1..=last {
            signal.read(view(&page), collections);
            signal.read(view(&page), collections);
        }
        assert_eq!(signal.late, MAX_LATE, "the same collection counts once");
        signal.read(view(&page), last + 1);
        assert!(signal.late > MAX_LATE, "its agent is dead");
        agent.read(&at(9000, 1, 5));
        let read = signal.read(view(&page), last + 2);
        assert_eq!(read, span(8000, 1, 5), "it lives");
        for word in &page {
            word.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        assert!(view(&page).is_none());
        assert_eq!(signal.read(view(&page), 7), Span::default());
        assert_eq!((signal.page, signal.late), (None, 0));
    }

    #[test]
    fn without_rights_a_lesser_tier_is_taken_and_it_is_said_why() {
        // Rights belong to threads: only this one gives its own up.
        let without = std::thread::spawn(|| {
            let mut held = rustix::thread::capabilities(None).unwrap();
            held.effective = rustix::thread::CapabilitySet::empty();
            rustix::thread::set_capabilities(None, held).unwrap();
            let (mut signal, told) = Signal::open(std::process::id());
            let read = signal.read(None, 1);
            (signal.tier(), signal.few(), read, told.join("\n"))
        });
        let (tier, few, read, told) = without.join().unwrap();
        assert!(tier >= Some(Tier::Pressure), "{tier:?}");
        assert!(read.length > Nanos::ZERO, "{read:?}");
        assert_eq!(few > 0, tier == Some(Tier::MajorFaults));
        for tier in [Tier::DelayAccounting, Tier::Reclaim, Tier::ReclaimCount] {
            let why = format!("{} does not work: ", tier.name());
            assert!(told.contains(&why), "{told}");
        }
        let used = tier.map_or("", Tier::name);
        assert!(told.ends_with(&format!("{used} of the process")), "{told}");
    }

    #[test]
    fn where_the_signal_stops_working_another_one_counts_from_where_it_is() {
        let fell = std::thread::spawn(|| {
            let (mut signal, _) = Signal::open(std::process::id());
            let before = signal.tier().unwrap();
            let mut held = rustix::thread::capabilities(None).unwrap();
            held.effective = rustix::thread::CapabilitySet::empty();
            rustix::thread::set_capabilities(None, held).unwrap();
            let read = signal.read(None, 1);
            let told = fall(signal.outside.as_deref().unwrap(), before);
            (before, signal.tier().unwrap(), read, told)
        });
        let (before, now, read, told) = fell.join().unwrap();
        if before != now {
            assert!(now > before);
            assert_eq!(
                read,
                Span::default(),
                "what was read before is not compared"
            );
            assert!(
                told.starts_with(&format!("{} stopped working: ", before.name())),
                "{told}"
            );
        }
    }

    #[test]
    fn a_source_that_is_read_again_does_not_count_twice() {
        let own = Stalls::own().unwrap();
        let mut signal = Signal {
            pid: 0,
            outside: Some(Box::new(own)),
            last: None,
            page: None,
            in_pauses: None,
            late: 0,
            collections: 0,
        };
        assert_eq!(signal.outside(), Span::default());
        let first = signal.outside();
        assert!(first.length > Nanos::ZERO, "{first:?}");
        // Stalls that another source told of meanwhile do not count again.
        signal.last = None;
        assert_eq!(signal.outside(), Span::default());
    }
}
