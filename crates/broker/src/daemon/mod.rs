//! The daemon: one thread that waits for events, serves calls and runs ticks.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `serve` | accepts connections, reads their calls, cuts them off |
//! | `calls` | parses a message and calls its method |
//! | `methods` | the table of methods, and the short methods |
//! | `listing` | `List` and `Watch` |
//! | `choice` | which principals a listing shows when not all fit |
//! | `join` | registers a principal |
//! | `process` | a principal's process: its owner, ancestors, cgroup and end |
//! | `end` | removes a principal |
//! | `tick` | sense, decide, publish, revoke |
//! | `publish` | new numbers to pages, subscribers and pressure sockets |
//! | `automatic` | groups, moves and rules that nobody asks for by a call |
//! | `users` | each user's group |
//! | `division` | a limit that binds programs of several users |
//! | `descriptors` | the broker's descriptors of each principal |
//! | `leftovers` | what killed brokers left |

mod automatic;
mod calls;
mod choice;
mod descriptors;
mod division;
mod end;
mod join;
mod leftovers;
mod listing;
mod methods;
mod process;
mod publish;
mod serve;
mod tick;
mod users;

use crate::act::{Cgroups, Rights, Worker};
use crate::balance::Balancer;
use crate::config::{self, Config};
use crate::core::{self, Core, SensedPrincipal};
use crate::error::Error;
use crate::members::Members;
use crate::options::{Options, Paths};
use crate::pinning::Pinning;
use crate::publish::{PageDirectory, PressureSocket};
use crate::sense::{RootDomain, Sampler, Scanner};
use crate::server::clients::Clients;
use crate::server::listener::Listener;
use crate::server::poll::{Interest, Poll, Ready, Slot, Token, Turn};
use crate::server::rest::Rest;
use crate::service::{Manager, Signals, lock_memory, raise_descriptors};
use crate::state::{KeptHome, State};
use crate::turns::Spending;
use division::Part;
use listing::{Shown, shows_others};
use plimsoll_kernel::clock::now_ns;
use plimsoll_kernel::identity::unmapped_user;
use plimsoll_wire::messages::Id;
use std::time::Duration;

/// Interval at which connections are checked for unfinished messages and unread replies, and
/// processes for moves between cgroups, ns.
const SWEEP_NS: u64 = 1_000_000_000;
/// Interval between writes of the state, ns, however often it changes. After a quiet time a few
/// writes may follow at once, so that a crash right after a few changes loses none.
const STATE_NS: u64 = 1_000_000_000;
const STATES_AT_ONCE: u64 = 8;
/// Shortest time between two ticks for newcomers, ns. Other newcomers wait for the next tick, which
/// comes soon.
const NEWCOMER_NS: u64 = 10_000_000;
/// Bound on the work for one user (its calls, reading its processes, ticks that it asks for): one
/// in this many nanoseconds of this thread, and the longest burst in ns.
const SPENT_ONE_IN: u64 = 5;
const SPENT_BURST_NS: u64 = 50_000_000;

/// State of the broker. Everything here belongs to the deciding thread; `worker`, `sampler` and `scanner` are
/// handles of other threads, with locks of their own. All times are of the monotonic clock.
pub(crate) struct Daemon {
    /// The command line.
    options: Options,
    /// Paths of the socket, the pages, the state and the configuration.
    paths: Paths,
    /// The configuration; read again on SIGHUP.
    config: Config,
    /// Whether users are told the names of others' principals; found out when the configuration is read.
    shows_others: bool,
    /// The broker's own uid.
    uid: u32,
    /// The decisions: pure, without clock and I/O.
    core: Core,
    /// Capacity in bytes for which the core was configured; a budget in percent depends on it.
    configured_for: u64,
    /// The epoll descriptor.
    poll: Poll,
    /// The socket that clients connect to.
    listener: Listener,
    /// Listeners that cannot accept at present.
    rest: Rest,
    /// The connections.
    clients: Clients,
    /// Connections whose reply waits until their principal has its first numbers.
    newcomers: Vec<Slot>,
    /// The principals, apart from what the core knows of them.
    members: Members,
    /// The directory of the pages.
    pages: PageDirectory,
    /// The memory that is shared out: the machine, or a limiting cgroup.
    domain: RootDomain,
    /// Makes cgroups for principals.
    cgroups: Cgroups,
    /// The thread that pages out and sets bounds.
    worker: Worker,
    /// Which missing rights were logged.
    rights: Rights,
    /// The thread that samples working sets and shared memory; `None` if the configuration wants neither.
    sampler: Option<Sampler>,
    /// The thread that measures refaults and shifts reclaim; `None` if `[balance]` wants neither.
    balancer: Option<Balancer>,
    /// Absent while `[pin]` is off.
    pinning: Option<Pinning>,
    /// Earliest time to start that thread, ns.
    pinning_at: u64,
    /// The thread that searches for descendants.
    scanner: Scanner,
    /// Time that the work for each user cost this thread.
    spending: Spending,
    /// Duration of the last tick, ns.
    tick_took: u64,
    /// The uid that stands for several users, if there is one.
    unmapped: Option<u32>,
    /// The settings that survive a crash.
    state: State,
    /// SIGHUP, SIGTERM and SIGINT.
    signals: Signals,
    /// The service manager.
    manager: Manager,
    /// Sensed values of the current tick; kept, so that a tick does not allocate.
    sensed: Vec<SensedPrincipal>,
    /// Users' groups for shared limits, for this tick.
    parts: Vec<Part>,
    /// The last listing.
    shown: Shown,
    /// Use of the domain at the last tick, bytes.
    used_before: u64,
    /// Time of the next tick, ns.
    tick_at: u64,
    /// Time of the next glance, ns.
    glance_at: u64,
    /// Time of the next check of the connections and of moved processes, ns.
    sweep_at: u64,
    /// Time up to which writes of the state are used up, ns; each write uses `STATE_NS`.
    state_at: u64,
    /// Earliest time of the next tick for a newcomer, ns.
    newcomer_at: u64,
    /// First id of the next principals that are looked at for moves between cgroups.
    moves_from: Id,
    /// Time since when no principal and no connection exists, ns.
    idle_since: u64,
    /// Whether the broker must end.
    leave: bool,
}

/// Runs a broker until a signal or the idle time ends it. Blocks.
///
/// # Errors
/// [`Error`] when it cannot start (a bad configuration, another broker on the socket, an unusable
/// directory), or when its directory is removed while it runs. No action of a client ends it.
pub fn run(options: Options) -> Result<(), Error> {
    let paths = options.paths()?;
    let config = config::load(&paths.config.0, paths.config.1)?;
    if options.check {
        println!(
            "{}: good; {} rules",
            paths.config.0.display(),
            config.rules.len()
        );
        return Ok(());
    }
    let mut daemon = Daemon::start(options, paths, config)?;
    daemon.manager.ready(&daemon.status());
    tracing::info!(socket = %daemon.paths.socket.display(), domain = %daemon.domain.name(), "ready");
    leftovers::start(daemon.cgroups.own(), daemon.listener.tag());
    let result = daemon.serve();
    daemon.stop();
    result
}

impl Daemon {
    fn start(options: Options, paths: Paths, config: Config) -> Result<Daemon, Error> {
        raise_descriptors();
        let signals = Signals::new()?;
        let poll = Poll::new()?;
        let listener = Listener::open(&paths, options.system)?;
        let pages = PageDirectory::open(&paths.pages, listener.tag(), options.system)?;
        PressureSocket::make_directory(&paths.pressure, options.system)?;
        let domain = RootDomain::open(options.domain.as_deref())?;
        let worker = Worker::start()?;
        let scanner = Scanner::start()?;
        let state = State::load(&paths.state, config.max_per_user);
        let watch = Error::system("epoll_ctl failed; raise fs.epoll.max_user_watches");
        poll.add(&listener, Token::Listener, Interest::Read)
            .and_then(|()| poll.add(&signals, Token::Signal, Interest::Read))
            .and_then(|()| poll.add(&worker, Token::Results, Interest::Read))
            .and_then(|()| poll.add(&scanner, Token::Results, Interest::Read))
            .map_err(watch)?;
        let capacity = domain.last().capacity;
        let core = Core::new(core_config(&options, &config, capacity, state.next_id()));
        let cgroups = Cgroups::new(listener.tag(), state.kept_homes());
        let sampler = Sampler::start(config.working_sets, config.sharing)?;
        let balancer = config.balance.measure.then(Balancer::start).transpose()?;
        lock_memory();
        let now = now_ns();
        let uid = rustix::process::geteuid().as_raw();
        Ok(Daemon {
            shows_others: shows_others(&config),
            uid,
            core,
            configured_for: capacity,
            poll,
            listener,
            rest: Rest::default(),
            clients: Clients::new(uid),
            newcomers: Vec::new(),
            members: Members::default(),
            pages,
            domain,
            cgroups,
            worker,
            rights: Rights::default(),
            sampler,
            balancer,
            pinning: None,
            pinning_at: now,
            scanner,
            spending: Spending::new(SPENT_ONE_IN, SPENT_BURST_NS),
            tick_took: 0,
            unmapped: unmapped_user(),
            state,
            signals,
            manager: Manager::new(),
            sensed: Vec::new(),
            parts: Vec::new(),
            shown: Shown::default(),
            used_before: 0,
            tick_at: now,
            glance_at: now,
            sweep_at: now,
            state_at: now,
            newcomer_at: now,
            moves_from: 0,
            idle_since: now,
            leave: false,
            options,
            paths,
            config,
        })
    }

    /// The main loop. Everything due is done once per round, so that no stream of events can delay
    /// a tick.
    fn serve(&mut self) -> Result<(), Error> {
        let mut ready: Vec<Ready> = Vec::with_capacity(64);
        while !self.leave {
            let timeout = self.timeout(now_ns());
            self.poll.wait(timeout, |event| ready.push(event))?;
            let now = now_ns();
            for event in ready.drain(..) {
                self.handle(event, now);
            }
            self.take_turns(now);
            self.due(now_ns())?;
        }
        Ok(())
    }

    fn timeout(&self, now: u64) -> Duration {
        if self.clients.waiting() > 0 {
            return Duration::ZERO;
        }
        let state = self.state.is_due(now).then(|| self.next_write());
        let others = [
            self.manager.due(),
            self.next_watch(),
            self.clients.resume_at(),
            self.rest.due(),
            state,
        ];
        let until = others
            .into_iter()
            .flatten()
            .fold(self.tick_at.min(self.glance_at), u64::min);
        Duration::from_nanos(until.saturating_sub(now))
    }

    fn handle(&mut self, event: Ready, now: u64) {
        match event.token {
            Token::Listener => self.accept(now),
            Token::Connection(slot) => self.clients.queue(slot, Turn::from(event)),
            Token::Process(id) => {
                self.shown.forget();
                self.process_ended(id);
            }
            Token::PressureListener(id) => self.accept_pressure(id, now),
            Token::PressureListeners(id) => {
                if let Some(member) = self.members.get_mut(id) {
                    member.pressure.sweep();
                }
            }
            Token::Signal => self.signalled(),
            Token::Results => {
                self.take_outcomes();
                self.take_scans();
            }
        }
    }

    fn signalled(&mut self) {
        let (reload, leave) = self.signals.take();
        if reload {
            // The log has the reason of a failure; the old configuration stays in force.
            let _ = self.reload();
        }
        self.leave |= leave;
    }

    /// Does the work that is due at `now`.
    ///
    /// # Errors
    /// [`Error::Unsafe`] when the directory is not ours any more. Our programs must not stay with a
    /// broker that no client finds while another one shares out the same memory.
    fn due(&mut self, now: u64) -> Result<(), Error> {
        if now >= self.glance_at && now < self.tick_at {
            self.glance(now);
        }
        if now >= self.tick_at {
            self.tick(now);
        }
        self.release_newcomers();
        self.watch_due(now);
        self.end_rests(now);
        if now >= self.sweep_at {
            self.sweep_at = now.saturating_add(SWEEP_NS);
            self.sweep(now);
            self.follow_moves(now);
            self.check_directories()?;
        }
        if now >= self.next_write() && self.state.is_due(now) {
            self.state_at = self.state_at.max(now).saturating_add(STATE_NS);
            self.write_state(now);
        }
        self.manager.alive(now);
        self.leave_when_idle(now);
        Ok(())
    }

    fn check_directories(&self) -> Result<(), Error> {
        let lost = if !self.listener.is_ours() {
            &self.paths.directory
        } else if !self.pages.is_ours() {
            self.pages.path()
        } else {
            return Ok(());
        };
        Err(Error::Unsafe {
            path: lost.into(),
            what: "was removed or replaced while the broker served it; it leaves, its programs join the \
                   next one".into(),
        })
    }

    /// Earliest time to write the state, ns.
    fn next_write(&self) -> u64 {
        self.state_at
            .saturating_sub((STATES_AT_ONCE - 1) * STATE_NS)
    }

    /// Runs a tick for a newly registered principal, unless a newcomer had a tick a moment ago.
    /// Then its reply is held until the next tick.
    fn tick_for_newcomer(&mut self, uid: u32, now: u64) {
        if now >= self.newcomer_at && self.may_spend(uid, now) {
            self.newcomer_at = now.saturating_add(NEWCOMER_NS);
            self.tick(now);
        }
    }

    fn leave_when_idle(&mut self, now: u64) {
        if !self.members.is_empty() || !self.clients.is_empty() {
            self.idle_since = now;
            return;
        }
        let idle = Duration::from_nanos(now.saturating_sub(self.idle_since));
        if self.options.idle_exit.is_some_and(|most| idle >= most) {
            tracing::info!("nobody is left; leaving");
            self.leave = true;
        }
    }

    /// Reads the configuration again; a bad one changes nothing.
    fn reload(&mut self) -> Result<(), Error> {
        self.manager.reloading();
        let (path, required) = &self.paths.config;
        let result = config::load(path, *required);
        let result = match result {
            Ok(config) => {
                self.shows_others = shows_others(&config);
                self.config = config;
                self.configure();
                self.apply_rules();
                self.tick_at = 0;
                tracing::info!("the configuration was read again");
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the configuration stays as it was");
                Err(Error::from(error))
            }
        };
        self.manager.ready(&match &result {
            Ok(()) => self.status(),
            Err(error) => format!("old configuration in force: {error}"),
        });
        result
    }

    /// Passes the configuration to the core, for the current capacity.
    fn configure(&mut self) {
        self.configured_for = self.domain.last().capacity;
        self.core.configure(core_config(
            &self.options,
            &self.config,
            self.configured_for,
            self.state.next_id(),
        ));
    }

    fn write_state(&mut self, now: u64) {
        let members = &self.members;
        let kept = self.core.snapshot().into_iter().filter_map(|kept| {
            let member = members
                .get(kept.id)
                .filter(|member| !member.is_automatic())?;
            let home = member.home.as_ref().map(|home| KeptHome {
                directory: home.directory().into(),
                swappiness: member.swappiness,
            });
            Some((member.identity(), kept, home))
        });
        if self.state.write(kept, self.core.next_id(), now) {
            for member in self.members.iter_mut() {
                member.noted = member.swappiness.is_some();
            }
        }
    }

    fn status(&self) -> String {
        format!(
            "{} principals in {}",
            self.members.len(),
            self.domain.name()
        )
    }

    /// Ends cleanly: pages and sockets are removed with their owners. Running programs stay in
    /// their cgroups, where the next broker finds them.
    fn stop(mut self) {
        self.manager.stopping();
        self.pinning = None;
        // It puts back what it changed while the cgroups are still there.
        self.balancer = None;
        if self.listener.is_ours() {
            self.write_state(now_ns());
            if self.members.is_empty() {
                self.state.remove();
            }
        }
        for home in self
            .members
            .iter_mut()
            .filter_map(|member| member.home.take())
        {
            home.leave();
        }
        tracing::info!("left");
    }
}

fn core_config(options: &Options, config: &Config, capacity: u64, first_id: u64) -> core::Config {
    let budget = config.budget.map_or(u64::MAX, |size| size.bytes(capacity));
    core::Config {
        max_principals: config.max_principals,
        first_id,
        max_budget: budget.min(options.budget.unwrap_or(u64::MAX)),
        min_reserve: config.reserve.map_or(0, |size| size.bytes(capacity)),
    }
}
