//! `isla-vista-sweep`: the paper's Figure 3. The time of each program at maximum heaps from tight to larger
//! than memory, on one JDK.

use super::program_run::{Case, Rule, Run};
use super::programs::{ALL, Program};
use super::report::{judge, most, shortage, time};
use super::{SLICE, jvms, longest, run_all};
use crate::Result;
use crate::harness::programs::Jvm;
use crate::measurement::{About, Measurement};
use crate::report::plot::Plot;
use crate::report::results::{Cell, Results};
use crate::runner::{Runner, Variant};
use plimsoll_picture::chart::{Kind, Series};

type Ran = Variant<Case, Run>;

const COSTS: &str =
    "at every maximum heap, Isla Vista under pressure: at most 1.5 times the default without";

/// Maximum heaps of each program.
const HEAPS: u32 = 6;
const VERSION: u32 = 17;

/// The lines of a picture: the paper's four.
const LINES: [(&str, bool, Rule); 4] = [
    ("default, enough", false, Rule::Default),
    ("Isla Vista, enough", false, Rule::IslaVista),
    ("default, short", true, Rule::Default),
    ("Isla Vista, short", true, Rule::IslaVista),
];

/// The measurement `isla-vista-sweep`.
pub(crate) struct Sweep;

impl Measurement for Sweep {
    fn about(&self) -> About {
        About {
            name: "isla-vista-sweep",
            question: "From which maximum heap on do Java programs page, and what does Isla Vista do there?",
            asks: &[COSTS],
            minutes: 1000,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ran = run_all(
            runner,
            cases().filter(|case| !runner.slice() || is_in_slice(*case)),
        )?;
        for (program, jvm) in pairs() {
            let mine = |one: &&Ran| one.what.program == program && one.what.jvm == jvm;
            if ran.iter().any(|one| mine(&one)) {
                let collector = jvm.collector.to_lowercase();
                let part = format!("{}-{collector}", program.name);
                let picture = picture((program, jvm), &ran, longest(runner));
                runner.plot(&part, &picture)?;
            }
        }
        Ok(report(&ran, runner))
    }
}

/// Programs and machines: on one JDK, on the collector that is most like the paper's, and on the usual one.
fn pairs() -> impl Iterator<Item = (Program, Jvm)> {
    let chosen = |jvm: &Jvm| jvm.version == VERSION && jvm.collector != "Parallel";
    let machines = jvms().filter(chosen);
    machines.flat_map(|jvm| ALL.map(|program| (program, jvm)))
}

fn cases() -> impl Iterator<Item = Case> {
    let heaps = pairs().flat_map(|(program, jvm)| {
        let heaps = program.heaps(HEAPS);
        heaps.map(move |heap| (program, jvm, heap))
    });
    heaps.flat_map(|(program, jvm, heap)| Case::four(program, jvm, heap))
}

/// The part that fits into an hour: Serial, with memory short.
fn is_in_slice(case: Case) -> bool {
    case.jvm.collector == "Serial" && (case.short || case.rule == Rule::Default)
}

/// A row for each heap.
fn report(ran: &[Ran], runner: &Runner) -> Results {
    let mut method = format!(
        "{} Maximum heaps from tight to 1024 MiB, each larger than the one before by the same factor. Isla \
         Vista with the agent.",
        shortage(longest(runner))
    );
    if runner.slice() {
        method.push_str(&format!(
            " A slice: Serial, without Isla Vista where there is enough, and what fits into {} minutes.",
            SLICE.as_secs() / 60
        ));
    }
    let mut results = runner
        .results(
            "Time of Java programs against their maximum heap, as in the paper's Figure 3.",
            &method,
        )
        .columns(&[
            ("program", ""),
            ("maximum heap", "MiB"),
            ("default, enough", "s"),
            ("Isla Vista, enough", "s"),
            ("default, short", "s"),
            ("Isla Vista, short", "s"),
            ("unfinished (killed): default, Isla Vista", ""),
        ]);
    results.repetitions = ran.iter().map(|one| one.outcomes.len()).min().unwrap_or(0);
    let mut costs = Vec::new();
    for first in cases().filter(|case| !case.short && case.rule == Rule::Default) {
        let times = LINES.map(|(_, short, rule)| time(ran, first.like(short, rule)));
        if times.iter().all(Option::is_none) {
            continue;
        }
        costs.extend(times[3].zip(times[0]).map(|(ours, plain)| ours / plain));
        let [a, b, c, d] = times.map(|time| time.map_or_else(|| "-".into(), Cell::from));
        let unfinished = [Rule::Default, Rule::IslaVista].map(|rule| unfinished(ran, first, rule));
        results.row([
            format!("{} {}", first.program.name, first.jvm.name()).into(),
            first.heap.into(),
            a,
            b,
            c,
            d,
            unfinished.join(", ").into(),
        ]);
    }
    judge(&mut results, COSTS, most(&costs), |most| most <= 1.5);
    results
}

/// How many runs of a heap under a rule, with memory short, did not finish, and were killed.
fn unfinished(ran: &[Ran], first: Case, rule: Rule) -> String {
    let case = first.like(true, rule);
    let found = ran.iter().filter(|variant| variant.what == case);
    let runs: Vec<&Run> = found.flat_map(|variant| &variant.outcomes).collect();
    let count = |is: fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
    format!(
        "{} ({})",
        count(|run| !run.finished),
        count(|run| run.killed)
    )
}

/// Time against the maximum heap.
fn picture((program, jvm): (Program, Jvm), ran: &[Ran], longest: f64) -> Plot {
    let line = |(index, (name, short, rule)): (usize, (&str, bool, Rule))| {
        let point = |heap: u64| {
            let [first, ..] = Case::four(program, jvm, heap);
            Some((heap as f64, time(ran, first.like(short, rule))?))
        };
        Series {
            name: name.to_owned(),
            points: program.heaps(HEAPS).filter_map(point).collect(),
            // The same colour for a rule, with enough memory and without.
            colour: index % 2,
            kind: if short { Kind::Line } else { Kind::Dashed },
            ..Series::default()
        }
    };
    let rooms = ran
        .iter()
        .filter(|one| (one.what.program, one.what.jvm) == (program, jvm));
    let room = rooms.flat_map(|one| &one.outcomes).find_map(|run| run.room);
    let note = room.map(|room| {
        format!(
            "short: {} MiB of memory for all of the program; what did not finish counts as {longest:.0} s",
            room >> 20
        )
    });
    Plot {
        title: format!("{}, {}", program.name, jvm.name()),
        note: note.unwrap_or_default(),
        unit: "seconds".to_owned(),
        across: "maximum heap, MiB".to_owned(),
        series: LINES
            .into_iter()
            .enumerate()
            .map(line)
            .filter(|series| !series.points.is_empty())
            .collect(),
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_six_heaps_of_four_runs_on_two_collectors() {
        assert_eq!(cases().count(), ALL.len() * 2 * HEAPS as usize * 4);
        let slice = cases().filter(|case| is_in_slice(*case));
        assert_eq!(slice.count(), ALL.len() * HEAPS as usize * 3);
    }

    #[test]
    fn a_picture_has_the_papers_four_lines() {
        let (program, jvm) = pairs().next().expect("there are some");
        let ran: Vec<Ran> = cases()
            .filter(|case| case.program == program && case.jvm == jvm)
            .map(|case| Variant {
                name: case.name(),
                what: case,
                outcomes: vec![Run {
                    seconds: case.heap as f64,
                    room: case.short.then_some(300 << 20),
                    ..Run::default()
                }],
            })
            .collect();
        let plot = picture((program, jvm), &ran, 90.0);
        assert_eq!(plot.series.len(), LINES.len());
        assert!(
            plot.series
                .iter()
                .all(|line| line.points.len() == HEAPS as usize)
        );
        assert!(plot.note.contains("300 MiB"));
    }
}
