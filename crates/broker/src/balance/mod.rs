//! Reclaim balance: measures for each principal how often its file pages and its anonymous pages are
//! read again after they were reclaimed, and what that costs. Where it is asked to (`[balance]`
//! `shift`) and the kernel lets it, it shifts reclaim towards the kind that costs less. A thread of
//! its own does both, because nothing here is as urgent as a tick.
//!
//! # Glossary
//! - *refault*, *loss*, *usual*, *kept*: see [`plimsoll_policy::balance`], which decides.
//! - *subject*: a principal with the cgroup that is measured for it.
//! - *noted*: the state file holds the swappiness that was found. Only then may it be changed, so
//!   that the next broker can put it back after a crash.
//!
//! # Levers
//! - version 1: `memory.swappiness` of the cgroup that the broker made for the principal, never of
//!   another one. It is put back when the principal or the broker ends, when `shift` is switched
//!   off, and by the next broker after a crash. A value that somebody else set meanwhile stays.
//! - version 2 has no such value for a group. The ladder takes bytes with a swappiness that
//!   follows from the costs ([`Reading::take_by`]).
//!
//! | module | is |
//! |---|---|
//! | `thread` | rounds over the subjects, bounded to one percent of a processor |
//! | `group` | one subject: its counters, its costs, its swappiness |
//! | `reading` | what is measured, and how it is exchanged |
//! | `devices` | read times of the devices behind swap and files |

mod devices;
mod group;
pub(crate) mod reading;
mod thread;

pub use reading::{Reading, Reclaim};

use crate::background::{Companion, Periodic};
use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::principals::{Member, Members};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::{Kind, Refaulted};
use reading::{Exchange, Place, Subject};

/// Interval at which the deciding thread and the measuring thread exchange what they know.
const EXCHANGE: Nanos = Nanos::seconds(1);
/// Most processes of a principal whose waits are counted.
const MOST_PROCESSES: usize = 64;

/// The thread and what is exchanged with it. Dropping it puts back what it changed.
#[derive(Debug)]
pub struct Balancer {
    thread: Periodic<Exchange>,
    refaulted: Refaulted,
}

impl Balancer {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::System`] when it cannot be created.
    pub fn start() -> Result<Balancer, Error> {
        let run = |monitor| thread::Thread::new(monitor).run();
        let thread = Companion::start("plimsoll-balance", run)?;
        Ok(Balancer {
            thread: Periodic::new(thread, EXCHANGE),
            refaulted: Refaulted::default(),
        })
    }

    /// Gives the thread the principals and takes its readings, once a second and only when the
    /// thread does not hold the lock. Returns whether a swappiness is to be noted in the state.
    pub fn exchange(&mut self, members: &mut Members, shift: bool, now: Nanos) -> bool {
        let Some(mut exchange) = self.thread.exchange(now, |_| Nanos::ZERO) else {
            return false;
        };
        let (mut to_note, mut turns) = (false, FairQueue::default());
        for member in members.iter_mut() {
            to_note |= member
                .reclaim
                .take_over(exchange.found.get(&member.id).copied());
            if let Some(subject) = subject(member) {
                turns.push(member.owner.uid, subject);
            }
        }
        // If not all can be measured in a round, users take turns.
        let in_turn = std::iter::from_fn(|| turns.next_of(|_| true));
        exchange.subjects.clear();
        exchange
            .subjects
            .extend(in_turn.map(|(_, subject)| subject));
        exchange.shift = shift;
        exchange.fresh = true;
        self.refaulted = exchange.refaulted;
        to_note
    }

    /// Pages of programs that were read again so far, where that is measured.
    #[must_use]
    pub fn refaulted(&self) -> Refaulted {
        self.refaulted
    }
}

fn subject(member: &Member) -> Option<Subject> {
    let domain = || member.domain.as_ref()?.asked();
    let place = match (&member.home, member.kind) {
        (Some(home), _) => Place::Home(home.directory().into()),
        (None, Kind::Group) => Place::Domain(domain()?.into()),
        (None, Kind::Process) => Place::Own,
    };
    Some(Subject {
        id: member.id,
        place,
        counts: member.kind == Kind::Process,
        processes: member.memory.instances().take(MOST_PROCESSES).collect(),
        noted: member.reclaim.is_noted(),
    })
}
