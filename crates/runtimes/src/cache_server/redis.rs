//! The lever of Redis and Valkey: `maxmemory`, by the server's own protocol.

use super::client::Client;
use super::info::Info;
use super::maxmemory::{Aim, Control, Look, Step};
use super::note::Noted;
use super::reach::not_yet;
use super::reaction::Reaction;
use crate::family;
use crate::lever::{Goal, Lever, Moved, Reach, Refusal, Sample, Target};
use crate::process::Process;
use plimsoll_kernel::undo_notes::Note;
use plimsoll_programs::Recognise;
use plimsoll_programs::cache_server::Redis;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::Report;
use std::time::{Duration, Instant};
use tracing::warn;

/// The pause between two looks at a server that is within its limit.
const LOOK: Duration = Duration::from_secs(1);
/// For this long after a save the limit that is told may still lack the memory of the process that wrote
/// the file.
const AFTER_SAVE: Duration = Duration::from_secs(5);

/// Begins to reach a server: it is asked what it is, and whether it may be steered.
pub(super) fn begin(target: Target<'_>) -> Reach<'_> {
    Box::new(move || {
        let (mut client, info) = Client::reach(target.process, &target.options.chosen)?;
        let refuse = |why: String| -> Refusal {
            not_yet(format!("process {} (Redis): {why}", target.process.pid))
        };
        if let Some(why) = info.unfit() {
            return Err(refuse(why));
        }
        client.may_configure().map_err(refuse)?;
        Ok(Box::new(ByMaxmemory {
            target,
            client,
            given: info.maxmemory,
            info,
            control: Control::default(),
            told: None,
            note: None,
            goal: Goal::default(),
            held: Bytes::ZERO,
            uses: Bytes::ZERO,
            asked: None,
            saved: None,
            unfit: None,
            reaction: Reaction::default(),
        }))
    })
}

/// Puts the user's value back, unless somebody has set another since. Whether that could be done.
pub(super) fn put_back(process: Process, note: &str) -> bool {
    let Some(noted) = Noted::parse(note) else {
        return true;
    };
    let Ok((mut client, info)) = Client::reach(process, &noted.chosen) else {
        return false;
    };
    !noted.told.contains(&info.maxmemory) || client.set(noted.given).is_ok()
}

struct ByMaxmemory<'a> {
    target: Target<'a>,
    client: Client<'a>,
    /// Its last account of itself.
    info: Info,
    control: Control,
    /// The user's own `maxmemory`; 0 for none.
    given: Bytes,
    /// The last value that we set, and the one before, which holds if the command did not arrive. `None` if
    /// the user's own value holds.
    told: Option<[Bytes; 2]>,
    /// Says, if we are killed, what to put back.
    note: Option<Note>,
    goal: Goal,
    /// The limit of the last look that was not disturbed by a save.
    held: Bytes,
    /// Memory of the process.
    uses: Bytes,
    /// When it was last asked, for which limit, and whether there was something to do.
    asked: Option<(Instant, Bytes, bool)>,
    /// When a process that saves was last seen.
    saved: Option<Instant>,
    /// Why it is not steered now, although it was.
    unfit: Option<String>,
    reaction: Reaction,
}

impl Lever for ByMaxmemory<'_> {
    fn name(&self) -> &'static str {
        Redis.name()
    }

    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        self.uses = family::uses(self.target.process.pid)?;
        self.goal = *goal;
        let limit = self.limit();
        self.reaction.look(self.uses, limit);
        Some(Sample {
            uses: self.uses,
            limit,
            heap: self.info.used,
            ..Sample::default()
        })
    }

    fn facts(&self) -> Report {
        let beside = self.uses - self.info.used;
        let demand = self.given + beside;
        Report {
            demand: Some(demand.0).filter(|_| self.given > Bytes::ZERO),
            // A server whose data does not come back has what it has.
            floor: Some(if self.control.is_vain() {
                self.uses.0
            } else {
                (self.info.overhead + beside).0
            }),
            reaction_ms: self.reaction.milliseconds(),
            ..Report::default()
        }
    }

    fn act(&mut self) -> Moved {
        if self.rests() {
            return Moved::Nothing;
        }
        match self.client.info() {
            Ok(info) => self.take_in(info),
            Err(why) => return self.unanswered(&why),
        }
        if let Some(why) = self.info.unfit() {
            return self.let_be(why);
        }
        self.unfit = None;
        let limit = self.limit();
        let aim = Aim {
            limit,
            given: self.given,
        };
        let step = self.control.next(&self.look(), &aim);
        self.asked = Some((Instant::now(), self.goal.limit, step != Step::Stay));
        match step {
            // The memory of the process that saved is no longer there.
            Step::Stay if self.is_disturbed() => done(true, false),
            Step::Stay | Step::Wait => Moved::Nothing,
            Step::Purge => match self.client.purge() {
                // The server counts anew every 100 ms.
                Ok(()) => done(false, false),
                Err(why) => self.unanswered(&why),
            },
            Step::Set(to) => match self.set(to) {
                Ok(()) => done(false, to < self.info.maxmemory),
                Err(why) => self.unanswered(&why),
            },
        }
    }

    fn restore(&mut self) {
        if let Err(why) = self.put_back() {
            // The next command of ours tries again.
            if let Some(note) = self.note.take() {
                note.leave();
            }
            warn!(
                "process {} (Redis) keeps a maxmemory of ours: {why}; set it to {} yourself",
                self.target.process.pid, self.given.0
            );
        }
    }

    fn describe(&self) -> String {
        let mib = |Bytes(bytes): Bytes| bytes / MIB;
        format!(
            "maxmemory {} MiB, {} MiB used, {} keys evicted",
            mib(self.told.map_or(self.given, |[now, _]| now)),
            mib(self.info.used),
            self.info.evicted
        )
    }
}

impl ByMaxmemory<'_> {
    /// Whether a save has a part in the numbers: the process that writes has all pages, so it looks as if
    /// another program took the memory.
    fn is_disturbed(&self) -> bool {
        self.info.saves || self.saved.is_some_and(|at| at.elapsed() < AFTER_SAVE)
    }

    fn limit(&self) -> Bytes {
        if self.is_disturbed() && self.held > Bytes::ZERO && self.goal.limit > Bytes::ZERO {
            self.held
        } else {
            self.goal.limit
        }
    }

    /// Whether it need not be asked again yet.
    fn rests(&self) -> bool {
        let is_near = self.uses <= self.limit() || self.control.is_vain();
        let nothing_yet = self.goal.limit == Bytes::ZERO && self.told.is_none();
        let is_lately = self.asked.is_some_and(|(at, limit, did)| {
            at.elapsed() < LOOK && limit == self.goal.limit && !did
        });
        nothing_yet || is_near && is_lately
    }

    fn look(&self) -> Look {
        let info = &self.info;
        Look {
            uses: self.uses,
            used: info.counted(),
            idle: info.idle,
            maxmemory: info.maxmemory,
            saves: self.is_disturbed(),
            copied: info.copied,
            frees: info.pending > 0,
            keys: info.keys,
            has_slices: info.has_slices,
        }
    }

    /// Takes in what the server says of itself. A `maxmemory` that is not ours is the user's new one.
    fn take_in(&mut self, info: Info) {
        if info.saves || info.forks != self.info.forks {
            self.saved = Some(Instant::now());
        }
        if self.told.is_none_or(|told| !told.contains(&info.maxmemory)) {
            (self.given, self.told, self.note) = (info.maxmemory, None, None);
        }
        self.info = info;
        if !self.is_disturbed() {
            self.held = self.goal.limit;
        }
    }

    fn set(&mut self, to: Bytes) -> Result<(), String> {
        let told = [to, self.info.maxmemory];
        let noted = |given| Noted::of(given, told, &self.target.options.chosen);
        match &self.note {
            Some(note) => drop(note.set(&noted(self.given).to_string())),
            None => {
                let (mut given, now) = (self.given, self.info.maxmemory);
                self.note = self.target.note(&Redis, |left| {
                    // An adapter was killed, and its value still holds.
                    let left = Noted::parse(left).filter(|left| left.told.contains(&now));
                    given = left.map_or(given, |left| left.given);
                    noted(given).to_string()
                });
                self.given = given;
            }
        }
        self.told = Some(told);
        self.client.set(to)
    }

    /// Sets the user's own value again, if ours holds.
    fn put_back(&mut self) -> Result<(), String> {
        let Some(told) = self.told else {
            return Ok(());
        };
        if told.contains(&self.client.info()?.maxmemory) {
            self.client.set(self.given)?;
        }
        (self.told, self.note) = (None, None);
        Ok(())
    }

    /// Leaves a server alone that can be steered no longer, until it can be again.
    fn let_be(&mut self, why: String) -> Moved {
        self.asked = Some((Instant::now(), self.goal.limit, false));
        if let Err(why) = self.put_back() {
            return self.unanswered(&why);
        }
        self.control = Control::default();
        if self.unfit.as_ref() != Some(&why) {
            let pid = self.target.process.pid;
            warn!("process {pid} (Redis) is not steered until that changes: {why}");
            self.unfit = Some(why);
        }
        Moved::Nothing
    }

    fn unanswered(&self, why: &str) -> Moved {
        if self.target.process.alive() {
            let why = format!("process {} (Redis): {why}", self.target.process.pid);
            Moved::Unanswered {
                answered: false,
                why,
            }
        } else {
            Moved::Gone
        }
    }
}

fn done(measure: bool, again: bool) -> Moved {
    Moved::Done {
        answered: true,
        measure,
        again,
    }
}
