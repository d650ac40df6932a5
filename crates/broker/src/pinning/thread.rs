//! Ticks the pinner.

use super::exchange::{Exchange, Settings};
use super::release_backoff::ReleaseBackoff;
use crate::background::Monitor;
use plimsoll_kernel::clock;
use plimsoll_pin::allowance::Bound;
use plimsoll_pin::report::State;
use plimsoll_pin::{Options, PinError, Pinner, Programs, Report};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::Pinned;

/// Time between two looks at what the daemon says.
const ROUND: Nanos = Nanos::millis(250);
/// After a failure the pinner is started again after this time.
const RETRY: Nanos = Nanos::seconds(60);

const NO_SWAP: &str = "nothing can go to swap there, so with files held a shortage of memory would end in \
                       the kernel killing a program; add swap, or switch [pin] off";
const SHORT: &str = "the reserve is used up, or a program waits for its share";

/// Runs until the handle is dropped.
pub(super) fn run(monitor: &Monitor<Exchange>) {
    let mut thread = Thread::default();
    let mut rest = ROUND.duration();
    while monitor.rest(rest) {
        let now = clock::now();
        thread.take_over(monitor, now);
        let told = thread.step(now);
        let due = thread.due(now);
        rest = (due - clock::now()).min(ROUND).duration();
        monitor.lock().told = told;
    }
}

#[derive(Default)]
struct Thread {
    settings: Option<Settings>,
    processes: Vec<i32>,
    short: bool,
    patience: ReleaseBackoff,
    pinner: Option<Pinner>,
    /// No pinner is started before.
    retry_at: Nanos,
    /// The state that was logged last, and the bound that keeps the pinner from holding anything. Without
    /// a bound: pages may be held, or the broker itself had them released.
    logged: Option<(State, Option<Bound>)>,
    /// Whether the pinner rests because memory is short: it is not ticked, so nothing of it is due.
    rests: bool,
    /// Memory held after the last tick.
    held: Bytes,
    failure: String,
}

impl Thread {
    /// Takes over the principals and the settings.
    fn take_over(&mut self, monitor: &Monitor<Exchange>, now: Nanos) {
        let mut exchange = monitor.lock();
        self.short = exchange.short;
        if self.settings != exchange.settings {
            self.settings = exchange.settings;
            (self.pinner, self.retry_at, self.held) = (None, now, Bytes::ZERO);
        }
        if !std::mem::take(&mut exchange.fresh) {
            return;
        }
        if self.processes != exchange.processes {
            self.processes.clone_from(&exchange.processes);
            drop(exchange);
            let programs = Programs::Processes(self.processes.clone());
            if let Some(pinner) = &mut self.pinner {
                pinner.watch(programs);
            }
        }
    }

    /// One bounded piece of work; returns what listings show.
    fn step(&mut self, now: Nanos) -> Option<Pinned> {
        let settings = self.settings?;
        if self.pinner.is_none() && now >= self.retry_at {
            self.start(settings, now);
        }
        let Some(pinner) = &mut self.pinner else {
            return Some(failed(&self.failure));
        };
        self.rests = !self.patience.may_hold(self.short, self.held, now);
        if self.rests {
            pinner.release();
            self.held = Bytes::ZERO;
            return Some(self.in_short());
        }
        match pinner.tick(now) {
            Ok(report) => {
                self.held = Bytes(report.held);
                self.tell(&report);
                Some(shown(&report))
            }
            Err(error) => {
                self.fail(&error, now);
                Some(failed(&self.failure))
            }
        }
    }

    /// The report while pages are released because memory is short. Logs that when it is new.
    fn in_short(&mut self) -> Pinned {
        if self.is_news(State::Short, None) {
            tracing::info!(why = SHORT, "no file pages are held");
        }
        Pinned {
            state: "short".into(),
            why: Some(SHORT.into()),
            ..Pinned::default()
        }
    }

    fn start(&mut self, settings: Settings, now: Nanos) {
        let options = Options {
            bytes: settings.bytes,
            window: settings.window,
            ..Options::default()
        };
        let programs = Programs::Processes(self.processes.clone());
        match Pinner::new(options, programs, now) {
            Ok(pinner) => self.pinner = Some(pinner),
            Err(error) => self.fail(&error, now),
        }
    }

    fn fail(&mut self, error: &PinError, now: Nanos) {
        self.failure = error.to_string();
        tracing::warn!(%error, "file pages cannot be held; tried again in a minute");
        (self.pinner, self.retry_at, self.held) = (None, now + RETRY, Bytes::ZERO);
    }

    fn due(&self, now: Nanos) -> Nanos {
        match &self.pinner {
            Some(pinner) if !self.rests => pinner.due(now),
            _ => now + ROUND,
        }
    }

    /// Logs a new state, or a new bound that keeps the pinner from holding anything.
    fn tell(&mut self, report: &Report) {
        let bars = (report.state == State::Short).then(|| report.barrier().0);
        if !self.is_news(report.state, bars) {
            return;
        }
        let (group, why) = (refusing(report), report.barred());
        match report.state {
            State::Refused => tracing::warn!(group, "no file pages are held: {NO_SWAP}"),
            State::Short => tracing::info!(why = why.as_str(), "no file pages are held"),
            State::Watching => tracing::info!("file pages are watched; none is held"),
            State::Holding => tracing::info!(bytes = report.held, "file pages are held"),
        }
    }

    fn is_news(&mut self, state: State, bars: Option<Bound>) -> bool {
        self.logged.replace((state, bars)) != Some((state, bars))
    }
}

/// Where nothing can be swapped: a group of programs, or the broker's own domain.
fn refusing(report: &Report) -> &str {
    let group = report.bounded(Bound::NoSwap);
    group.map_or("the broker's own domain", |group| group.path.as_str())
}

fn failed(why: &str) -> Pinned {
    Pinned {
        state: "failed".into(),
        why: Some(why.into()),
        ..Pinned::default()
    }
}

fn shown(report: &Report) -> Pinned {
    let (state, why) = match report.state {
        State::Refused => ("refused", Some(format!("{}: {NO_SWAP}", refusing(report)))),
        State::Short => ("short", Some(report.barred())),
        State::Watching => ("watching", None),
        State::Holding => ("holding", None),
    };
    Pinned {
        state: state.into(),
        held: report.held,
        allowance: report.allowance,
        budget: report.budget,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pin::report::Group;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    /// The text of the log.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn take(&self) -> String {
            let text = std::mem::take(&mut *self.0.lock().unwrap());
            String::from_utf8(text).unwrap()
        }
    }

    impl Write for Log {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_says_what_bars_holding_and_says_it_once() {
        let log = Log::default();
        let into = log.clone();
        let logs = tracing_subscriber::fmt()
            .with_writer(move || into.clone())
            .finish();
        let group = |bound| Group {
            path: "/a".into(),
            allowance: 0,
            bound,
            reason: Some("not ours".into()),
            held: 0,
        };
        let mut report = Report {
            state: State::Short,
            allowance: 1,
            groups: vec![group(Bound::Short)],
            ..Report::default()
        };
        let mut thread = Thread::default();
        let mut logged = |report: Option<&Report>| {
            match report {
                Some(report) => thread.tell(report),
                None => drop(thread.in_short()),
            }
            log.take()
        };
        tracing::subscriber::with_default(logs, || {
            assert!(logged(Some(&report)).contains("memory is too short in /a"));
            assert_eq!(logged(Some(&report)), "");
            report.groups.push(group(Bound::Unreadable));
            let unread = logged(Some(&report));
            let why = "how much memory /a has left cannot be read: not ours";
            assert!(unread.contains(why), "{unread}");
            assert!(!unread.contains("short"), "{unread}");
            assert_eq!(shown(&report).why.as_deref(), Some(why));
            assert!(logged(None).contains("the reserve is used up"));
            (report.bound, report.allowance) = (Some(Bound::LockLimit), 0);
            assert!(logged(Some(&report)).contains("may lock no memory"));
            report.state = State::Holding;
            assert!(logged(Some(&report)).contains("file pages are held"));
        });
    }

    #[test]
    fn while_memory_is_short_the_thread_sleeps() {
        let mut thread = Thread {
            settings: Some(Settings {
                bytes: None,
                window: Nanos::seconds(1),
            }),
            processes: vec![std::process::id() as i32],
            held: Bytes(1),
            short: true,
            ..Thread::default()
        };
        let begin = clock::now();
        thread.step(begin);
        let later = begin + Nanos::seconds(60);
        thread.held = Bytes(1);
        let told = thread.step(later).map(|told| told.state);
        assert_eq!(told.as_deref(), Some("short"));
        assert!(thread.due(later) >= later + ROUND);
        thread.short = false;
        let rested = later + Nanos::seconds(120);
        let told = thread.step(rested).map(|told| told.state);
        assert_ne!(told.as_deref(), Some("short"));
        assert!(!thread.rests);
    }
}
