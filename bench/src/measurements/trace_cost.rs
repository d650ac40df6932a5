//! How much longer Java programs take while `plimsoll trace` records them, and how complete the traces are.

use crate::harness::folder::Folder;
use crate::harness::interrupt;
use crate::harness::java::Classes;
use crate::harness::programs::{Jvm, cache, sibling};
use crate::measurement::{About, Measurement};
use crate::report::grouped_bars::GroupedBars;
use crate::report::results::{Cell, Results, number, root};
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_kernel::clock;
use plimsoll_testbed::children::end_with_us;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

const LIGHT: &str = "*, sampled: at most 10 times as long";
const COMPLETE: &str = "*: bytes in the trace within 0.1 % of what the machine counts";
const JVMS: [Jvm; 3] = [
    Jvm {
        version: 17,
        collector: "G1",
    },
    Jvm {
        version: 21,
        collector: "Parallel",
    },
    Jvm {
        version: 25,
        collector: "Serial",
    },
];
/// The programs. Each takes a second or two by itself.
const PROGRAMS: [&str; 3] = ["orders", "bank", "lucene"];
/// The only program on Java 21: one is enough to compare it with the others.
const ONCE: (&str, u32) = ("orders", 21);
/// By what programs are divided for `--slice`.
const SLICE: u32 = 10;
/// Lucene's algorithm, and the number in it that says how much each thread does.
const ALGORITHM: &str = "bench/programs/traced/index.alg";
const ROUNDS: &str = ": 100 ]";

/// `trace-cost`.
pub(super) struct TraceCost;

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Sampled,
    Exact,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Plain => "by itself",
            Mode::Sampled => "sampled",
            Mode::Exact => "exact",
        }
    }
}

/// A program, on a machine, in a mode.
type What = (&'static str, Jvm, Mode);

/// The cost of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Took {
    /// Seconds from the start of `java` to its end.
    time: f64,
    /// Seconds of all processors.
    processors: f64,
    /// The recording, if there is one.
    recorded: Option<Recorded>,
}

/// Figures of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Recorded {
    /// Objects in the trace, millions.
    objects: f64,
    /// By how much bytes in the trace differ from those that the machine counts, percent.
    apart: f64,
    /// Seconds in which deaths were found afterwards.
    deaths: f64,
    /// Size of the trace, MiB.
    size: f64,
}

impl Measurement for TraceCost {
    fn about(&self) -> About {
        About {
            name: "trace-cost",
            question: "How much longer do Java programs take while plimsoll trace records them?",
            asks: &[LIGHT, COMPLETE],
            minutes: 45,
            only: true,
            slice: true,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = Folder::on_disk("trace-cost")?;
        let orders = Classes::for_version(17, "bench/programs/traced/Orders.java", "")?;
        let bank = Classes::for_version(17, "bench/programs/traced/Bank.java", "")?;
        let divisor = if runner.slice() { SLICE } else { 1 };
        let algorithm = lucene(folder.path(), divisor)?;
        let arguments = |program: &str| match program {
            "orders" => program_of(&orders, "", "Orders", &[8, 30_000 / divisor]),
            "bank" => program_of(&bank, "traced/*", "Bank", &[8, 2_000 / divisor, 1_000]),
            _ => [
                "-cp",
                &cache("lucene/*"),
                "org.apache.lucene.benchmark.byTask.Benchmark",
                &algorithm,
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        let ran = runner
            .experiment(variants())
            .wanted()
            .rotating(|(program, jvm, _)| (*program, jvm.version))
            .by_group()
            .run(|(program, jvm, mode), _| {
                interrupt::check()?;
                let mut java = vec![jvm.java()];
                java.extend(jvm.choice());
                java.push("-Xmx512m".into());
                java.extend(arguments(program));
                once(folder.path(), &java, *mode)
            })?;
        runner.plot("", &bars(&ran).plot())?;
        Ok(report(&ran, runner))
    }
}

fn variants() -> Vec<(String, What)> {
    let modes = [Mode::Plain, Mode::Sampled, Mode::Exact];
    let pairs = PROGRAMS
        .iter()
        .flat_map(|program| JVMS.map(|jvm| (*program, jvm)))
        .filter(|(program, jvm)| jvm.version != ONCE.1 || *program == ONCE.0);
    let all = pairs.flat_map(|(program, jvm)| modes.map(|mode| (program, jvm, mode)));
    all.map(|what| (format!("{}, {}", of(&what), what.2.name()), what))
        .collect()
}

/// The program and its machine.
fn of((program, jvm, _): &What) -> String {
    format!("{program}, {}", jvm.name())
}

/// The arguments of `java` for a program of ours with libraries from `.cache`.
fn program_of(classes: &Classes, libraries: &str, name: &str, numbers: &[u32]) -> Vec<String> {
    let path = format!("{}:{}", classes.folder().display(), cache(libraries));
    let words = ["-cp".to_owned(), path, name.to_owned()];
    words
        .into_iter()
        .chain(numbers.iter().map(u32::to_string))
        .collect()
}

/// Writes Lucene's algorithm, made as long as it has to be. Returns its path.
fn lucene(folder: &Path, divisor: u32) -> Result<String> {
    let source = root().join(ALGORITHM);
    let text = std::fs::read_to_string(&source).map_err(Error::file("read", &source))?;
    if !text.contains(ROUNDS) {
        let why = format!("it has no `{ROUNDS}`");
        return Err(Error::program(ALGORITHM, why));
    }
    let path = folder.join("index.alg");
    let text = text.replace(ROUNDS, &format!(": {} ]", 200 / divisor));
    std::fs::write(&path, text).map_err(Error::file("write", &path))?;
    Ok(path.display().to_string())
}

fn once(folder: &Path, java: &[String], mode: Mode) -> Result<Took> {
    let trace = folder.join("trace.plt");
    let mut command = match mode {
        Mode::Plain => Command::new(&java[0]),
        _ => {
            let mut command = Command::new(sibling("plimsoll"));
            command.args(["trace", "-o"]).arg(&trace);
            command.args((mode == Mode::Sampled).then_some("--sampled"));
            command.args(["--", &java[0]]);
            command
        }
    };
    command.args(&java[1..]).current_dir(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    end_with_us(&mut command);
    let (begin, before) = (clock::now().0, clock::children_cpu().0);
    let output = command.output().map_err(Error::start(&command))?;
    let [time, processors] = [
        clock::now().0 - begin,
        clock::children_cpu().0.saturating_sub(before),
    ]
    .map(|time| time as f64 / 1e9);
    let said = String::from_utf8_lossy(&output.stderr);
    let fault = || Error::program(format!("{command:?}"), format!("{}: {said}", output.status));
    if !output.status.success() {
        return Err(fault());
    }
    if mode == Mode::Plain {
        return Ok(Took {
            time,
            processors,
            recorded: None,
        });
    }
    let mut took = Took::read(&said).ok_or_else(fault)?;
    let size = std::fs::metadata(&trace)
        .map_err(Error::file("read", &trace))?
        .len();
    if let Some(recorded) = &mut took.recorded {
        recorded.size = size as f64 / plimsoll_unit::float::MIB;
    }
    Ok(took)
}

impl Took {
    /// From what `plimsoll trace` says. The size of the trace is not in there.
    fn read(said: &str) -> Option<Took> {
        let after = |words: &str| -> Option<f64> {
            let rest = said.split_once(words)?.1;
            rest.split(' ').next()?.parse().ok()
        };
        let objects = said.split_once(" objects, ")?.0.rsplit(' ').next()?;
        Some(Took {
            time: after("the program took ")?,
            processors: after(" s (")?,
            recorded: Some(Recorded {
                objects: objects.parse::<f64>().ok()? / 1e6,
                apart: after("allocated meanwhile: ")?,
                deaths: after("finding deaths took ")?,
                size: 0.0,
            }),
        })
    }
}

type Ran = Variant<What, Took>;

/// A value of each run by that of the run beside it of the program by itself.
fn ratio(variant: &Ran, ran: &[Ran], value: impl Fn(&Took) -> f64) -> f64 {
    let (program, jvm, _) = variant.what;
    let plain = ran
        .iter()
        .find(|other| other.what == (program, jvm, Mode::Plain));
    let plain = plain
        .map(|plain| plain.outcomes.as_slice())
        .unwrap_or_default();
    let pairs = variant.outcomes.iter().zip(plain);
    spread(
        &pairs
            .map(|(one, plain)| value(one) / value(plain))
            .collect::<Vec<_>>(),
    )
    .median
}

fn report(ran: &[Ran], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Java programs by themselves, and recorded.",
            "`orders`: eight warehouses of an order system, 30,000 transactions each; `bank`: eight \
             clients of a database in memory, 2,000 transfers each; `lucene`: 32 threads index 200 \
             documents each. The heap has at most 512 MiB. Time is from the start of `java` to its end, with \
             that of its start; deaths are found afterwards. Ratios are medians of those to the run by \
             itself in the same round.",
        )
        .columns(&[
            ("program", ""),
            ("recorded", ""),
            ("time", "s"),
            ("by that by itself", ""),
            ("of processors", "s"),
            ("by that by itself", ""),
            ("objects", "millions"),
            ("seen less than counted", "%"),
            ("trace", "MiB"),
            ("finding deaths", "s"),
        ]);
    for variant in ran {
        let median = |value: &dyn Fn(&Took) -> f64| {
            spread(&variant.outcomes.iter().map(value).collect::<Vec<_>>()).median
        };
        let recorded = |value: fn(&Recorded) -> f64| match variant.what.2 {
            Mode::Plain => Cell::from(""),
            _ => median(&|took| took.recorded.as_ref().map_or(f64::NAN, value)).into(),
        };
        results.row([
            of(&variant.what).into(),
            variant.what.2.name().into(),
            median(&|took| took.time).into(),
            ratio(variant, ran, |took| took.time).into(),
            median(&|took| took.processors).into(),
            ratio(variant, ran, |took| took.processors).into(),
            recorded(|it| it.objects),
            recorded(|it| -it.apart),
            recorded(|it| it.size),
            recorded(|it| it.deaths),
        ]);
    }
    judge(ran, &mut results);
    results
}

/// Times by those of the programs by themselves: programs and machines with both ways to record them.
fn bars(ran: &[Ran]) -> GroupedBars {
    let modes = [Mode::Sampled, Mode::Exact];
    let plain = ran.iter().filter(|one| one.what.2 == Mode::Plain);
    let group = |plain: &Ran| {
        let (program, jvm, _) = plain.what;
        let length = |mode: Mode| {
            let found = ran.iter().find(|one| one.what == (program, jvm, mode));
            found.map_or(0.0, |one| ratio(one, ran, |took| took.time))
        };
        let name = format!("{program}, {}", jvm.version);
        (name, modes.map(length).to_vec())
    };
    GroupedBars {
        title: "Java programs while they are recorded".to_owned(),
        note: "medians; each program with its version of Java".to_owned(),
        unit: "time, by that by itself".to_owned(),
        across: "programs".to_owned(),
        names: modes.map(|mode| mode.name().to_owned()).to_vec(),
        groups: plain.map(group).collect(),
        top: 10.0,
    }
}

fn judge(ran: &[Ran], results: &mut Results) {
    for variant in ran {
        if variant.what.2 == Mode::Sampled {
            let times = ratio(variant, ran, |took| took.time);
            let claim = LIGHT.replace('*', &of(&variant.what));
            results.target(&claim, number(times), times <= 10.0);
        }
        let apart = variant
            .outcomes
            .iter()
            .filter_map(|took| Some(took.recorded?.apart.abs()));
        if let Some(most) = apart.reduce(f64::max) {
            let claim = COMPLETE.replace('*', &variant.name);
            results.target(&claim, format!("{most:.3} % at the most"), most <= 0.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "plimsoll: t.plt: 1500000 objects, 22539504 bytes (21.5M), of which at most 6.41M \
        lived at one time; 573882 died\n\
        plimsoll: the Java virtual machine counts 22542680 bytes allocated meanwhile: -0.014 %\n\
        plimsoll: the program took 12.50 s (20.25 s of processors), and finding deaths took 3.00 s more\n";

    #[test]
    fn what_a_recording_says_is_read() {
        let took = Took::read(SAID).unwrap();
        let recorded = Recorded {
            objects: 1.5,
            apart: -0.014,
            deaths: 3.0,
            size: 0.0,
        };
        assert_eq!((took.time, took.processors), (12.5, 20.25));
        assert_eq!(took.recorded, Some(recorded));
        assert_eq!(Took::read("plimsoll: nothing was recorded"), None);
    }

    #[test]
    fn runs_are_compared_with_those_by_themselves() {
        let variant = |mode, times: [f64; 2]| Variant {
            name: String::new(),
            what: (PROGRAMS[0], JVMS[0], mode),
            outcomes: times
                .map(|time| Took {
                    time,
                    ..Took::default()
                })
                .to_vec(),
        };
        let ran = [
            variant(Mode::Plain, [1.0, 2.0]),
            variant(Mode::Exact, [10.0, 30.0]),
        ];
        assert_eq!(ratio(&ran[1], &ran, |took| took.time), 12.5);
        let bars = bars(&ran);
        assert_eq!(bars.groups, [("orders, 17".to_owned(), vec![0.0, 12.5])]);
    }
}
