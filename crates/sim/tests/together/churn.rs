//! Programs that allocate and drop objects of one size, and setups of these programs.

use plimsoll_policy::phases::Rule;
use plimsoll_sim::paging::Costs;
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Program, ReadError, Settings, Stream};
use plimsoll_sim::together::{Entrant, Policy, Setup};
use plimsoll_trace::{Event, ObjectId, ThreadId};
use plimsoll_unit::{Bytes, MILLISECOND, Nanos};
use plimsoll_wire::messages::{Priority, Weight};

/// One thread: it allocates an object, computes, and drops the oldest one where enough live.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    /// Objects in all, and that live at once; numbers.
    pub(crate) objects: u64,
    pub(crate) live: u64,
    /// Bytes of an object.
    pub(crate) size: u64,
    /// Computing between two objects, ns.
    pub(crate) time: u64,
    /// The next event.
    pub(crate) at: u64,
}

impl Churn {
    /// 64 KiB objects, a new one each 200 µs: 312 MiB a second.
    pub(crate) fn new(objects: u64, live: u64) -> Churn {
        Churn {
            objects,
            live,
            size: 64 << 10,
            time: MILLISECOND / 5,
            at: 0,
        }
    }
}

impl Program for Churn {
    fn streams(&self) -> Vec<Stream> {
        vec![Stream {
            thread: ThreadId(0),
            is_started: false,
        }]
    }

    fn next(&mut self, _stream: usize) -> Result<Option<Event>, ReadError> {
        let (object, part) = (self.at / 3, self.at % 3);
        self.at += 1;
        Ok(match part {
            _ if object > self.objects => None,
            _ if object == self.objects => Some(Event::End),
            0 => Some(Event::Alloc {
                object: ObjectId(object),
                size: self.size,
                class: None,
                site: None,
            }),
            1 => Some(Event::Compute { time: self.time }),
            _ => Some(match object.checked_sub(self.live) {
                Some(old) => Event::Death {
                    object: ObjectId(old),
                },
                None => Event::Compute { time: 0 },
            }),
        })
    }
}

/// An entrant of a weight that starts at once, and whose heap may take all of the memory.
pub(crate) fn entrant(weight: u32, memory: u64, collector: Algorithm) -> Entrant {
    Entrant {
        name: format!("weight {weight}"),
        weight: Weight::new(weight).expect("in range"),
        priority: Priority::default(),
        start: Nanos::ZERO,
        stop: None,
        settings: Settings::new(Rule::RoundRobin, collector, Bytes(memory)),
        largest_live: Bytes::ZERO,
    }
}

/// Programs of these weights in a memory.
pub(crate) fn setup(policy: Policy, memory: u64, weights: &[u32]) -> Setup {
    let entrants = weights.iter();
    Setup {
        memory: Bytes(memory),
        policy,
        costs: Costs::SOLID_STATE,
        reach: 4,
        entrants: entrants
            .map(|&weight| entrant(weight, memory, Algorithm::MarkCompact))
            .collect(),
        hogs: Vec::new(),
    }
}
