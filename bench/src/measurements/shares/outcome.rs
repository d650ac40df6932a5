//! How far programs are from their shares in a run, for each change of shares: over, under, and at rest.
//!
//! - *over*: how much a program whose share fell still has above it, a fixed time after the change. Its
//!   neighbours page for that.
//! - *under*: how much a program has below its share, or below what it can have: what it used when it was
//!   ready (at its first line of progress) and what it has allocated since, if that is less.
//! - *rest*: how far programs are from their shares, above or below, when they had time to settle. A
//!   collected heap saw-tooths below its limit, so the most that a program used in the last second counts.

use crate::harness::scenario::{Program, Scenario};
use crate::harness::trace::{Sample, Trace};
use crate::report::statistics::spread;
use serde::{Deserialize, Serialize};

/// Allowed distance from the share, as a part of the budget (paper: 50 MB of 1.6 GB).
pub(super) const TOLERANCE: f64 = 0.03;
/// Programs are at rest from so many seconds after a change on.
const REST: f64 = 5.0;
/// At rest the highest use of so many seconds counts.
const CYCLE: f64 = 1.0;

/// How the programs of a scenario are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Seconds after a change, or after an arrival is ready, at which over and under are read.
    pub(super) soon: f64,
    /// Bytes that a unit of a program's work allocates. `None`: unknown, and a program can have its share at
    /// once.
    pub(super) unit: Option<u64>,
}

/// The outcome of one run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) turns: Vec<Turn>,
    pub(super) major_faults: u64,
}

/// The time from one change of shares to the next. Distances are fractions of the budget; where several
/// programs count, the largest one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The change.
    pub(super) what: String,
    /// The largest over, of programs whose share fell; `None` if there are none.
    pub(super) over: Option<f64>,
    /// Under, of those that ran before the change; `None` if there are none.
    pub(super) incumbents: Option<f64>,
    /// Under, of those that the change started; `None` if there are none.
    pub(super) arrivals: Option<f64>,
    /// At rest, in each sample.
    pub(super) rest: Vec<f64>,
    /// The part of the budget that is in use at rest, median.
    pub(super) used: f64,
    pub(super) parts: Vec<Part>,
}

/// The limits and the work of a program in a turn, from the time at which over is read until the
/// next change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    /// Its share, and the mean of its limits, as fractions of the budget.
    pub(super) share: f64,
    pub(super) limit: f64,
    /// Seconds between its first and last line of progress in that time; the processor time of it and of its
    /// collector in between; and its work.
    pub(super) seconds: f64,
    pub(super) processor: f64,
    pub(super) work: f64,
}

impl Outcome {
    /// Judges a run.
    pub(super) fn of(scenario: &Scenario, rules: Rules, trace: &Trace) -> Outcome {
        let programs = 0..scenario.programs.len();
        let run = Run {
            scenario,
            rules,
            trace,
            lines: programs.clone().map(|i| lines(trace, i)).collect(),
        };
        Outcome {
            turns: turns(scenario).iter().map(|span| run.judge(span)).collect(),
            major_faults: programs.map(|i| trace.count(i, |p| p.major_faults)).sum(),
        }
    }
}

/// The time between two changes.
struct Span {
    what: String,
    from: f64,
    to: f64,
}

/// Events at one time are one change.
fn turns(scenario: &Scenario) -> Vec<Span> {
    /// Where there are more events than this, their number is told.
    const TOLD: usize = 3;
    let points = scenario.turning_points();
    let together: Vec<&[(f64, String)]> = points.chunk_by(|a, b| a.0 == b.0).collect();
    let span = |(index, events): (usize, &&[(f64, String)])| {
        let whats: Vec<&str> = events.iter().map(|event| event.1.as_str()).collect();
        Span {
            what: match whats.len() {
                ..=TOLD => whats.join(", "),
                many => format!("{many} changes at once"),
            },
            from: events[0].0,
            to: together
                .get(index + 1)
                .map_or(scenario.seconds, |next| next[0].0),
        }
    };
    together.iter().enumerate().map(span).collect()
}

/// The sample after a line of progress.
#[derive(Clone, Copy, Debug)]
struct Line {
    at: f64,
    work: f64,
    /// Processor seconds so far.
    processor: f64,
}

fn lines(trace: &Trace, index: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for sample in &trace.samples {
        let seen = sample.programs[index];
        if seen.work > lines.last().map_or(0.0, |line| line.work) {
            lines.push(Line {
                at: sample.at,
                work: seen.work,
                processor: seen.processor_ticks as f64 / 100.0,
            });
        }
    }
    lines
}

/// Work until a time; between two lines it grows evenly.
fn work_until(lines: &[Line], at: f64) -> f64 {
    let next = lines.partition_point(|line| line.at <= at);
    match (next.checked_sub(1).map(|last| lines[last]), lines.get(next)) {
        (Some(last), Some(next)) => {
            last.work + (next.work - last.work) * (at - last.at) / (next.at - last.at)
        }
        (Some(last), None) => last.work,
        (None, _) => 0.0,
    }
}

/// A run that is judged.
struct Run<'a> {
    scenario: &'a Scenario,
    rules: Rules,
    trace: &'a Trace,
    /// The lines of progress of each program.
    lines: Vec<Vec<Line>>,
}

impl Run<'_> {
    fn judge(&self, span: &Span) -> Turn {
        let incumbent = |(_, program): &(usize, &Program)| program.start < span.from;
        let arrives = |(_, program): &(usize, &Program)| program.start == span.from;
        let soon = self.trace.at(span.from + self.rules.soon);
        let rest = || self.trace.between(span.from + REST, span.to);
        let fell = |one: &(usize, &Program)| {
            // A moment before the change.
            let before = self.scenario.ideal(&one.1.name, span.from - 1e-6);
            incumbent(one) && self.share(one.1, span) < before
        };
        let over = |(index, program): (usize, &Program)| {
            soon.map_or(0.0, |sample| uses(sample, index)) - self.share(program, span)
        };
        let lacks = |(index, program): (usize, &Program)| {
            soon.map_or(0.0, |sample| self.lacks(index, program, span, sample))
        };
        let used: Vec<f64> = rest().map(all_uses).collect();
        Turn {
            what: span.what.clone(),
            over: farthest(self.running(span).filter(fell).map(over)),
            incumbents: farthest(self.running(span).filter(incumbent).map(lacks)),
            arrivals: farthest(
                self.running(span)
                    .filter(arrives)
                    .map(|(index, program)| self.arrival_lacks(index, program, span)),
            ),
            rest: rest().map(|sample| self.unsettled(span, sample)).collect(),
            used: spread(&used).median,
            parts: self
                .running(span)
                .map(|(index, program)| self.part(index, program, span))
                .collect(),
        }
    }

    /// The programs that run in a span, with their places in the scenario.
    fn running(&self, span: &Span) -> impl Iterator<Item = (usize, &Program)> {
        let (from, programs) = (span.from, self.scenario.programs.iter().enumerate());
        programs.filter(move |(_, program)| self.scenario.ideal(&program.name, from) > 0.0)
    }

    fn share(&self, program: &Program, span: &Span) -> f64 {
        self.scenario.ideal(&program.name, span.from)
    }

    /// The bytes that a program lacks in a sample of its share, or of what it can have.
    fn lacks(&self, index: usize, program: &Program, span: &Span, sample: &Sample) -> f64 {
        let share = self.share(program, span);
        self.in_reach(index, sample).min(share) - uses(sample, index)
    }

    /// The most that a program can have in a sample: what it used when it was ready, and what it has
    /// allocated since.
    fn in_reach(&self, index: usize, sample: &Sample) -> f64 {
        let Some(unit) = self.rules.unit else {
            return f64::INFINITY;
        };
        let ready = self.lines[index].first().filter(|it| it.at <= sample.at);
        let Some(ready) = ready else { return 0.0 };
        let then = self
            .trace
            .at(ready.at)
            .map_or(0, |then| then.programs[index].uses);
        let work = work_until(&self.lines[index], sample.at) - ready.work;
        (then as f64 + work * unit as f64) / budget(sample)
    }

    /// The part of the budget that an arrival lacks, some time after it was ready. One that is not
    /// ready before the next change lacks all.
    fn arrival_lacks(&self, index: usize, program: &Program, span: &Span) -> f64 {
        let ready = self.lines[index].first().filter(|ready| ready.at < span.to);
        let then = ready.and_then(|ready| {
            let then = ready.at + self.rules.soon;
            self.trace.at(then.min(span.to))
        });
        match then {
            Some(sample) => self.lacks(index, program, span, sample),
            None => self.share(program, span),
        }
    }

    /// How far the farthest program is from its share, by the most that it used in the last second.
    fn unsettled(&self, span: &Span, sample: &Sample) -> f64 {
        let last = self.trace.samples.iter();
        let last: Vec<&Sample> = last
            .filter(|one| one.at > sample.at - CYCLE && one.at <= sample.at)
            .collect();
        let distance = |(index, program): (usize, &Program)| {
            let uses = last.iter().map(|one| uses(one, index));
            (uses.fold(0.0, f64::max) - self.share(program, span)).abs()
        };
        farthest(self.running(span).map(distance)).unwrap_or(0.0)
    }

    fn part(&self, index: usize, program: &Program, span: &Span) -> Part {
        let from = span.from + self.rules.soon;
        let limits = self.trace.between(from, span.to);
        let limits: Vec<f64> = limits
            .filter_map(|sample| Some(*sample.limits.get(index)? as f64 / budget(sample)))
            .collect();
        let own = self.lines[index].iter();
        let mut own = own.filter(|line| line.at >= from && line.at < span.to);
        let first = own.next();
        let between = |figure: fn(&Line) -> f64| {
            let ends = first.zip(own.clone().next_back());
            ends.map_or(0.0, |(first, last)| figure(last) - figure(first))
        };
        Part {
            name: program.name.clone(),
            share: self.share(program, span),
            limit: limits.iter().sum::<f64>() / limits.len().max(1) as f64,
            seconds: between(|line| line.at),
            processor: between(|line| line.processor),
            work: between(|line| line.work),
        }
    }
}

fn budget(sample: &Sample) -> f64 {
    sample.budget.max(1) as f64
}

fn uses(sample: &Sample, index: usize) -> f64 {
    sample.programs[index].uses as f64 / budget(sample)
}

fn all_uses(sample: &Sample) -> f64 {
    (0..sample.programs.len())
        .map(|index| uses(sample, index))
        .sum()
}

/// The largest distance; one to the other side is none. `None` if there are none.
fn farthest(distances: impl Iterator<Item = f64>) -> Option<f64> {
    distances.map(|distance| distance.max(0.0)).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::trace::Seen;

    const RULES: Rules = Rules {
        soon: 2.0,
        unit: Some(100),
    };

    /// `one` runs all the time, `other` of the same weight arrives at 20 s.
    fn scenario() -> Scenario {
        let program = |name: &str, start| Program {
            name: name.to_owned(),
            weight: 10,
            start,
            ..Program::default()
        };
        Scenario {
            seconds: 40.0,
            programs: vec![program("one", 0.0), program("other", 20.0)],
            ..Scenario::default()
        }
    }

    /// A trace of 40 s with a budget of 1000 bytes: at each time the uses, the work and the limits.
    fn trace(at: impl Fn(f64) -> ([u64; 2], [f64; 2], [u64; 2])) -> Trace {
        let sample = |tenth: u32| {
            let seconds = f64::from(tenth) / 10.0;
            let (uses, work, limits) = at(seconds);
            let seen = |index: usize| Seen {
                uses: uses[index],
                work: work[index],
                processor_ticks: (seconds * 50.0) as u64,
                ..Seen::default()
            };
            Sample {
                at: seconds,
                programs: vec![seen(0), seen(1)],
                limits: limits.into(),
                budget: 1000,
                ..Sample::default()
            }
        };
        Trace {
            samples: (0..400).map(sample).collect(),
            ..Trace::default()
        }
    }

    fn close(a: impl Into<Option<f64>>, b: f64) -> bool {
        a.into().is_some_and(|a| (a - b).abs() < 1e-6)
    }

    #[test]
    fn over_counts_only_those_whose_share_fell() {
        // The first comes down to 40 over its share in 2 s; the other is over its share all the time.
        let down = |at: f64| match at {
            ..20.0 => 1000,
            _ => 540.max(1000_u64.saturating_sub(((at - 20.0) * 300.0) as u64)),
        };
        let outcome = Outcome::of(
            &scenario(),
            RULES,
            &trace(|at| ([down(at), 700], [at, (at - 20.0).max(0.0)], [0, 0])),
        );
        let [first, second] = &outcome.turns[..] else {
            panic!("two changes: {outcome:?}")
        };
        assert_eq!(
            (first.what.as_str(), second.what.as_str()),
            ("one starts", "other starts")
        );
        assert_eq!((first.over, first.incumbents), (None, None));
        assert!(close(second.over, 0.04), "{second:?}");
        assert!(close(second.incumbents, 0.0));
    }

    #[test]
    fn an_arrival_is_asked_for_no_more_than_it_has_allocated_since_it_was_ready() {
        // It is ready after 3 s with 60 bytes, allocates 100 bytes a second, and keeps half of that.
        let since = |at: f64| (at - 23.0).max(0.0);
        let other = |at: f64| match at {
            ..20.0 => 0,
            _ => 60 + (since(at) * 50.0) as u64,
        };
        let work = |at: f64| match at {
            ..22.95 => 0.0,
            _ => 1.0 + since(at),
        };
        let trace = trace(|at| ([500, other(at)], [at, work(at)], [0, 0]));
        let turns = Outcome::of(&scenario(), RULES, &trace).turns;
        // 5 s after it began it could have 260 bytes, and has 160.
        assert!(close(turns[1].arrivals, 0.1), "{:?}", turns[1].arrivals);
        // 3 s later it could have 560 bytes, so its share counts; likewise if its rate is unknown.
        let later = Rules { soon: 5.0, ..RULES };
        let turns = Outcome::of(&scenario(), later, &trace).turns;
        assert!(close(turns[1].arrivals, 0.19), "{:?}", turns[1].arrivals);
        let unknown = Rules {
            unit: None,
            ..RULES
        };
        let turns = Outcome::of(&scenario(), unknown, &trace).turns;
        assert!(close(turns[1].arrivals, 0.34), "{:?}", turns[1].arrivals);
    }

    #[test]
    fn an_arrival_that_never_is_ready_lacks_all_of_its_share() {
        let trace = trace(|at| ([500, 400], [at, 0.0], [0, 0]));
        let turns = Outcome::of(&scenario(), RULES, &trace).turns;
        assert!(close(turns[1].arrivals, 0.5));
        assert!(close(turns[1].incumbents, 0.0), "it has its share");
    }

    #[test]
    fn at_rest_the_top_of_a_saw_tooth_counts() {
        let tooth = |at: f64| 490 - ((at * 10.0).round() as u64 % 5) * 60;
        let outcome = Outcome::of(
            &scenario(),
            RULES,
            &trace(|at| ([tooth(at), 480], [at, at], [0, 0])),
        );
        let turn = &outcome.turns[1];
        assert_eq!(turn.rest.len(), 150);
        assert!(turn.rest.iter().all(|rest| close(*rest, 0.02)), "{turn:?}");
        assert!(close(turn.used, 0.85), "{}", turn.used);
    }

    #[test]
    fn lines_of_progress_are_joined_by_straight_ones() {
        // Each second it says what it has done.
        let trace = trace(|at| ([0, 0], [at.floor() * 4.0, 0.0], [300, 0]));
        let lines = lines(&trace, 0);
        assert!(close(work_until(&lines, 10.5), 42.0));
        assert_eq!(work_until(&lines, 0.5), 0.0);
        assert!(close(work_until(&lines, 39.9), 156.0));
        let outcome = Outcome::of(&scenario(), RULES, &trace);
        let part = &outcome.turns[0].parts[0];
        assert!(
            close(part.work / part.seconds, 4.0) && close(part.processor, part.seconds / 2.0),
            "{part:?}"
        );
        assert!(close(part.share, 1.0) && close(part.limit, 0.3));
    }

    #[test]
    fn what_happens_at_once_is_one_change() {
        let mut many = scenario();
        for program in &mut many.programs {
            program.start = 0.0;
        }
        let whats = |scenario: &Scenario| {
            let spans = turns(scenario).into_iter();
            spans.map(|span| span.what).collect::<Vec<_>>()
        };
        assert_eq!(whats(&many), ["one starts, other starts"]);
        many.programs = vec![many.programs[0].clone(); 5];
        assert_eq!(whats(&many), ["5 changes at once"]);
    }
}
