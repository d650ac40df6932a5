//! The lever of memcached: `cache_memlimit`, and pages that are moved out of the slabs, by its text protocol.

use super::connection::Connection;
use super::reach::{at_first, not_yet};
use super::reaction::Reaction;
use super::session::{Problem, Session};
use super::slabs::{Aim, Control, LEAST, Look, SLAB_PAGE, Step};
use super::text::{self, Statistics};
use crate::family;
use crate::lever::{Goal, Lever, Moved, Reach, Refusal, Sample, Target};
use crate::process::Process;
use plimsoll_kernel::undo_notes::Note;
use plimsoll_programs::Recognise;
use plimsoll_programs::cache_server::Memcached;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::Report;
use std::time::{Duration, Instant};
use tracing::warn;

/// Why a server may not answer.
const HINT: &str = "one that speaks only the binary protocol, SASL or TLS cannot be asked";
/// The pause between two looks at a server that is within its limit.
const LOOK: Duration = Duration::from_secs(1);
/// The most pages that one move frees, and the longest that it takes. memcached moves one page at a time.
const MOST_PAGES: u64 = 64;
const MOVE: Duration = Duration::from_millis(200);
/// The pause while it moves a page.
const PAGE_PAUSE: Duration = Duration::from_millis(1);

/// Begins to reach a server: it is asked what it is, and whether it may be steered.
pub(super) fn begin(target: Target<'_>) -> Reach<'_> {
    Box::new(move || {
        let (client, given) = Client::reach(target.process)?;
        Ok(Box::new(ByCacheLimit {
            target,
            client,
            given,
            in_force: given,
            told: None,
            slabs: Bytes::ZERO,
            control: Control::default(),
            note: None,
            goal: Goal::default(),
            uses: Bytes::ZERO,
            asked: None,
            reaction: Reaction::default(),
        }))
    })
}

/// Puts the user's limit back, unless somebody has set another since. Whether that could be done.
pub(super) fn put_back(process: Process, note: &str) -> bool {
    let Some(noted) = Noted::parse(note) else {
        return true;
    };
    let Ok((mut client, now)) = Client::reach(process) else {
        return false;
    };
    !noted.told.contains(&now) || client.set(noted.given).is_ok()
}

/// A note about a server whose limit is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    given: Bytes,
    /// Our values, one of which holds.
    told: [Bytes; 2],
}

impl Noted {
    fn text(self) -> String {
        let [now, before] = self.told;
        format!("cache_memlimit {} {} {}\n", self.given.0, now.0, before.0)
    }

    fn parse(text: &str) -> Option<Noted> {
        let numbers = text.strip_prefix("cache_memlimit ")?.strip_suffix('\n')?;
        let mut numbers = numbers.split(' ');
        let mut next = || Some(Bytes(numbers.next()?.parse().ok()?));
        Some(Noted {
            given: next()?,
            told: [next()?, next()?],
        })
    }
}

/// A server that answered.
struct Client {
    session: Session,
    /// It can move pages between its classes.
    can_move: bool,
}

impl Client {
    /// Finds the server in a process, and its limit.
    fn reach(process: Process) -> Result<(Client, Bytes), Refusal> {
        let pid = process.pid;
        let refuse = |why: String| not_yet(format!("process {pid} (memcached): {why}"));
        let ask = |connection: &mut Connection| text::statistics(connection, "stats settings");
        let (answer, place, connection) = at_first(&process, HINT, ask)?;
        let settings = answer.map_err(|line| refuse(explain(&line)))?;
        let says = |name: &str, value: &str| settings.get(name).is_some_and(|it| it == value);
        if says("evictions", "off") {
            return Err(refuse(
                "it was started with -M, so less memory would make commands fail: start it without that \
                 if it is a cache"
                    .to_owned(),
            ));
        }
        let limit = number(&settings, "maxbytes");
        if limit < LEAST {
            return Err(refuse(format!(
                "it tells no limit of at least {} MiB",
                LEAST.0 / MIB
            )));
        }
        let client = Client {
            session: Session::of(process, place, connection),
            can_move: says("slab_reassign", "yes"),
        };
        Ok((client, limit))
    }

    /// The limit in force, and the memory of its slabs.
    fn look(&mut self) -> Result<(Bytes, Bytes), String> {
        let settings = self.statistics("stats")?;
        let slabs = self.statistics("stats slabs")?;
        Ok((
            number(&settings, "limit_maxbytes"),
            number(&slabs, "total_malloced"),
        ))
    }

    fn set(&mut self, limit: Bytes) -> Result<(), String> {
        let answer = self.command(&format!("cache_memlimit {}", limit.0 / MIB))?;
        if answer == "OK" {
            Ok(())
        } else {
            Err(format!(
                "it does not change its limit, as one whose memory is all taken at its start (-L, -e): \
                 {answer}"
            ))
        }
    }

    /// Frees up to this number of pages: of the class that has the most, a page is moved to the pool of
    /// free ones. Returns how many were moved.
    fn free(&mut self, pages: u64) -> Result<u64, String> {
        let mut classes = classes(&self.statistics("stats slabs")?);
        let end = Instant::now() + MOVE;
        let mut moved = 0;
        while moved < pages.min(MOST_PAGES) && Instant::now() < end {
            let largest = classes.iter_mut().max_by_key(|(_, pages)| *pages);
            let Some((class, has)) = largest.filter(|(_, pages)| *pages > 1) else {
                break;
            };
            let answer = self.command(&format!("slabs reassign {class} 0"))?;
            match answer.split(' ').next() {
                Some("OK") => (*has, moved) = (*has - 1, moved + 1),
                Some("BUSY") => std::thread::sleep(PAGE_PAUSE),
                // It has given its last spare page away.
                Some("NOSPARE") => *has = 1,
                _ => return Err(format!("it does not move pages of its slabs: {answer}")),
            }
        }
        Ok(moved)
    }

    fn statistics(&mut self, line: &str) -> Result<Statistics, String> {
        let ask = |connection: &mut Connection| text::statistics(connection, line);
        let answer = self.session.ask(&|_| Ok(Ok(())), ask);
        answer.map_err(told(line))?.map_err(|line| explain(&line))
    }

    fn command(&mut self, line: &str) -> Result<String, String> {
        let ask = |connection: &mut Connection| text::command(connection, line);
        self.session.ask(&|_| Ok(Ok(())), ask).map_err(told(line))
    }
}

fn told(line: &str) -> impl Fn(Problem) -> String {
    move |problem| format!("{line}: {problem}")
}

fn explain(line: &str) -> String {
    let line: String = line.chars().take(100).collect();
    if line.starts_with("CLIENT_ERROR unauthenticated") {
        "it wants a password (-Y), which we cannot give it".to_owned()
    } else {
        format!("it tells no statistics: {HINT} (`{line}`)")
    }
}

fn number(statistics: &Statistics, name: &str) -> Bytes {
    let value = statistics.get(name).and_then(|value| value.parse().ok());
    Bytes(value.unwrap_or(0))
}

/// The classes of sizes with their numbers of pages, from lines such as `5:total_pages 3`.
fn classes(slabs: &Statistics) -> Vec<(u32, u64)> {
    let of = |(name, value): (&String, &String)| {
        let class = name.strip_suffix(":total_pages")?.parse().ok()?;
        Some((class, value.parse().ok()?))
    };
    slabs.iter().filter_map(of).collect()
}

struct ByCacheLimit<'a> {
    target: Target<'a>,
    client: Client,
    /// The limit that the user gave.
    given: Bytes,
    /// The limit in force.
    in_force: Bytes,
    /// The last limit that we set, and the one before. `None` if the user's own holds.
    told: Option<[Bytes; 2]>,
    /// Memory of its slabs.
    slabs: Bytes,
    control: Control,
    /// Says, if we are killed, what to put back.
    note: Option<Note>,
    goal: Goal,
    /// Memory of the process.
    uses: Bytes,
    /// When it was last asked, for which limit, and whether there was something to do.
    asked: Option<(Instant, Bytes, bool)>,
    reaction: Reaction,
}

impl Lever for ByCacheLimit<'_> {
    fn name(&self) -> &'static str {
        Memcached.name()
    }

    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        self.uses = family::uses(self.target.process.pid)?;
        self.goal = *goal;
        self.reaction.look(self.uses, goal.limit);
        Some(Sample {
            uses: self.uses,
            limit: goal.limit,
            heap: self.slabs,
            ..Sample::default()
        })
    }

    fn facts(&self) -> Report {
        let beside = self.uses - self.slabs;
        let is_known = self.asked.is_some();
        Report {
            demand: is_known.then_some((self.given + beside).0),
            // A server whose pages do not come back has what it has.
            floor: is_known.then_some(if self.control.is_vain() || !self.client.can_move {
                self.uses.0
            } else {
                (LEAST.min(self.slabs) + beside).0
            }),
            reaction_ms: self.reaction.milliseconds(),
            ..Report::default()
        }
    }

    fn act(&mut self) -> Moved {
        if self.rests() {
            return Moved::Nothing;
        }
        match self.client.look() {
            Ok((in_force, slabs)) => self.take_in(in_force, slabs),
            Err(why) => return self.unanswered(&why),
        }
        let look = Look {
            uses: self.uses,
            slabs: self.slabs,
            in_force: self.in_force,
            can_move: self.client.can_move,
        };
        let aim = Aim {
            limit: self.goal.limit,
            given: self.given,
        };
        let step = self.control.next(&look, &aim);
        self.asked = Some((Instant::now(), self.goal.limit, step != Step::Stay));
        let done = match step {
            Step::Stay => return Moved::Nothing,
            Step::Set(to) => self.set(to).map(|()| to < self.in_force),
            // The last pages may still be on their way.
            Step::Free(pages) => self.client.free(pages).map(|_| false),
        };
        match done {
            Ok(again) => Moved::Done {
                answered: true,
                measure: false,
                again,
            },
            Err(why) => self.unanswered(&why),
        }
    }

    fn restore(&mut self) {
        let Some(told) = self.told else { return };
        let now = self.client.look();
        let done = now.and_then(|(now, _)| {
            let is_ours = told.contains(&now);
            if is_ours {
                self.client.set(self.given)
            } else {
                Ok(())
            }
        });
        match done {
            Ok(()) => (self.told, self.note) = (None, None),
            Err(why) => {
                // The next command of ours tries again.
                if let Some(note) = self.note.take() {
                    note.leave();
                }
                warn!(
                    "process {} (memcached) keeps a limit of ours: {why}; set it by `cache_memlimit {}`",
                    self.target.process.pid,
                    self.given.0 / MIB
                );
            }
        }
    }

    fn describe(&self) -> String {
        format!(
            "limit of the slabs {} MiB, {} pages in use",
            self.in_force.0 / MIB,
            self.slabs.0 / SLAB_PAGE.0
        )
    }
}

impl ByCacheLimit<'_> {
    /// Whether it need not be asked again yet.
    fn rests(&self) -> bool {
        let is_near = self.uses <= self.goal.limit || self.control.is_vain();
        let nothing_yet = self.goal.limit == Bytes::ZERO && self.told.is_none();
        let is_lately = self.asked.is_some_and(|(at, limit, did)| {
            at.elapsed() < LOOK && limit == self.goal.limit && !did
        });
        nothing_yet || is_near && is_lately
    }

    /// Takes in what the server says of itself. A limit that is not ours is the user's new one.
    fn take_in(&mut self, in_force: Bytes, slabs: Bytes) {
        if self.told.is_none_or(|told| !told.contains(&in_force)) {
            (self.given, self.told, self.note) = (in_force, None, None);
        }
        (self.in_force, self.slabs) = (in_force, slabs);
    }

    fn set(&mut self, to: Bytes) -> Result<(), String> {
        let told = [to, self.in_force];
        let noted = |given| Noted { given, told }.text();
        match &self.note {
            Some(note) => drop(note.set(&noted(self.given))),
            None => {
                let (mut given, now) = (self.given, self.in_force);
                self.note = self.target.note(&Memcached, |left| {
                    // An adapter was killed, and its value still holds.
                    let left = Noted::parse(left).filter(|left| left.told.contains(&now));
                    given = left.map_or(given, |left| left.given);
                    noted(given)
                });
                self.given = given;
            }
        }
        self.told = Some(told);
        self.client.set(to)
    }

    fn unanswered(&self, why: &str) -> Moved {
        if self.target.process.alive() {
            let why = format!("process {} (memcached): {why}", self.target.process.pid);
            Moved::Unanswered {
                answered: false,
                why,
            }
        } else {
            Moved::Gone
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_anything_else_is_none() {
        let noted = Noted {
            given: Bytes(9),
            told: [Bytes(7), Bytes(9)],
        };
        assert_eq!(noted.text(), "cache_memlimit 9 7 9\n");
        assert_eq!(Noted::parse(&noted.text()), Some(noted));
        for text in [
            "",
            "cache_memlimit 9 7\n",
            "cache_memlimit 9 7 9",
            "maxmemory 9 7 9\n",
        ] {
            assert_eq!(Noted::parse(text), None, "{text}");
        }
    }

    #[test]
    fn classes_are_those_that_have_pages() {
        let statistics = [
            ("5:total_pages", "3"),
            ("active_slabs", "1"),
            ("x:total_pages", "2"),
        ];
        let statistics = statistics.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(classes(&statistics.into()), [(5, 3)]);
    }
}
