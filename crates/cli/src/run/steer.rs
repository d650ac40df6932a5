//! Prepares a program with its adapter, and runs the thread that steers it.

use super::principal::{self, Member};
use super::undo;
use crate::args::{AdapterChoice, AgentChoice, GiveBackChoice, PolicyChoice, Principal};
use crate::control::Control;
use crate::own_broker::Place;
use plimsoll_programs::Setting;
use plimsoll_runtimes::hotspot::flags;
use plimsoll_runtimes::hotspot::options::Policy;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_runtimes::{Alone, Link, Options};
use plimsoll_wire::messages::Listing;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tracing::{info, warn};

/// How long to wait until an adapter has undone its changes to a runtime.
const LET_GO: Duration = Duration::from_secs(3);

/// How the user wants a program to be steered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    /// By which adapter.
    pub(crate) adapter: AdapterChoice,
    /// By what the heap is sized.
    pub(crate) policy: PolicyChoice,
    /// Whether our agent is loaded into it.
    pub(crate) agent: AgentChoice,
    /// Which free heap it gives back.
    pub(crate) give_back: GiveBackChoice,
}

impl From<&Principal> for Choices {
    fn from(given: &Principal) -> Choices {
        Choices {
            adapter: given.adapter,
            policy: given.policy,
            agent: given.agent,
            give_back: given.give_back,
        }
    }
}

impl Choices {
    /// The values of the levers' options.
    pub(crate) fn chosen(self) -> Chosen {
        Chosen::of([
            self.policy.given(),
            self.agent.given(),
            self.give_back.given(),
        ])
    }

    /// Whether the program's own stalls size its heap, so that it can do without a broker.
    pub(crate) fn is_by_stalls(self) -> bool {
        Policy::of(&self.chosen()).is_by_stalls()
    }
}

/// A command line as it will be started.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    /// Program and arguments, with what was added.
    pub(crate) argv: Vec<OsString>,
    /// Added to the environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The adapter's name for the broker; none for passive programs.
    pub(crate) adapter: Option<&'static str>,
}

/// A command line without additions.
pub(crate) fn untouched(argv: &[OsString]) -> Steered {
    Steered {
        argv: argv.to_vec(),
        environment: Vec::new(),
        adapter: None,
    }
}

/// Adds what makes a program elastic, and logs it. `budget`: what the program could use alone,
/// bytes; that of the broker at `place` if absent. Without a `place` there is no broker, and the
/// program sizes its heap by itself as long as it can.
pub(crate) fn prepare(
    argv: &[OsString],
    choices: Choices,
    budget: Option<u64>,
    setting: &Setting<'_>,
    place: Option<&Place>,
) -> Steered {
    if choices.adapter == AdapterChoice::None {
        return untouched(argv);
    }
    let told = || -> Option<Listing> {
        Control::connect(&place?.socket)
            .and_then(|mut c| c.list())
            .ok()
    };
    let listing = told();
    let budget = budget.or_else(|| listing.as_ref().and_then(lasting));
    let group = principal::lowest_limit();
    let shared = listing.filter(|listing| group.is_some_and(|group| listing.capacity <= group));
    let plan = Plan {
        budget,
        memory: group.or_else(principal::machine),
        group,
        beyond: shared.map_or(0, |_| principal::pageable()),
        cliff: principal::on_a_cliff(),
        own_rule: place.is_none(),
        said: choices.adapter.said(),
        chosen: choices.chosen(),
        own: std::env::current_exe().ok(),
    };
    let prepared = launch::prepare_in(argv, &plan, setting);
    for note in &prepared.notes {
        info!("{note}");
    }
    Steered {
        argv: prepared.argv,
        environment: prepared.environment,
        adapter: prepared.adapter,
    }
}

/// The part of the broker's memory that a program alone could use after present outsiders are gone,
/// bytes. A maximum heap is fixed for the program's life, and one below what the program takes without
/// us might end it. `None` where the broker does not see what bounds it: the machine's memory is no
/// measure then, and the program knows no less than we do.
fn lasting(listing: &Listing) -> Option<u64> {
    let some_day = listing.budget.saturating_add(listing.outsiders);
    let alone = flags::heap_alone(listing.capacity);
    (!listing.unseen).then(|| listing.budget.max(alone.min(some_day)))
}

/// A thread that steers a program. It continues when this is dropped.
#[derive(Debug)]
pub(crate) struct Steering {
    stop: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Steering {
    /// Lets the program go: the adapter undoes its changes. Waits only a moment, because the
    /// program may not answer.
    pub(crate) fn let_go(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.ended.recv_timeout(LET_GO);
    }
}

/// Starts the thread that steers a program until the program ends or is let go, or until we end.
/// Without a `member` no broker takes part.
pub(crate) fn start(member: Option<&Member>, pid: u32, choices: Choices) -> Option<Steering> {
    if choices.adapter == AdapterChoice::None {
        return None;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut link: Box<dyn Link + Send> = match member {
        Some(member) => Box::new(member.link(Arc::clone(&stop))),
        None => Box::new(Alone::new(Arc::clone(&stop))),
    };
    let options = Options {
        chosen: choices.chosen(),
        own: std::env::current_exe().ok(),
        notes: undo::notes(),
        ..Options::default()
    };
    let (end, ended) = channel();
    let steer = move || {
        plimsoll_runtimes::run(&mut *link, pid, &options);
        let _ = end.send(());
    };
    let thread = std::thread::Builder::new().name(format!("steer-{pid}"));
    match thread.spawn(steer) {
        Ok(_) => Some(Steering { stop, ended }),
        Err(error) => {
            warn!("process {pid} is not steered, no thread: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plimsoll_unit::MIB;

    fn listing(capacity: u64, outsiders: u64, budget: u64) -> Listing {
        Listing {
            capacity: capacity * MIB,
            outsiders: outsiders * MIB,
            budget: budget * MIB,
            ..Listing::default()
        }
    }

    #[test]
    fn a_heap_may_become_what_it_may_alone_although_others_hold_the_memory_now() {
        let lasting = |listing| super::lasting(&listing).unwrap();
        assert_eq!(lasting(listing(24000, 1000, 22000)), 22000 * MIB);
        assert_eq!(lasting(listing(24000, 22000, 1000)), 6000 * MIB);
        assert_eq!(lasting(listing(350, 250, 80)), 126 * MIB);
        // A budget that is bounded on purpose stays bounded.
        assert_eq!(lasting(listing(24000, 500, 2000)), 2500 * MIB);
    }

    #[test]
    fn of_a_limit_that_is_not_seen_no_maximum_is_made() {
        let unseen = Listing {
            unseen: true,
            ..listing(24000, 1000, 22000)
        };
        assert_eq!(lasting(&unseen), None);
    }
}
