//! `plimsoll pin`: keeps the file pages in memory that programs lose and read again.
//!
//! # Map
//! | module | is |
//! |---|---|
//! | `render` | what is shown, as text and as JSON |
//!
//! The work is that of [`plimsoll_pin`]; this is the loop around it.

mod render;

use crate::args;
use crate::error::CliError;
use crate::group;
use crate::json;
use crate::output::{print, say};
use crate::run::signals::Signals;
use plimsoll_kernel::clock;
use plimsoll_kernel::descriptors;
use plimsoll_kernel::pin::lock_own_memory;
use plimsoll_kernel::process::Process;
use plimsoll_pin::limits::Limit;
use plimsoll_pin::report::{Passed, State};
use plimsoll_pin::{Options, Pinner, Programs, Report};
use plimsoll_unit::Bytes;
use render::Progress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::time::Duration;

/// Signals that end it.
const HEARD: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// Longest time without a look at signals.
const LONGEST: Duration = Duration::from_secs(1);
/// Things that are passed over and told at once: without `--explain`, and with it.
const FEW: usize = 8;
const MANY: usize = 64;
/// Held memory is told again when it has changed by more than one part in this many.
const NEWS: u64 = 16;

/// Watches and holds until a signal comes, all given processes ended, or (dry run) a window is over.
///
/// # Errors
/// When there is no such process or group, when none may be looked at, or when nothing may be held.
pub fn run(args: &args::Pin) -> Result<u8, CliError> {
    let signals = Signals::block(&HEARD)?;
    // Each process that is watched takes some. Where the limit stays, fewer are watched, and that is said.
    let _ = descriptors::raise_limit();
    // It is needed most when memory is short. Where its own memory may not be locked, it waits for paging
    // like all others.
    let _ = lock_own_memory();
    let programs = programs(args)?;
    let options = options(args);
    let mut pinner = Pinner::new(options, programs, clock::now()).map_err(refused)?;
    let mut teller = Teller {
        args,
        progress: Progress::new(args.window),
        told: None,
        checked: false,
        limits: BTreeSet::new(),
        told_elsewhere: false,
        most: 0,
    };
    let report = loop {
        let now = clock::now();
        let report = pinner.tick(now).map_err(refused)?;
        teller.check(&report, &pinner)?;
        teller.tell_limits(&report);
        teller.tell_elsewhere(&report, &pinner);
        teller.most = teller.most.max(report.held);
        teller.tell(&report, &pinner)?;
        if teller.is_over(&report, &pinner) {
            break report;
        }
        let wait = pinner.due(now) - clock::now();
        if signalled(&signals, wait.duration().min(LONGEST)) {
            break report;
        }
    };
    teller.progress.clear();
    if !args.dry_run {
        let end = render::end(&report, teller.most, pinner.has_decided());
        say(format_args!("{end}"));
    }
    pinner.release();
    Ok(0)
}

fn refused(error: plimsoll_pin::PinError) -> CliError {
    CliError::Pin(error.to_string())
}

fn options(args: &args::Pin) -> Options {
    let bytes = args.budget.and_then(|budget| match budget {
        plimsoll_wire::size::Size::Bytes(bytes) => Some(Bytes(bytes)),
        plimsoll_wire::size::Size::Part(_) => None,
    });
    let share = args.budget.and_then(|budget| match budget {
        plimsoll_wire::size::Size::Bytes(_) => None,
        plimsoll_wire::size::Size::Part(part) => Some(part),
    });
    Options {
        bytes,
        share: match (share, args.share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        window: args.window.into(),
        without_swap: args.without_swap,
        dry_run: args.dry_run,
        once: args.once,
        ..Options::default()
    }
}

fn programs(args: &args::Pin) -> Result<Programs, CliError> {
    if args.all {
        return Ok(Programs::All);
    }
    if let Some(dir) = &args.cgroup {
        let group = group::named(dir)?;
        return Ok(Programs::Group(group.dir().to_owned()));
    }
    let mut pids = Vec::new();
    for &pid in &args.pids {
        let number = i32::try_from(pid).map_err(|_| CliError::NoSuchProcess(pid))?;
        match Process::open(number) {
            Err(error) if error.is_gone() => return Err(CliError::NoSuchProcess(pid)),
            Err(error) => return Err(CliError::Pin(error.to_string())),
            Ok(_) => pids.push(number),
        }
    }
    Ok(Programs::Processes(pids))
}

/// Waits; true when a signal tells us to end.
fn signalled(signals: &Signals, wait: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    let mut fds = [PollFd::new(signals, PollFlags::IN)];
    // An interrupted wait is a short one.
    let _ = poll(&mut fds, Some(&timeout));
    signals.next().is_some()
}

fn say_passed(passed: &Passed) {
    say(format_args!(
        "passed over: {}",
        render::clean(&passed.reason)
    ));
}

/// Tells only news, and so remembers what was told.
struct Teller<'a> {
    args: &'a args::Pin,
    progress: Progress,
    /// State and bytes held when something was told last.
    told: Option<(State, u64)>,
    checked: bool,
    /// Limits that were told.
    limits: BTreeSet<Limit>,
    told_elsewhere: bool,
    /// The most that was held, bytes.
    most: u64,
}

impl Teller<'_> {
    /// After the first round: whether there is anything to watch, and anything may be held.
    fn check(&mut self, report: &Report, pinner: &Pinner) -> Result<(), CliError> {
        if self.checked || report.rounds == 0 {
            return Ok(());
        }
        self.checked = true;
        let passed = pinner.passed();
        if report.processes == 0 && !self.args.all && self.args.cgroup.is_none() {
            self.tell_limits(report);
            return Err(CliError::Pin(self.none_watched(&passed)));
        }
        let told = if self.args.explain { MANY } else { FEW };
        // Why nothing is held comes first, and alone.
        if report.state == State::Refused {
            return Err(CliError::Pin(render::refusal(report)));
        }
        if let Some(text) = render::unreadable(report) {
            return Err(CliError::Pin(text));
        }
        for text in render::limited(report) {
            say(format_args!("{text}"));
        }
        // A limit is told as one.
        let passed: Vec<&Passed> = render::not_limits(&passed, report).collect();
        for passed in passed.iter().take(told) {
            say_passed(passed);
        }
        if let Some(more @ 1..) = passed.len().checked_sub(told) {
            say(format_args!(
                "and {more} more are passed over; --explain lists them"
            ));
        }
        if report.files == 0 {
            say(format_args!(
                "no file of a disk is mapped; pages that are read by read(2) are not seen"
            ));
        }
        Ok(())
    }

    /// Tells once that the programs wait for what is not held.
    fn tell_elsewhere(&mut self, report: &Report, pinner: &Pinner) {
        let text =
            render::elsewhere(report).filter(|_| pinner.has_decided() && !self.told_elsewhere);
        if let Some(text) = text {
            self.told_elsewhere = true;
            self.progress.clear();
            say(format_args!("{text}"));
        }
    }

    /// Tells each limit once, when it is reached first.
    fn tell_limits(&mut self, report: &Report) {
        if !self.checked {
            return;
        }
        for reached in &report.limits {
            if self.limits.insert(reached.limit) {
                self.progress.clear();
                say(format_args!("{}", render::clean(&reached.reason)));
            }
        }
    }

    /// Why none of the given processes can be watched: of the only one its reason, of several all reasons
    /// first.
    fn none_watched(&self, passed: &[Passed]) -> String {
        let only = match self.args.pids[..] {
            [pid] => passed
                .iter()
                .find(|passed| passed.pid.map(i64::from) == Some(pid.into())),
            _ => None,
        };
        match only {
            Some(passed) => format!("{}: nothing is watched", render::clean(&passed.reason)),
            None => {
                passed.iter().for_each(say_passed);
                "none of these processes can be watched".into()
            }
        }
    }

    fn tell(&mut self, report: &Report, pinner: &Pinner) -> Result<(), CliError> {
        let before = self.told.unwrap_or((State::Watching, 0));
        let changed = report.held.abs_diff(before.1) > before.1 / NEWS;
        let settled = pinner.is_settled();
        let last = self.is_over(report, pinner);
        if (report.state == before.0 && !changed || !settled) && !last {
            self.progress.show(report);
            return Ok(());
        }
        self.told = Some((report.state, report.held));
        self.progress.clear();
        let text = if self.args.json {
            json::line(&render::Document::of(report, pinner, render::MAX_RANGES)) + "\n"
        } else {
            render::text(report, pinner, self.args.explain)
        };
        print(&text).map(|_| ())
    }

    fn is_over(&self, report: &Report, pinner: &Pinner) -> bool {
        let dry = self.args.dry_run && pinner.has_decided();
        dry || pinner.is_alone() && report.rounds > 0
    }
}
