//! The daemon: one thread that waits for events, serves calls and runs ticks.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `settings` | the command line and the configuration |
//! | `sensing` | the domain, the senses, what they found |
//! | `acting` | the worker, cgroups, the balance of reclaim, held file pages |
//! | `serving` | the sockets, the connections, the pages; new numbers to those who want them |
//! | `timers` | when the deciding thread does what |
//! | `user_time` | what the work for each user costs the deciding thread |
//! | `serve` | gives connections turns, carries out their calls, cuts them off |
//! | `caller` | who calls |
//! | `dispatch` | parses a message and calls its method |
//! | `methods` | the table of methods, and the short methods |
//! | `listing` | `List` and `Watch` |
//! | `listing_cache` | the last listings, encoded |
//! | `fair_listing` | which principals a listing shows when not all fit |
//! | `register` | registers a principal |
//! | `process` | a principal's process: its owner, ancestors, cgroup and end |
//! | `deregister` | removes a principal |
//! | `tick` | sense, decide, publish, revoke |
//! | `automatic` | groups, moves and rules that nobody asks for by a call |
//! | `users` | each user's group |
//! | `shared_limit` | a limit that binds programs of several users |
//! | `descriptors` | the broker's descriptors of each principal |
//! | `leftovers` | what killed brokers left |

mod acting;
mod automatic;
mod caller;
mod deregister;
mod descriptors;
mod dispatch;
mod fair_listing;
mod leftovers;
mod listing;
mod listing_cache;
mod methods;
mod process;
mod register;
mod sensing;
mod serve;
mod serving;
mod settings;
mod shared_limit;
mod tick;
mod timers;
mod user_time;
mod users;

use crate::act::Home;
use crate::config::{self, Config};
use crate::decide::Core;
use crate::error::Error;
use crate::options::{Options, Paths};
use crate::principals::Members;
use crate::server::epoll::{Ready, Token, Turn};
use crate::service::{Manager, Signals, lock_memory, raise_descriptors};
use crate::state::{KeptHome, State};
use acting::Acting;
use plimsoll_kernel::clock;
use plimsoll_unit::Nanos;
use sensing::Sensing;
use serving::Serving;
use settings::Settings;
use std::time::Duration;
use timers::Timers;
use user_time::UserTime;

/// State of the broker. Everything here belongs to the deciding thread. Each part keeps its fields to
/// itself; what needs several parts is done here. All times are of the monotonic clock.
pub(crate) struct Daemon {
    /// The command line and the configuration.
    settings: Settings,
    /// The decisions: pure, without clock and I/O.
    core: Core,
    /// The principals, apart from what the core knows of them.
    members: Members,
    /// The settings that survive a crash.
    state: State,
    /// Reads the memory of the domain and of the principals.
    sensing: Sensing,
    /// Acts on programs.
    acting: Acting,
    /// The clients' side.
    serving: Serving,
    /// The times of the next work.
    timers: Timers,
    /// Time that each user has cost.
    time: UserTime,
    /// SIGHUP, SIGTERM and SIGINT.
    signals: Signals,
    /// The service manager.
    manager: Manager,
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
    let (socket, domain) = (&daemon.settings.paths.socket, daemon.sensing.domain());
    tracing::info!(socket = %socket.display(), domain = %domain.name(), "ready");
    leftovers::start(daemon.acting.own_cgroup(), daemon.serving.tag());
    let result = daemon.serve();
    daemon.stop();
    result
}

impl Daemon {
    fn start(options: Options, paths: Paths, config: Config) -> Result<Daemon, Error> {
        raise_descriptors();
        let settings = Settings::new(options, paths, config);
        let signals = Signals::new()?;
        let serving = Serving::open(&settings)?;
        let mut sensing = Sensing::start(&settings)?;
        let state = State::load(&settings.paths.state, settings.config.max_per_user);
        let acting = Acting::start(&settings, serving.tag(), state.kept_homes())?;
        serving.watch(&signals, Token::Signal)?;
        serving.watch(&acting, Token::Results)?;
        serving.watch(&sensing, Token::Results)?;
        let core = Core::new(settings.of_core(sensing.take_capacity(), state.next_id()));
        lock_memory();
        Ok(Daemon {
            core,
            members: Members::default(),
            state,
            sensing,
            acting,
            serving,
            timers: Timers::new(clock::now()),
            time: UserTime::new(settings.uid),
            signals,
            manager: Manager::new(),
            leave: false,
            settings,
        })
    }

    /// The main loop. Everything due is done once per round, so that no stream of events can delay
    /// a tick.
    fn serve(&mut self) -> Result<(), Error> {
        let mut ready: Vec<Ready> = Vec::with_capacity(64);
        while !self.leave {
            let timeout = self.timeout(clock::now());
            self.serving.wait(timeout, &mut ready)?;
            let now = clock::now();
            for event in ready.drain(..) {
                self.handle(event, now);
            }
            self.take_turns(now);
            self.due(clock::now())?;
        }
        Ok(())
    }

    fn timeout(&self, now: Nanos) -> Duration {
        if self.serving.waiting() > 0 {
            return Duration::ZERO;
        }
        let state = self.state.is_due(now).then(|| self.timers.next_write());
        let others = [self.manager.due(), self.serving.due(), state];
        let until = others
            .into_iter()
            .flatten()
            .fold(self.timers.next_look(), Nanos::min);
        (until - now).duration()
    }

    fn handle(&mut self, event: Ready, now: Nanos) {
        match event.token {
            Token::Listener => self.serving.accept(self.settings.config.max_per_user, now),
            Token::Connection(slot) => self.serving.queue(slot, Turn::from(event)),
            Token::Process(id) => {
                self.serving.shown().forget();
                self.process_ended(id);
            }
            Token::PressureListener(id) => {
                let ours = self.settings.uid;
                self.serving
                    .accept_pressure(&mut self.members, id, ours, now);
            }
            Token::PressureListeners(id) => {
                if let Some(member) = self.members.get_mut(id) {
                    member.outlet.pressure.sweep();
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
    fn due(&mut self, now: Nanos) -> Result<(), Error> {
        if self.timers.is_glance_due(now) {
            self.glance(now);
        }
        if self.timers.is_tick_due(now) {
            self.tick(now);
        }
        self.serving.release_newcomers(&self.members);
        self.serving.watch_due(now);
        self.serving.end_rests(&self.members, now);
        if self.timers.take_sweep(now) {
            self.sweep(now);
            self.follow_moves(now);
            self.check_directories()?;
        }
        if now >= self.timers.next_write() && self.state.is_due(now) {
            self.timers.written(now);
            self.write_state(now);
        }
        self.manager.alive(now);
        self.leave_when_idle(now);
        Ok(())
    }

    fn check_directories(&self) -> Result<(), Error> {
        let Some(lost) = self.serving.lost_directory(&self.settings) else {
            return Ok(());
        };
        Err(Error::Unsafe {
            path: lost.into(),
            what: "was removed or replaced while the broker served it; it leaves, its programs join the \
                   next one".into(),
        })
    }

    /// Runs a tick for a newly registered principal, unless a newcomer had a tick a moment ago.
    /// Then its reply is held until the next tick.
    fn tick_for_newcomer(&mut self, uid: u32, now: Nanos) {
        if self.timers.is_newcomer_due(now) && self.time.may(uid, now) {
            self.timers.newcomer(now);
            self.tick(now);
        }
    }

    fn leave_when_idle(&mut self, now: Nanos) {
        let any = !self.members.is_empty() || !self.serving.is_empty();
        let idle = self.timers.idle(any, now);
        let most = self.settings.options.idle_exit;
        if !any && most.is_some_and(|most| idle >= most) {
            tracing::info!("nobody is left; leaving");
            self.leave = true;
        }
    }

    /// Reads the configuration again; a bad one changes nothing.
    fn reload(&mut self) -> Result<(), Error> {
        self.manager.reloading();
        let (path, required) = &self.settings.paths.config;
        let result = config::load(path, *required);
        let result = match result {
            Ok(config) => {
                self.settings.set_config(config);
                self.configure();
                self.apply_rules();
                self.timers.tick_now();
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
        let capacity = self.sensing.take_capacity();
        let config = self.settings.of_core(capacity, self.state.next_id());
        self.core.configure(config);
    }

    fn write_state(&mut self, now: Nanos) {
        note(&mut self.state, &self.core, &mut self.members, now);
    }

    fn status(&self) -> String {
        format!(
            "{} principals in {}",
            self.members.len(),
            self.sensing.domain().name()
        )
    }

    /// Ends cleanly. Running programs stay in their cgroups, where the next broker finds them. The order
    /// matters:
    ///
    /// 1. the socket and the connections: nobody joins a broker that ends;
    /// 2. the state, which names the cgroups;
    /// 3. the pages, and the sockets of pressure;
    /// 4. the threads, whose ends may take long;
    /// 5. the cgroups, to which no thread does anything any more;
    /// 6. the lock of the directory: the next broker takes over the same cgroups.
    fn stop(self) {
        self.manager.stopping();
        let Daemon {
            core,
            mut members,
            mut state,
            sensing,
            acting,
            serving,
            ..
        } = self;
        let (pages, lock) = serving.end();
        if lock.is_ours() {
            note(&mut state, &core, &mut members, clock::now());
            if members.is_empty() {
                state.remove();
            }
        }
        let homes = members.iter_mut().filter_map(|member| member.home.take());
        let homes: Vec<Home> = homes.collect();
        drop(members);
        drop(pages);
        drop(sensing);
        let cgroups = acting.end();
        for home in homes {
            home.leave();
        }
        drop(cgroups);
        drop(lock);
        tracing::info!("left");
    }
}

/// Writes what survives a crash into the state.
fn note(state: &mut State, core: &Core, members: &mut Members, now: Nanos) {
    let kept = core.snapshot().into_iter().filter_map(|kept| {
        let member = members
            .get(kept.id)
            .filter(|member| !member.is_automatic())?;
        let home = member.home.as_ref().map(|home| KeptHome {
            directory: home.directory().into(),
            swappiness: member.reclaim.swappiness(),
        });
        Some((member.identity(), kept, home))
    });
    if state.write(kept, core.next_id(), now) {
        for member in members.iter_mut() {
            member.reclaim.note();
        }
    }
}
