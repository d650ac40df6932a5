//! Prepares a program with its adapter, and runs the thread that steers it.

use super::principal::{self, Member};
use super::undo;
use crate::args::{AdapterChoice, Principal};
use crate::broker_connection::Control;
use crate::own_broker::Place;
use crate::programs::Program;
use plimsoll_programs::Setting;
use plimsoll_runtimes::launch::{self, Plan, Shared};
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_runtimes::{ALL, Alone, Link, Options};
use plimsoll_unit::Bytes;
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// By which adapter.
    adapter: AdapterChoice,
    /// The values of the levers' options.
    lever: Chosen,
}

impl From<&Principal> for Choices {
    fn from(given: &Principal) -> Choices {
        Choices {
            adapter: given.adapter,
            lever: given.lever.0.clone(),
        }
    }
}

impl From<&Program> for Choices {
    fn from(given: &Program) -> Choices {
        Choices {
            adapter: given.adapter.unwrap_or_default(),
            lever: given.lever.0.clone(),
        }
    }
}

impl Choices {
    /// Whether the program can be steered without a broker.
    pub(crate) fn need_no_broker(&self) -> bool {
        ALL.need_no_broker(&self.lever)
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

/// Adds what makes a program elastic, and logs it. `budget`: what the program could use alone;
/// that of the broker at `place` if absent. Without a `place` there is no broker, and the
/// program sizes its heap by itself as long as it can.
pub(crate) fn prepare(
    argv: &[OsString],
    choices: &Choices,
    budget: Option<Bytes>,
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
    let (budget, whole) = match budget {
        Some(own) => (Some(own), None),
        None => listing.as_ref().map_or((None, None), lasting),
    };
    let group = principal::lowest_limit();
    let shared =
        listing.filter(|listing| group.is_some_and(|group| Bytes(listing.capacity) <= group));
    let plan = Plan {
        budget,
        shared: whole,
        memory: group.or_else(principal::machine),
        group,
        beyond: shared.map_or(Bytes::ZERO, |_| principal::pageable()),
        cliff: principal::on_a_cliff(),
        own_rule: place.is_none(),
        said: choices.adapter.said(),
        chosen: choices.lever.clone(),
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

/// The part of the broker's memory that a program alone could use, and the whole of it. `None` where
/// the broker does not see what bounds it: the machine's memory is no measure then, and the program knows no
/// less than we do.
fn lasting(listing: &Listing) -> (Option<Bytes>, Option<Shared>) {
    if listing.unseen {
        return (None, None);
    }
    let whole = Shared {
        capacity: Bytes(listing.capacity),
        some_day: Bytes(listing.budget) + Bytes(listing.outsiders),
    };
    (Some(Bytes(listing.budget)), Some(whole))
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
pub(crate) fn start(member: Option<&Member>, pid: u32, choices: &Choices) -> Option<Steering> {
    if choices.adapter == AdapterChoice::None {
        return None;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut link: Box<dyn Link + Send> = match member {
        Some(member) => Box::new(member.link(Arc::clone(&stop))),
        None => Box::new(Alone::new(Arc::clone(&stop))),
    };
    let options = Options {
        chosen: choices.lever.clone(),
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

    use crate::args::{Cli, Command};
    use crate::programs::Programs;
    use clap::Parser;
    use plimsoll_runtimes::lever_options::LeverOption;
    use plimsoll_unit::MIB;
    use std::path::Path;

    /// The values of an option; a made-up one where it takes a file.
    fn values(option: &LeverOption) -> Vec<&'static str> {
        let values = option.values.iter().map(|value| value.name);
        let file = option.takes_file().then_some("/a/file");
        values.chain(file).collect()
    }

    #[test]
    fn every_value_of_every_option_of_a_lever_arrives_by_its_flag_and_by_its_key() {
        let by_flag = |line: &str| match Cli::parse_from(line.split(' ')).command {
            Command::Run(run) => Choices::from(&run.principal).lever,
            Command::Adopt(adopt) => Choices::from(&adopt.principal).lever,
            other => panic!("{other:?}"),
        };
        let by_key = |line: &str| {
            let text = format!("[[program]]\nname = 'a'\n{line}\ncommand = 'true'\n");
            let file = Programs::parse(&text, Path::new("p.toml"));
            file.map(|file| Choices::from(&file.programs[0]).lever)
        };
        for option in ALL.options() {
            let name = option.name;
            for value in values(option) {
                let mut given = Chosen::default();
                given.give(option, value).unwrap();
                assert_eq!(by_key(&format!("{name} = '{value}'")).unwrap(), given);
                // The defaults of the others come with it.
                let others = ALL.options().filter(|other| other.name != name);
                for other in others.filter(|other| !other.takes_file()) {
                    given.give(other, other.values[0].name).unwrap();
                }
                let flag = format!("--{name} {value}");
                assert_eq!(by_flag(&format!("plimsoll run {flag} true")), given);
                assert_eq!(by_flag(&format!("plimsoll adopt {flag} 1")), given);
            }
            assert!(
                Cli::try_parse_from(["plimsoll", "run", &format!("--{name}=no"), "a"]).is_err()
            );
            let flag = format!("--{name}={}", values(option)[0]);
            let file = Cli::try_parse_from(["plimsoll", "run", "-f", "a", &flag]);
            assert!(
                file.unwrap_err()
                    .to_string()
                    .contains("cannot be used with")
            );
            let refused = by_key(&format!("{name} = 'no'")).unwrap_err().to_string();
            assert!(
                refused.contains("line 3") && refused.contains("is no value of"),
                "{refused}"
            );
        }
    }

    fn listing(capacity: u64, outsiders: u64, budget: u64) -> Listing {
        Listing {
            capacity: capacity * MIB,
            outsiders: outsiders * MIB,
            budget: budget * MIB,
            ..Listing::default()
        }
    }

    #[test]
    fn what_outsiders_have_may_be_a_programs_some_day() {
        let whole = Shared {
            capacity: Bytes::mib(24000),
            some_day: Bytes::mib(23000),
        };
        assert_eq!(
            lasting(&listing(24000, 1000, 22000)),
            (Some(Bytes::mib(22000)), Some(whole))
        );
    }

    #[test]
    fn of_a_limit_that_is_not_seen_no_maximum_is_made() {
        let unseen = Listing {
            unseen: true,
            ..listing(24000, 1000, 22000)
        };
        assert_eq!(lasting(&unseen), (None, None));
    }
}
