//! How fast `plimsoll sim` is, and how much memory it needs: traces of the same live size that grow a
//! hundredfold, and one of many threads and a large live size, under each collector and scheduler.

use crate::harness::folder::Folder;
use crate::harness::ground::Ground;
use crate::harness::job::{self, Conditions, Ending, Job};
use crate::harness::programs::sibling;
use crate::measurement::{About, Measurement};
use crate::report::grouped_bars::GroupedBars;
use crate::report::results::Results;
use crate::report::statistics::{Spread, spread};
use crate::runner::{Runner, Turn, Variant};
use crate::{Error, Result};
use plimsoll_kernel::clock;
use plimsoll_policy::phases::{Quanta, Rule};
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{Settings, Survey, Traced, simulate};
use plimsoll_trace::Trace;
use plimsoll_trace::synth::{self, Options, table};
use plimsoll_unit::float::MIB;
use plimsoll_unit::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

const FAST: &str = "at least 10 million events a second and core";
const FAST_LARGE: &str = "81 threads and 80 MiB live: at least 10 million events a second and core";
const SMALL: &str = "ten and a hundred times the events: at most 1.1 times the resident peak";
const SAME: &str = "the same output each time, to the byte";

/// The programs of the traces, and how long these are in hundredths of the program: 16 million objects of 32
/// threads, 4 MiB live; and 4 million of 81 threads, 80 MiB live. They are not scaled, because quanta would
/// not be.
const PROGRAMS: [(&str, &[u32]); 2] = [("lusearch", &[1, 10, 100]), ("hsqldb", &[IN_FULL])];
/// Hundredths of a whole program.
const IN_FULL: u32 = 100;
/// Size of the heap, as a multiple of the largest live size: enough for collectors that keep halves empty.
const HEAP: u64 = 5;
/// Quantum of the disciplines that count time, nanoseconds. It is short, so there are many switches.
const QUANTUM: u64 = 10_000;
/// Seconds after which a simulation is given up.
const LONGEST: f64 = 1200.0;

/// `sim-speed`.
pub(super) struct SimSpeed;

/// A simulation.
#[derive(Clone, Copy, Debug)]
struct What {
    /// Which of [`PROGRAMS`], and which of its lengths.
    program: usize,
    length: usize,
    collector: Algorithm,
    rule: Rule,
}

/// The figures of one run.
#[derive(Serialize, Deserialize)]
struct Ran {
    events: u64,
    /// The most that was live at once, bytes.
    largest_live: u64,
    /// Events for each second of processor time.
    speed: f64,
    /// Seconds that the whole command took.
    seconds: f64,
    /// Its resident peak, bytes.
    resident: u64,
    /// Checksum (CRC-32) of what it wrote.
    output: u32,
}

impl Measurement for SimSpeed {
    fn about(&self) -> About {
        About {
            name: "sim-speed",
            question: "How fast is plimsoll sim, and what memory does it need?",
            asks: &[FAST, FAST_LARGE, SMALL, SAME],
            minutes: 30,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::on_disk("sim-speed")?;
        let mut traces: BTreeMap<(usize, usize), Made> = BTreeMap::new();
        let ground = Ground::without_swap(runner.name())?;
        let ran = runner.experiment(variants()).wanted().run(|what, turn| {
            let made = match traces.entry((what.program, what.length)) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(none) => {
                    turn.progress.tell(format_args!("its trace is made"));
                    none.insert(Made::new(folder.path(), what)?)
                }
            };
            once(*what, made, &ground, turn)
        })?;
        if let Some(bars) = bars(&ran) {
            runner.plot("", &bars.plot())?;
        }
        Ok(report(&ran, runner))
    }
}

fn variants() -> Vec<(String, What)> {
    let mut variants = Vec::new();
    for (program, (name, lengths)) in PROGRAMS.iter().enumerate() {
        for (length, times) in lengths.iter().enumerate() {
            let trace = match program {
                0 => format!("{times}x"),
                _ => (*name).to_owned(),
            };
            for collector in Algorithm::ALL {
                for rule in Rule::ALL {
                    let name = format!("{trace} {} {}", collector.name(), rule.name());
                    let what = What {
                        program,
                        length,
                        collector,
                        rule,
                    };
                    variants.push((name, what));
                }
            }
        }
    }
    variants
}

/// A trace, and what has to be known of it.
struct Made {
    path: PathBuf,
    trace: Trace,
    survey: Survey,
}

impl Made {
    fn new(folder: &Path, what: &What) -> Result<Made> {
        let (name, lengths) = PROGRAMS[what.program];
        let program = table::find(name)
            .ok_or_else(|| Error::program(name, "no program of the table has this name"))?;
        let times = lengths[what.length];
        let options = Options {
            scale: 1.0,
            shorten: f64::from(IN_FULL / times),
            seed: 1,
        };
        let path = folder.join(format!("{name}-{times}x.plt"));
        let file = File::create(&path).map_err(Error::file("write", &path))?;
        let mut file = synth::write(program, &options, BufWriter::new(file), name)?;
        file.flush().map_err(Error::file("write", &path))?;
        let trace = Trace::open(&path)?;
        let survey = Survey::of(&trace)?;
        Ok(Made {
            path,
            trace,
            survey,
        })
    }
}

/// Simulates within this process for the speed, then as a command for memory and output.
fn once(what: What, made: &Made, ground: &Ground, turn: &Turn<'_>) -> Result<Ran> {
    turn.progress.tell(format_args!("speed"));
    let settings = Settings {
        quanta: Quanta {
            time: Nanos(QUANTUM),
            ..Quanta::PAPER
        },
        ..Settings::new(
            what.rule,
            what.collector,
            Bytes(HEAP * made.survey.largest_live),
        )
    };
    let before = clock::thread_cpu().0;
    let outcome = simulate(&mut Traced::new(&made.trace, &made.survey, 1.0), &settings)?;
    let seconds = (clock::thread_cpu().0 - before) as f64 / 1e9;
    let job = Job {
        command: vec![
            sibling("plimsoll").display().to_string(),
            "sim".to_owned(),
            made.path.display().to_string(),
            format!("--scheduler={}", what.rule.name().to_lowercase()),
            format!("--collector={}", what.collector.name().to_lowercase()),
            format!("--heap={HEAP}"),
            format!("--quantum={}us", QUANTUM / 1000),
            "--json".to_owned(),
        ],
        ..Job::default()
    };
    let conditions = Conditions {
        longest: LONGEST,
        ..Conditions::default()
    };
    let ended = job::run(ground, &[job], &conditions, &turn.progress)?.remove(0);
    if ended.ending != Ending::Finished {
        return Err(Error::program(
            "plimsoll sim",
            format!("{:?}", ended.ending),
        ));
    }
    Ok(Ran {
        events: outcome.events,
        largest_live: outcome.largest_live,
        speed: outcome.events as f64 / seconds.max(1e-9),
        seconds: ended.seconds,
        resident: ended.resident,
        output: ended.printed,
    })
}

/// The spread of a value over all runs of a variant.
fn of(ran: &Variant<What, Ran>, value: impl Fn(&Ran) -> f64) -> Spread {
    spread(&ran.outcomes.iter().map(value).collect::<Vec<_>>())
}

fn report(ran: &[Variant<What, Ran>], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Speed and memory of plimsoll sim on traces of the same live size, and on one of a large one.",
            "Made-up traces of lusearch: 32 threads, 4 MiB live; and one of hsqldb: 81 threads, 80 MiB \
             live. A heap of five times that, a quantum of 10 µs. Largest live: what lived at once under \
             the scheduler. Speed: events by the processor time of a simulation within the \
             measuring program, which reads the trace. Time and resident peak are those of \
             `plimsoll sim`, which reads it once more before.",
        )
        .columns(&[
            ("program", ""),
            ("trace", "million events"),
            ("collector", ""),
            ("scheduler", ""),
            ("speed", "million events/s"),
            ("slowest", "million events/s"),
            ("time", "s"),
            ("largest live", "MiB"),
            ("resident peak", "MiB"),
        ]);
    for one in ran {
        let speed = of(one, |it| it.speed / 1e6);
        results.row([
            PROGRAMS[one.what.program].0.into(),
            of(one, |it| it.events as f64 / 1e6).median.into(),
            one.what.collector.name().into(),
            one.what.rule.name().into(),
            speed.median.into(),
            speed.min.into(),
            of(one, |it| it.seconds).median.into(),
            of(one, |it| it.largest_live as f64 / MIB).median.into(),
            of(one, |it| it.resident as f64 / MIB).median.into(),
        ]);
    }
    judge(ran, &mut results);
    results
}

/// The speed on the longest trace of the first program that was run: collectors with their schedulers.
fn bars(ran: &[Variant<What, Ran>]) -> Option<GroupedBars> {
    let first = ran.iter().filter(|one| one.what.program == 0);
    let longest = first.map(|one| one.what.length).max()?;
    let speed = |collector: Algorithm, rule: Rule| {
        let what = |one: &What| (one.program, one.length, one.collector, one.rule);
        let found = ran
            .iter()
            .find(|one| what(&one.what) == (0, longest, collector, rule));
        found.map_or(0.0, |one| of(one, |it| it.speed / 1e6).median)
    };
    let group = |collector: Algorithm| {
        let lengths = Rule::ALL.map(|rule| speed(collector, rule));
        (collector.name().to_owned(), lengths.to_vec())
    };
    let (name, lengths) = PROGRAMS[0];
    Some(GroupedBars {
        title: format!("Speed of plimsoll sim on a made-up {name}"),
        note: format!("{} % of the program, one core", lengths[longest]),
        unit: "million events a second".to_owned(),
        across: "collectors".to_owned(),
        names: Rule::ALL.map(|rule| rule.name().to_owned()).to_vec(),
        groups: Algorithm::ALL.map(group).to_vec(),
        top: 10.0,
    })
}

fn judge(ran: &[Variant<What, Ran>], results: &mut Results) {
    for (program, claim) in [FAST, FAST_LARGE].into_iter().enumerate() {
        let its = ran.iter().filter(|one| one.what.program == program);
        let speeds = its.map(|one| of(one, |it| it.speed / 1e6).median);
        let slowest = speeds.reduce(f64::min);
        let said = slowest.map_or("none was run".to_owned(), |it| {
            format!("{it:.1} million at least")
        });
        results.target(claim, said, slowest.map(|it| it >= 10.0));
    }
    let growth = growths(ran).into_iter().reduce(f64::max);
    let said = growth.map_or("no pair was run".to_owned(), |it| format!("{it:.2} times"));
    results.target(SMALL, said, growth.map(|it| it <= 1.1));
    let differ = ran.iter().filter(|one| {
        let mut outputs = one.outcomes.iter().map(|it| &it.output);
        let first = outputs.next();
        outputs.any(|output| Some(output) != first)
    });
    let differ = differ.count();
    let said = format!("{differ} of {} differ", ran.len());
    results.target(SAME, said, differ == 0);
}

/// The resident peak of each longer trace by that of the shortest, for each collector and scheduler.
fn growths(ran: &[Variant<What, Ran>]) -> Vec<f64> {
    let peak = |one: &Variant<What, Ran>| of(one, |it| it.resident as f64).median;
    let longer = ran.iter().filter(|one| one.what.length > 0);
    longer
        .filter_map(|longer| {
            let shortest = ran.iter().find(|one| {
                one.what.length == 0
                    && one.what.program == longer.what.program
                    && one.what.collector == longer.what.collector
                    && one.what.rule == longer.what.rule
            });
            Some(peak(longer) / peak(shortest?).max(1.0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(length: usize, residents: &[u64]) -> Variant<What, Ran> {
        let ran = |&resident: &u64| Ran {
            events: 1000,
            largest_live: 1,
            speed: 2e7,
            seconds: 1.0,
            resident,
            output: length as u32,
        };
        Variant {
            name: String::new(),
            what: What {
                program: 0,
                length,
                collector: Algorithm::G1,
                rule: Rule::Larf,
            },
            outcomes: residents.iter().map(ran).collect(),
        }
    }

    #[test]
    fn growth_is_that_of_the_median_from_the_shortest() {
        let ran = [
            variant(1, &[105, 106, 1]),
            variant(0, &[100, 90, 500]),
            variant(2, &[90]),
        ];
        assert_eq!(growths(&ran), [1.05, 0.9]);
        assert!(growths(&ran[..1]).is_empty());
        assert_eq!(variants().len(), (3 + 1) * 6 * 3);
    }

    #[test]
    fn the_picture_is_of_the_longest_trace() {
        let bars = bars(&[variant(0, &[1]), variant(2, &[2])]).unwrap();
        assert_eq!((bars.groups.len(), bars.names.len()), (6, 3));
        let of_g1 = bars.groups.iter().find(|(name, _)| name == "G1").unwrap();
        assert_eq!(of_g1.1, [0.0, 20.0, 0.0]);
        assert!(bars.note.starts_with("100 %"));
        assert!(super::bars(&[]).is_none());
    }

    #[test]
    fn outputs_that_differ_are_seen() {
        let judged = |ran: &[Variant<What, Ran>]| -> Vec<Option<bool>> {
            let mut results = Results::new("test", "", "", 1);
            judge(ran, &mut results);
            results.targets.iter().map(|it| it.met).collect()
        };
        let mut ran = [variant(0, &[1, 1]), variant(2, &[2, 2])];
        let all = [Some(true), None, Some(false), Some(true)];
        assert_eq!(judged(&ran), all, "the other program was not run");
        ran[1].outcomes[1].output = 1;
        assert_eq!(judged(&ran)[3], Some(false));
        assert_eq!(judged(&ran[..1])[2], None);
    }
}
