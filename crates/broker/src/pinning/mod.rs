//! `[pin]` of the configuration: file pages of the principals that are read again and again are kept
//! in memory. The room `pin` watches, chooses and holds; here it gets a thread of its own, the
//! principals' processes, and a word when memory is short.
//!
//! The pages belong to no principal. They are locked, so they count as used in whatever cgroup they
//! are charged to, and so as the outsiders' in the broker's books: they are not shared out as well.
//! When memory stays short, they go first: see [`release_backoff`].
//!
//! Whose files: those that a principal's processes have mapped, opened through
//! `/proc/PID/map_files`, which names the very file of a mapping. Without the right to that
//! (CAP_CHECKPOINT_RESTORE), a file is opened by its path in the process's root, and only if the
//! process's user may read it. No client can choose a file or a budget.
//!
//! | module | is |
//! |---|---|
//! | `thread` | ticks the pinner, and starts and ends it with the configuration |
//! | `exchange` | what the deciding thread and that thread tell each other |
//! | [`release_backoff`] | when pages are released because memory is short, and for how long |

mod exchange;
pub mod release_backoff;
mod thread;

pub use exchange::Settings;

use crate::background::{Companion, Periodic};
use crate::error::Error;
use crate::principals::Members;
use crate::user_quota::Held;
use exchange::Exchange;
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Pinned;

/// Interval at which the deciding thread and that thread exchange what they know.
const EXCHANGE: Nanos = Nanos::seconds(1);
/// Most processes that are named to the pinner.
const MOST_PROCESSES: usize = 4096;

/// The thread and what is exchanged with it. Dropping it releases everything.
#[derive(Debug)]
pub struct Pinning {
    thread: Periodic<Exchange>,
    told: Option<Pinned>,
    /// The most descriptors that the thread takes.
    _descriptors: Held,
}

impl Pinning {
    /// Starts the thread. It holds nothing before the first exchange. `descriptors`: as many as
    /// [`plimsoll_pin::descriptors::most`] says.
    ///
    /// # Errors
    /// [`Error::System`] when it cannot be created.
    pub fn start(descriptors: Held) -> Result<Pinning, Error> {
        let thread = Companion::start("plimsoll-pin", |monitor| thread::run(&monitor))?;
        Ok(Pinning {
            thread: Periodic::new(thread, EXCHANGE),
            told: None,
            _descriptors: descriptors,
        })
    }

    /// Gives the thread the principals and the settings, and takes its report: once a second, and
    /// only when the thread does not hold the lock.
    pub fn exchange(&mut self, members: &Members, settings: Settings, short: bool, now: Nanos) {
        let Some(mut exchange) = self.thread.exchange(now, |_| Nanos::ZERO) else {
            return;
        };
        let processes = members.iter().filter_map(|member| member.pid());
        exchange.processes.clear();
        exchange.processes.extend(processes.take(MOST_PROCESSES));
        exchange.fresh = true;
        exchange.settings = Some(settings);
        exchange.short = short;
        if exchange.told != self.told {
            self.told.clone_from(&exchange.told);
        }
    }

    /// The pages held at the last exchange.
    #[must_use]
    pub fn told(&self) -> Option<&Pinned> {
        self.told.as_ref()
    }
}
