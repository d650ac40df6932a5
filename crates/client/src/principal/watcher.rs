//! The watcher: the thread that keeps a principal's numbers current.
//!
//! While joined it sleeps until the broker tells of a change, the program has something to send, or
//! a second is over (to check the heartbeat). While alone it senses, and tries to join with growing
//! pauses.

use super::join::{self, Before, Joined};
use super::shared::{Known, Shared};
use crate::local::Local;
use crate::page_mapping::Shutter;
use crate::{Error, ErrorName, Reading, Result, Source, Stream};
use plimsoll_kernel::clock;
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Changed, Id};
use plimsoll_wire::page::STALE_AFTER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the heartbeat is checked while joined.
const LOOK: Duration = Duration::from_secs(1);
/// The first and the longest pause between tries to join.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// After a broker is gone: how often to look for a principal that another process registered,
/// before the program registers by itself. With the pauses this takes some seconds, in which
/// `plimsoll run` rejoins and brings weight and name back.
const FINDS: u32 = 6;
/// The most changes that are taken from the stream at a time. Only the last one counts.
const BURST: usize = 256;

/// The state of the watcher's thread, which alone uses all but `shared`.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The right to change what is behind the window. Dropped before `shared`: it guards an address that
    /// `shared` unmaps.
    shutter: Shutter,
    /// Senses while there is no broker.
    local: Local,
    /// The broker, or the time of the next try to find one.
    link: Link,
    /// Whether the principal was ever joined.
    was_joined: bool,
    /// Remaining tries to find the principal that another process registered.
    finds: u32,
    /// Whether the stream may hold further changes that were already received.
    more: bool,
    /// Pause after the next failed try to join; it doubles.
    pause: Duration,
    /// The state that the user's threads share.
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Link {
    Alone { next_try: Instant },
    Joined(Box<Bond>),
}

/// The principal at a broker.
#[derive(Debug)]
struct Bond {
    /// Its id.
    id: Id,
    /// Path of its page.
    page: PathBuf,
    /// The changes of its numbers.
    stream: Stream<Changed>,
    /// The last of these changes.
    last: Changed,
    /// When the broker last gave a sign of life other than on the page.
    heard: Nanos,
}

impl Watcher {
    /// Makes the first try to join, on the caller's thread.
    ///
    /// # Errors
    /// The broker's refusal. That no broker answers is not an error, nor that another user took its place.
    pub(super) fn begin(shared: Arc<Shared>, guard: bool) -> Result<Watcher> {
        let mut watcher = Watcher {
            shutter: Shutter::new(guard),
            local: Local::new(shared.pid()),
            link: Link::Alone {
                next_try: Instant::now(),
            },
            was_joined: false,
            finds: 0,
            more: false,
            pause: FIRST_PAUSE,
            shared,
        };
        match watcher.try_join() {
            Ok(()) => {}
            // Where another user took a usual place of ours, and no broker answers at the others, there is
            // none for us. The error is kept for `last_error`.
            Err(error) if error.is_absent() || matches!(error, Error::Untrusted { .. }) => {
                watcher.sense();
            }
            // The environment is older than the broker. Look for the principal by its process from
            // now on.
            Err(Error::Refused(error))
                if error.name == ErrorName::NoSuchPrincipal && watcher.shared.is_anothers() =>
            {
                watcher.was_joined = true;
                watcher.sense();
            }
            Err(error) => return Err(error),
        }
        Ok(watcher)
    }

    pub(super) fn run(mut self) {
        while !self.shared.closing() {
            self.sleep();
            match &self.link {
                Link::Joined(_) => self.tend(),
                Link::Alone { next_try } if Instant::now() >= *next_try => {
                    if self.try_join().is_err() {
                        self.sense();
                    }
                }
                Link::Alone { .. } => self.sense(),
            }
        }
    }

    fn sleep(&self) {
        let wake = self.shared.wake_fd();
        let (stream, time) = match &self.link {
            Link::Joined(bond) if self.more => (bond.stream.as_fd(), Duration::ZERO),
            Link::Joined(bond) => (bond.stream.as_fd(), LOOK),
            Link::Alone { next_try } => {
                let until = next_try.saturating_duration_since(Instant::now());
                (wake, until.min(self.local.interval()))
            }
        };
        let mut fds = [
            PollFd::new(&wake, PollFlags::IN),
            PollFd::new(&stream, PollFlags::IN),
        ];
        let time = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        // An interrupted or failed poll is a short sleep.
        if poll(&mut fds, Some(&time)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.drain_wake();
    }

    // Joined.

    fn tend(&mut self) {
        if let Err(error) = self.tend_bond() {
            self.shared.set_error(&error);
            self.part();
        }
    }

    fn tend_bond(&mut self) -> Result<()> {
        let Link::Joined(bond) = &mut self.link else {
            return Ok(());
        };
        let mut count = 0;
        while count < BURST
            && let Some(changed) = bond.stream.next(Duration::ZERO)?
        {
            bond.last = changed;
            bond.heard = clock::now();
            count += 1;
        }
        self.more = count == BURST;
        let mut news = count > 0;
        if self.shutter.take_fault() || self.page_is_gone() {
            self.show();
            news = true;
        }
        if news {
            self.take_over();
        }
        self.send()?;
        if self.shared.control_is_broken() {
            return Err(Error::Alone {
                what: "the registration",
            });
        }
        self.feel_pulse()
    }

    fn page_is_gone(&self) -> bool {
        self.shutter.shows_file() && self.shared.window.view().check().is_err()
    }

    /// Puts the broker's page behind the window. If that fails, shows the numbers from the stream.
    fn show(&mut self) {
        let Link::Joined(bond) = &self.link else {
            return;
        };
        let (shutter, numbers) = (&mut self.shutter, &bond.last.numbers);
        let result = self.shared.change_window(Source::Broker, |window| {
            shutter
                .show_file(window, &bond.page, bond.id)
                .or_else(|error| {
                    shutter.show_own(window, bond.id, numbers, clock::now())?;
                    Err(error)
                })
        });
        if let Err(error) = result {
            self.shared.set_error(&error);
        }
    }

    /// Passes the broker's last numbers to waiting threads, and to the window if it does not show
    /// the page.
    fn take_over(&mut self) {
        let Link::Joined(bond) = &self.link else {
            return;
        };
        let now = clock::now();
        if !self.shutter.shows_file() {
            let (shutter, numbers) = (&mut self.shutter, &bond.last.numbers);
            let result = self.shared.change_window(Source::Broker, |window| {
                shutter.show_own(window, bond.id, numbers, now)
            });
            if let Err(error) = result {
                self.shared.set_error(&error);
            }
        }
        self.shared.tell(reading_of(&bond.last, now));
    }

    fn send(&mut self) -> Result<()> {
        let Link::Joined(bond) = &self.link else {
            return Ok(());
        };
        let outbox = self.shared.take_outbox();
        let id = bond.id;
        let mut outcome = Ok(());
        if outbox.released > Bytes::ZERO {
            outcome = self
                .shared
                .with_control(|control| control.released(id, outbox.released));
        }
        if outbox.report_is_new && outcome.is_ok() {
            let report = plimsoll_wire::messages::Report {
                id,
                ..outbox.report
            };
            outcome = self.shared.with_control(|control| control.report(&report));
        }
        match outcome {
            // A refusal is a mistake of the program. The connection is fine.
            Err(Error::Refused(error)) => {
                self.shared.set_error(&Error::Refused(error));
                Ok(())
            }
            other => other,
        }
    }

    /// Checks whether the broker lives. A broker that hangs keeps its connections, but its page
    /// grows old. A call tells whether the broker or only the page is dead.
    fn feel_pulse(&mut self) -> Result<()> {
        let Link::Joined(bond) = &mut self.link else {
            return Ok(());
        };
        let now = clock::now();
        let on_page = self.shutter.shows_file();
        let fresh = if on_page {
            !self.shared.window.view().is_stale(now)
        } else {
            now - bond.heard < STALE_AFTER / 3
        };
        if fresh {
            return Ok(());
        }
        if on_page {
            self.shared.change_window(Source::Stale, |_| ());
        }
        self.shared.with_control(|control| control.info())?;
        bond.heard = clock::now();
        // The broker lives but its page does not, so take the numbers from the stream from now on.
        if on_page {
            let (shutter, numbers) = (&mut self.shutter, &bond.last.numbers);
            let id = bond.id;
            self.shared.change_window(Source::Broker, |window| {
                shutter.show_own(window, id, numbers, clock::now())
            })?;
        }
        self.take_over();
        Ok(())
    }

    /// The broker is gone. Changes to local numbers at once, and tries to rejoin soon.
    fn part(&mut self) {
        let limit = match &self.link {
            Link::Joined(bond) => Bytes(bond.last.numbers.limit),
            Link::Alone { .. } => Bytes::ZERO,
        };
        self.local.inherit(limit, clock::now());
        self.pause = FIRST_PAUSE;
        self.link = Link::Alone {
            next_try: Instant::now() + self.pause,
        };
        let reading = self.show_local();
        self.shared.set_alone(reading);
    }

    // Alone.

    fn sense(&mut self) {
        let reading = self.show_local();
        self.shared.tell(reading);
    }

    fn show_local(&mut self) -> Reading {
        self.local.set_pid(self.shared.pid());
        let now = clock::now();
        let numbers = self.local.sense(now);
        let shutter = &mut self.shutter;
        let shown = self.shared.change_window(Source::Local, |window| {
            shutter.show_own(window, 0, &numbers, now)
        });
        if let Err(error) = shown {
            self.shared.set_error(&error);
        }
        Reading {
            numbers,
            source: Source::Local,
            generation: self
                .shared
                .window
                .view()
                .read()
                .map_or(0, |page| page.generation),
            heartbeat: now,
        }
    }

    fn try_join(&mut self) -> Result<()> {
        let before = Before {
            joined: self.was_joined,
            found: self.finds > 0,
        };
        match join::join(&self.shared.wish(), before) {
            Ok(joined) => {
                self.bond(joined);
                Ok(())
            }
            Err(error) => {
                self.shared.set_error(&error);
                self.link = Link::Alone {
                    next_try: Instant::now() + jittered(self.pause),
                };
                self.pause = (self.pause * 2).min(LAST_PAUSE);
                self.finds = self.finds.saturating_sub(1);
                Err(error)
            }
        }
    }

    fn bond(&mut self, joined: Joined) {
        let now = clock::now();
        let reading = reading_of(&joined.first, now);
        let found = joined.registered.is_none() && !self.shared.is_anothers();
        let known = Known {
            id: joined.id,
            registered: joined.registered,
            socket: joined.control.socket().clone(),
        };
        self.link = Link::Joined(Box::new(Bond {
            id: joined.id,
            page: joined.page,
            stream: joined.stream,
            last: joined.first,
            heard: now,
        }));
        self.was_joined = true;
        self.finds = if found { FINDS } else { 0 };
        self.pause = FIRST_PAUSE;
        self.local.rest();
        self.shared.clear_error();
        self.show();
        self.shared.set_joined(known, joined.control, reading);
    }
}

fn reading_of(changed: &Changed, now: Nanos) -> Reading {
    Reading {
        numbers: changed.numbers,
        source: Source::Broker,
        generation: changed.generation,
        heartbeat: now,
    }
}

/// A random time between half and all of a pause, so that a thousand programs do not rejoin at
/// once.
fn jittered(pause: Duration) -> Duration {
    let noise = clock::now().0 ^ u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let noise = noise.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 54;
    pause / 2 + pause.mul_f64(noise as f64 / 2048.0)
}
