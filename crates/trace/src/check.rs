//! Whether a trace makes sense: objects are born before they die, monitors are released, threads end.

use crate::error::{At, TraceError};
use crate::event::{Event, MonitorId, ObjectId, ThreadId};
use crate::index::Totals;
use crate::live::Live;
use crate::numbered::Map;
use crate::order::Recorded;
use crate::reader::{Ending, Trace};
use std::collections::BTreeMap;

/// The most faults that are kept; all are counted.
pub const MAX_FAULTS: usize = 100;
/// The most objects that may live at one time: their map has 6 GiB then.
pub const MAX_LIVE: usize = 1 << 27;
/// The most deaths of objects that nobody has allocated yet.
pub const MAX_UNBORN: usize = 1 << 20;
/// The most monitors that a thread may hold at one time.
pub const MAX_HELD: usize = 1 << 16;
/// From this size on, objects are counted as very large: a gigabyte.
pub const VERY_LARGE: u64 = 1 << 30;

/// A contradiction in a trace.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Wrong {
    #[error("object {object} is allocated, and an object with that number lives")]
    BornTwice { object: ObjectId },
    #[error("object {object} dies before it is born (thread {thread}, event {event})")]
    DiesUnborn {
        object: ObjectId,
        /// Where it is born.
        thread: ThreadId,
        event: u64,
    },
    #[error("object {object} dies, but nobody allocates it, or it has died before")]
    NeverBorn { object: ObjectId },
    #[error("monitor {monitor} is exited, and the thread has not entered it")]
    ExitUnheld { monitor: MonitorId },
    #[error("the thread waits in monitor {monitor} or notifies it, and does not hold it")]
    UsesUnheld { monitor: MonitorId },
    #[error("monitor {monitor} is entered here and never released: the thread ends with it")]
    NeverReleased { monitor: MonitorId },
    #[error("thread {thread} is started, and was started before")]
    StartedTwice { thread: ThreadId },
    #[error("thread {thread} is started after it has run")]
    StartedLate { thread: ThreadId },
    #[error("thread {thread} is named here, and has no stream")]
    NoStream { thread: ThreadId },
    #[error("the thread waits for its own end")]
    JoinsItself,
    #[error("the stream ends, and its thread does not")]
    NoEnd,
    #[error("the index says that the stream has {told:?}, and it has {found:?}")]
    Totals { told: Totals, found: Totals },
    #[error("more than {most} {what}: the trace is not checked any further")]
    TooMany { most: usize, what: &'static str },
}

/// Something that does not make sense, and where.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Fault {
    #[error("{at}: {why}")]
    Event { at: At, why: Wrong },
    #[error(transparent)]
    Unreadable(TraceError),
    #[error("{}: the trace is cut at byte {offset}: {why}", trace.name())]
    Cut {
        trace: Trace,
        offset: u64,
        why: crate::error::BlockFault,
    },
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// The first [`MAX_FAULTS`] faults.
    pub faults: Vec<Fault>,
    /// How many faults there are.
    pub faults_count: u64,
    /// The sums of each stream.
    pub streams: BTreeMap<ThreadId, Totals>,
    /// The most bytes of objects that lived at one time in the recorded order. `None` where that order is not
    /// known, because not every stream begins with a stamp.
    pub largest_live: Option<u64>,
    /// Objects without a death, and their bytes.
    pub immortal: (u64, u64),
    /// The size of the largest object, bytes.
    pub largest_object: u64,
    /// Objects of [`VERY_LARGE`] or more bytes.
    pub very_large: u64,
    /// Deaths that come before births of other threads, where the recorded order is not known.
    pub early_deaths: u64,
}

/// Where an event is, without the names that all have in common.
#[derive(Clone, Copy, Debug)]
struct Place {
    thread: ThreadId,
    event: u64,
    block: Option<u64>,
}

#[derive(Debug, Default)]
struct Thread {
    /// For each monitor that it holds: how often, and where it was entered first.
    held: Map<(u64, Place)>,
    totals: Totals,
    started: bool,
}

struct Check<'a> {
    trace: &'a Trace,
    stamped: bool,
    report: Report,
    live: Live,
    unborn: Map<Place>,
    /// All threads but the current one. In boxes, because one changes its place with each event.
    threads: BTreeMap<ThreadId, Box<Thread>>,
    current: Option<(ThreadId, Box<Thread>)>,
    /// Something is more than fits.
    stopped: bool,
}

/// Reads a whole trace and checks it. Memory is proportional to the objects that live at one time.
///
/// # Errors
/// [`TraceError::Io`]. All else is in the report.
pub fn check(trace: &Trace) -> Result<Report, TraceError> {
    let mut recorded = Recorded::new(trace)?;
    let mut check = Check {
        trace,
        stamped: recorded.is_stamped(),
        report: Report::default(),
        live: Live::default(),
        unborn: Map::default(),
        threads: trace
            .streams()
            .keys()
            .map(|it| (*it, Box::default()))
            .collect(),
        current: None,
        stopped: false,
    };
    while let Some(next) = recorded.next() {
        match next {
            Ok((thread, event)) => check.event(thread, &event, &recorded),
            Err(error @ TraceError::Io { .. }) => return Err(error),
            Err(error) => check.fault(Fault::Unreadable(error)),
        }
        if check.stopped {
            break;
        }
    }
    Ok(check.finish())
}

impl Check<'_> {
    fn event(&mut self, thread: ThreadId, event: &Event, recorded: &Recorded<'_>) {
        let Some(mut state) = self.take_thread(thread) else {
            return;
        };
        let place = Place {
            thread,
            event: state.totals.events,
            block: recorded.block(),
        };
        state.totals.events += 1;
        match *event {
            Event::Compute { time } => state.totals.time += time,
            Event::Alloc { object, size, .. } => {
                state.totals.objects += 1;
                state.totals.allocated += size;
                self.born(object, size, place);
            }
            Event::Death { object } => self.dies(object, place),
            Event::Start { thread: other, .. } => self.starts(other, place),
            Event::End => {
                state.totals.ended = true;
                self.released(&mut state);
            }
            Event::Join { thread: other } if other == thread => {
                self.wrong(place, Wrong::JoinsItself);
            }
            Event::Join { thread: other } | Event::Unpark { thread: other }
                if !self.trace.streams().contains_key(&other) =>
            {
                self.wrong(place, Wrong::NoStream { thread: other });
            }
            Event::Enter { monitor } => self.enters(&mut state, monitor, place),
            Event::Exit { monitor } => self.exits(&mut state, monitor, place),
            Event::Wait { monitor, .. } | Event::Notify { monitor, .. }
                if !state.held.contains_key(&monitor.0) =>
            {
                self.wrong(place, Wrong::UsesUnheld { monitor });
            }
            _ => {}
        }
        self.current = Some((thread, state));
    }

    /// Takes what is known of a thread.
    fn take_thread(&mut self, thread: ThreadId) -> Option<Box<Thread>> {
        match self.current.take() {
            Some((current, state)) if current == thread => return Some(state),
            Some((current, state)) => {
                self.threads.insert(current, state);
            }
            None => {}
        }
        self.threads.remove(&thread)
    }

    fn born(&mut self, object: ObjectId, size: u64, place: Place) {
        self.report.largest_object = self.report.largest_object.max(size);
        self.report.very_large += u64::from(size >= VERY_LARGE);
        if let Some(death) = self.unborn.remove(&object.0) {
            if self.stamped || death.thread == place.thread {
                let (thread, event) = (place.thread, place.event);
                self.wrong(
                    death,
                    Wrong::DiesUnborn {
                        object,
                        thread,
                        event,
                    },
                );
            } else {
                self.report.early_deaths += 1;
            }
        } else if !self.live.born(object.0, size) {
            self.wrong(place, Wrong::BornTwice { object });
        } else if self.live.objects() > MAX_LIVE {
            self.too_many(place, MAX_LIVE, "objects live at one time");
        }
    }

    fn dies(&mut self, object: ObjectId, place: Place) {
        if self.live.dies(object.0) {
            return;
        }
        if self.unborn.insert(object.0, place).is_some() {
            self.wrong(place, Wrong::NeverBorn { object });
        } else if self.unborn.len() > MAX_UNBORN {
            self.too_many(
                place,
                MAX_UNBORN,
                "deaths of objects that nobody has allocated",
            );
        }
    }

    fn starts(&mut self, thread: ThreadId, place: Place) {
        let why = match self.threads.get_mut(&thread) {
            _ if thread == place.thread => Some(Wrong::StartedLate { thread }),
            None => Some(Wrong::NoStream { thread }),
            Some(it) if it.started => Some(Wrong::StartedTwice { thread }),
            Some(it) => {
                it.started = true;
                let late = self.stamped && it.totals.events > 0;
                late.then_some(Wrong::StartedLate { thread })
            }
        };
        if let Some(why) = why {
            self.wrong(place, why);
        }
    }

    fn enters(&mut self, state: &mut Thread, monitor: MonitorId, place: Place) {
        state.held.entry(monitor.0).or_insert((0, place)).0 += 1;
        if state.held.len() > MAX_HELD {
            self.too_many(place, MAX_HELD, "monitors that one thread holds");
        }
    }

    fn exits(&mut self, state: &mut Thread, monitor: MonitorId, place: Place) {
        match state.held.get_mut(&monitor.0) {
            None => self.wrong(place, Wrong::ExitUnheld { monitor }),
            Some((1, _)) => {
                state.held.remove(&monitor.0);
            }
            Some((times, _)) => *times -= 1,
        }
    }

    /// Reports what a thread holds at its end, in the order in which it was entered.
    fn released(&mut self, state: &mut Thread) {
        let mut held: Vec<(u64, Place)> =
            state.held.drain().map(|(it, (_, at))| (it, at)).collect();
        held.sort_by_key(|(_, place)| place.event);
        for (monitor, place) in held {
            let monitor = MonitorId(monitor);
            self.wrong(place, Wrong::NeverReleased { monitor });
        }
    }

    fn too_many(&mut self, place: Place, most: usize, what: &'static str) {
        self.wrong(place, Wrong::TooMany { most, what });
        self.stopped = true;
    }

    fn wrong(&mut self, place: Place, why: Wrong) {
        let at = At {
            trace: self.trace.name().clone(),
            block: place.block,
            thread: place.thread,
            event: place.event,
        };
        self.fault(Fault::Event { at, why });
    }

    fn fault(&mut self, fault: Fault) {
        self.report.faults_count += 1;
        if self.report.faults.len() < MAX_FAULTS {
            self.report.faults.push(fault);
        }
    }

    fn finish(mut self) -> Report {
        if let Some((thread, state)) = self.current.take() {
            self.threads.insert(thread, state);
        }
        let ending = self.trace.ending().clone();
        if let Ending::Cut { offset, why } = ending.clone() {
            let trace = self.trace.clone();
            self.fault(Fault::Cut { trace, offset, why });
        } else if !self.stopped {
            self.ends();
        }
        self.report.streams = self
            .threads
            .iter()
            .map(|(thread, it)| (*thread, it.totals))
            .collect();
        self.report.largest_live = self.stamped.then(|| self.live.largest());
        self.report.immortal = (self.live.objects() as u64, self.live.bytes());
        self.report
    }

    /// Checks that need the whole trace.
    fn ends(&mut self) {
        let mut unborn: Vec<(u64, Place)> = self.unborn.drain().collect();
        unborn.sort_by_key(|(_, place)| (place.thread, place.event));
        for (object, place) in unborn {
            let object = ObjectId(object);
            self.wrong(place, Wrong::NeverBorn { object });
        }
        for (thread, mut state) in std::mem::take(&mut self.threads) {
            let place = Place {
                thread,
                event: state.totals.events,
                block: None,
            };
            if !state.totals.ended {
                self.wrong(place, Wrong::NoEnd);
                self.released(&mut state);
            }
            let (told, found) = (self.trace.streams()[&thread].totals, state.totals);
            if let Some(told) = told.filter(|told| *told != found) {
                self.wrong(place, Wrong::Totals { told, found });
            }
            self.threads.insert(thread, state);
        }
    }
}
