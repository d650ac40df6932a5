//! The loop that steers one program by the lever of its runtime.
//!
//! | module | is |
//! |---|---|
//! | `reach` | until the program is ours alone, and has a lever |
//! | `silence` | when it does not answer |

mod reach;
mod silence;

pub(crate) use reach::{age, reach};
pub(crate) use silence::LEFT_ALONE;

use crate::family::{self, Family};
use crate::lever::Target;
use crate::lever::{Goal, Lever, Moved, Sample};
use crate::link::{Ended, Link};
use crate::process::{Image, Watched};
use crate::runtime::{Runtime, Steered};
use plimsoll_client::govern::REPORT_EVERY;
use plimsoll_kernel::capacity::Domain;
use plimsoll_kernel::clock;
use plimsoll_programs::Candidate;
use plimsoll_unit::{Bytes, MIB};
use plimsoll_wire::messages::Report;
use reach::{IDLE, alone};
use silence::Silence;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// The pause between two looks while something changes.
const BUSY: Duration = Duration::from_millis(100);
/// The pause where an excess ends the program. Native memory that grows by 200 MB/s takes only 10
/// MB in this time.
const CLIFF: Duration = Duration::from_millis(50);
/// The least pause between two measurements of what takes long.
const MEASURE: Duration = Duration::from_secs(2);
/// Measurements take at most one part in this many of the time.
const MEASURE_PART: u32 = 800;
/// The pause between two reports.
const REPORT: Duration = REPORT_EVERY.duration();
/// The same when the program works much more or less than was reported.
const TURN: Duration = Duration::from_millis(300);
/// How long figures of the collector are not reported, because a program behaves differently while
/// it starts.
const STARTING: Duration = Duration::from_secs(2);
/// Some moves need another look at once: the most that follow one another.
const MOST_MOVES: u32 = 8;

/// Steers one process of this runtime until it is gone or has become another program
/// ([`Ended::ProgramGone`]), or until the link is stopped ([`Ended::Stopped`], after all changes were
/// undone).
pub(crate) fn steer(runtime: &dyn Runtime, target: &Target<'_>, link: &mut dyn Link) -> Ended {
    let Steered::Outside(begin) = runtime.steered() else {
        return Ended::ProgramGone;
    };
    let _hold = match alone(&target.process, link) {
        Ok(hold) => hold,
        Err(ended) => return ended,
    };
    let lever = match reach(runtime, begin(*target), &target.process, link) {
        Ok(lever) => lever,
        Err(ended) => return ended,
    };
    link.steered_by(Some(lever.name()));
    let ended = Steering::new(runtime, *target, lever).run(link);
    link.steered_by(None);
    ended
}

/// The state of the loop for one process. Used by one thread.
struct Steering<'a> {
    /// Tells whether the process has become another program.
    runtime: &'a dyn Runtime,
    /// The process, and the options.
    target: Target<'a>,
    /// The lever that moves its memory.
    lever: Box<dyn Lever + 'a>,
    /// The process, held open.
    process: Watched,
    /// The program that it was when it was last recognised.
    image: Option<Image>,
    /// The name of the lever that the link was told.
    told: &'static str,
    /// The process has become another program.
    replaced: bool,
    /// Where its memory was to come to at the last look. Its `cliff` is as measured last.
    goal: Goal,
    /// All processes of the program.
    family: Family,
    /// The memory that the program's other processes use, as measured last; taken off the limit.
    others: Bytes,
    /// When it was last measured.
    measured: Option<Instant>,
    /// The pause between two measurements; longer if a measurement takes long.
    measure_pause: Duration,
    /// The last report to the broker.
    reported: Option<(Instant, Report)>,
    /// Questions without an answer.
    silence: Silence,
    /// The sample at the end of the last turn.
    last: Option<Sample>,
    /// Whether the program rested at the last report.
    rests: bool,
    /// When the steering began.
    started: Instant,
}

impl<'a> Steering<'a> {
    fn new(
        runtime: &'a dyn Runtime,
        target: Target<'a>,
        lever: Box<dyn Lever + 'a>,
    ) -> Steering<'a> {
        Steering {
            runtime,
            target,
            process: Watched::new(target.process),
            image: None,
            told: lever.name(),
            lever,
            replaced: false,
            goal: Goal::default(),
            family: Family::new(target.root),
            others: Bytes::ZERO,
            measured: None,
            measure_pause: MEASURE,
            reported: None,
            silence: Silence::default(),
            last: None,
            rests: false,
            started: Instant::now(),
        }
    }

    fn run(&mut self, link: &mut dyn Link) -> Ended {
        loop {
            if link.stopped() {
                self.lever.restore();
                return Ended::Stopped;
            }
            if self.replaced || !self.process.alive() {
                self.lever.gone();
                return Ended::ProgramGone;
            }
            let pause = self.turn(link);
            link.wait(pause);
        }
    }

    /// Looks once and acts. Returns how long to wait before the next look.
    fn turn(&mut self, link: &mut dyn Link) -> Duration {
        let is_due = |at: Instant| at.elapsed() >= self.measure_pause;
        if self.measured.is_none_or(is_due) {
            self.measure();
        }
        if self.replaced {
            return Duration::ZERO;
        }
        let Some(first) = self.sample(link) else {
            return IDLE;
        };
        self.report(link, &first);
        if self.is_left_alone() {
            return IDLE;
        }
        let sample = self.act(first, link);
        let name = self.lever.name();
        if name != self.told {
            self.told = name;
            link.steered_by(Some(name));
        }
        let calm = self.last.is_some_and(|last| {
            last.collections == sample.collections
                && last.limit == sample.limit
                && sample.uses <= sample.limit
        });
        self.last = Some(sample);
        match (self.goal.cliff.is_some(), calm) {
            (true, _) => CLIFF,
            (false, true) => IDLE / 2,
            (false, false) => BUSY,
        }
    }

    /// Whether it did not answer, and is left alone for now.
    fn is_left_alone(&self) -> bool {
        self.silence.lasts()
            && (self.silence).keeps_away(self.target.process.processor(), Instant::now())
    }

    /// Moves the program's memory as long as the next look calls for more. Returns the last sample.
    fn act(&mut self, first: Sample, link: &mut dyn Link) -> Sample {
        let mut sample = first;
        for _ in 0..MOST_MOVES {
            if link.stopped() {
                break;
            }
            let moved = self.lever.act();
            let Some(again) = self.moved(moved) else {
                break;
            };
            let Some(next) = self.sample(link) else {
                break;
            };
            let before = std::mem::replace(&mut sample, next);
            debug!(
                "process {} at {:.1} s: uses {} -> {} MiB, heap {} -> {} MiB, limit {} MiB ({})",
                self.target.process.pid,
                self.started.elapsed().as_secs_f64(),
                before.uses.0 / MIB,
                sample.uses.0 / MIB,
                before.heap.0 / MIB,
                sample.heap.0 / MIB,
                sample.limit.0 / MIB,
                self.lever.describe(),
            );
            if self.goal.owed > Bytes::ZERO || before.uses > before.limit {
                link.released(before.uses - sample.uses);
            }
            if !again {
                break;
            }
        }
        sample
    }

    /// Takes in what came of a move. Whether the next look may call for more; `None` if no look is needed.
    fn moved(&mut self, moved: Moved) -> Option<bool> {
        let answered = match &moved {
            Moved::Done { answered, .. } | Moved::Unanswered { answered, .. } => *answered,
            Moved::Nothing | Moved::Gone => false,
        };
        if answered {
            self.silence.broken();
        }
        match moved {
            Moved::Nothing | Moved::Gone => None,
            Moved::Unanswered { why, .. } => {
                let worked = self.target.process.processor();
                if self.silence.goes_on(worked, Instant::now()) {
                    warn!(
                        "{why}; it is left alone and asked again every {} s, or when it goes on",
                        LEFT_ALONE.as_secs()
                    );
                }
                None
            }
            Moved::Done { measure, again, .. } => {
                // Not each time: a program that cannot shrink stays over its limit for long.
                let fresh = |at: Instant| at.elapsed() * 4 < self.measure_pause;
                if measure && !self.measured.is_some_and(fresh) {
                    self.measure();
                }
                Some(again)
            }
        }
    }

    /// Looks at the numbers, and at the process.
    fn sample(&mut self, link: &mut dyn Link) -> Option<Sample> {
        let numbers = link.numbers().filter(|numbers| numbers.limit > 0);
        let own = |bytes| family::process_limit(aim(Bytes(bytes)), self.others);
        self.goal = Goal {
            limit: numbers.map_or(Bytes::ZERO, |n| own(n.limit)),
            available: numbers.map_or(Bytes::ZERO, |n| own(n.available.max(n.limit))),
            owed: numbers.map_or(Bytes::ZERO, |n| Bytes(n.owed)),
            cliff: self.goal.cliff,
        };
        self.lever.sample(&self.goal)
    }

    fn measure(&mut self) {
        // On a busy computer the elapsed time includes that of other programs.
        let start = clock::thread_cpu();
        self.lever.measure();
        let own = self.target.process.pid;
        let pid = i32::try_from(own).unwrap_or(-1);
        let cliff = Domain::of_process(pid).and_then(|mut domain| {
            let is_cliff = domain.is_cliff()?;
            Ok(is_cliff.then_some(domain.read()?.lowest))
        });
        self.goal.cliff = cliff.unwrap_or(self.goal.cliff);
        self.replaced = self.is_replaced();
        self.others = self.family.uses_of_others(own);
        let took = (clock::thread_cpu() - start).duration();
        self.measure_pause = MEASURE.max(took * MEASURE_PART);
        self.measured = Some(Instant::now());
    }

    /// Whether the process has become another program, which takes an exec.
    fn is_replaced(&mut self) -> bool {
        let process = &self.target.process;
        let image = process.image();
        if image.is_some() && image == self.image {
            return false;
        }
        self.image = image;
        process.alive() && !self.runtime.runs(&Candidate::look(process.pid))
    }

    /// Tells the broker about the program, if that is new and the last time was long enough ago.
    fn report(&mut self, link: &mut dyn Link, sample: &Sample) {
        let turned = std::mem::replace(&mut self.rests, sample.rests) != sample.rests;
        let report = self.facts();
        let lately = |(at, last): &(Instant, Report)| {
            let pause = if turns(last.allocation_rate, report.allocation_rate) {
                TURN
            } else {
                REPORT
            };
            at.elapsed() < pause
        };
        if !turned && self.reported.as_ref().is_some_and(lately) {
            return;
        }
        debug!("process {}: {report:?}", self.target.process.pid);
        let is_news = |(_, last): &(Instant, Report)| *last != report;
        if self.reported.as_ref().is_none_or(is_news) {
            link.report(&report);
        }
        self.reported = Some((Instant::now(), report));
    }

    /// The facts of the whole program, without figures of a collector that is just starting.
    fn facts(&self) -> Report {
        let facts = self.lever.facts();
        let of_all = |own: u64| (Bytes(own) + self.others).0;
        let settled = self.started.elapsed() >= STARTING;
        Report {
            live: facts.live.filter(|_| settled),
            allocation_rate: facts.allocation_rate.filter(|_| settled),
            collection_speed: facts.collection_speed.filter(|_| settled),
            demand: facts.demand.map(of_all),
            floor: facts.floor.map(of_all),
            ..facts
        }
    }
}

/// Whether a program allocates more than twice as fast as reported, or less than half as fast.
fn turns(told: Option<u64>, now: Option<u64>) -> bool {
    let pair = told.zip(now);
    pair.is_some_and(|(told, now)| now / 2 > told || told / 2 > now)
}

/// The size to aim at, a little below the limit: a collection, a new thread or a mapped file moves
/// the use by as much, and a program over its limit owes memory.
fn aim(limit: Bytes) -> Bytes {
    limit - limit / 64
}

#[cfg(test)]
mod tests;
