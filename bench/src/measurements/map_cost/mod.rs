//! Cost of a look of `plimsoll map`, and its effect on the program that it looks at.

mod idle_holder;

use crate::harness::ground::Ground;
use crate::harness::java::{Classes, read_ahead};
use crate::harness::programs::JVMS;
use crate::harness::programs::{Jvm, made, sibling};
use crate::measurement::{About, Measurement};
use crate::report::bars::Bars;
use crate::report::results::{Cell, Results, Table};
use crate::report::statistics::spread;
use crate::runner::{Runner, Turn, Variant};
use crate::{Error, Result};
use idle_holder::{Held, State};
use plimsoll_kernel::clock;
use plimsoll_map::{Look, LookError, Options, Watch, look};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of the programs' heaps.
const SIZE: u64 = 2 << 30;
/// Bytes that are put into swap before the looks.
const SWAPPED: u64 = SIZE / 8;
/// Looks at a program that was started once, of each way to look.
const LOOKS: usize = 5;

/// The most that a look at a JVM should take, milliseconds.
const MOST: f64 = 100.0;
const SOON: &str = "a JVM of 2 GiB: below 100 ms";
const SMALL: &str = "a JVM of 2 GiB: at most 10 MiB";
const UNTOUCHED: &str = "nothing of any program changes";

/// The Java versions and collectors whose looks are measured.
fn jvms() -> Vec<Jvm> {
    let is_looked_at = |jvm: &Jvm| ["G1", "Serial", "Z"].contains(&jvm.collector);
    JVMS.into_iter().filter(is_looked_at).collect()
}

/// `map-cost`.
pub(super) struct MapCost;

/// The program that is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Program {
    Java(Jvm),
    Go,
    /// Memory and nothing else.
    Plain,
}

/// A program, and whether its memory is in huge pages where it can be.
type Looked = (Program, bool);

/// Medians of the looks at one program, but the most that changed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Cost {
    state: State,
    /// Cost of the whole command: milliseconds, milliseconds of processors, MiB at the most.
    command: [f64; 3],
    /// Cost of the look alone: milliseconds, milliseconds of processors.
    look: [f64; 2],
    /// Cost of the third look of a watch: likewise.
    watch: [f64; 2],
    changed: State,
}

impl Measurement for MapCost {
    fn about(&self) -> About {
        About {
            name: "map-cost",
            question: "What does a look of plimsoll map cost, and what does it do to the program?",
            asks: &[SOON, SMALL, UNTOUCHED],
            minutes: 15,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let ground = Ground::with_swap(runner.name(), 4 * SWAPPED)?;
        let _huge = idle_holder::HugeShared::on();
        let classes = Classes::of("bench/programs/Hold.java")?;
        read_ahead(jvms())?;
        let ran = runner.experiment(variants()).wanted().run(|looked, turn| {
            let command = command(*looked, classes.folder());
            let held = Held::start(&ground, &command, SWAPPED, &turn.progress)?;
            cost(&held, turn)
        })?;
        runner.bars("", &bars(&ran))?;
        Ok(report(&ran, runner))
    }
}

/// Go leaves it to the kernel whether its pages are huge, which is why it has one variant.
fn variants() -> Vec<(String, Looked)> {
    let jvms = jvms()
        .into_iter()
        .map(|jvm| (jvm.name(), Program::Java(jvm)));
    let all = jvms.chain([("Go".into(), Program::Go), ("plain".into(), Program::Plain)]);
    let mut variants = Vec::new();
    for (name, program) in all {
        if program == Program::Go && !Path::new(&made("hold")).exists() {
            continue;
        }
        variants.push((name.clone(), (program, false)));
        if program != Program::Go {
            variants.push((format!("{name}, huge pages"), (program, true)));
        }
    }
    variants
}

fn command((program, huge): Looked, classes: &Path) -> Vec<String> {
    match program {
        Program::Java(jvm) => {
            let mut command = vec![jvm.java()];
            command.extend(jvm.choice());
            command.extend([
                format!("-Xms{}m", SIZE >> 20),
                format!("-Xmx{}m", SIZE >> 20),
                "-XX:+AlwaysPreTouch".to_owned(),
            ]);
            command.extend(huge.then(|| "-XX:+UseTransparentHugePages".to_owned()));
            let classes = classes.display().to_string();
            let live = ((SIZE / 2) >> 20).to_string();
            command.extend(["-cp".to_owned(), classes, "Hold".to_owned(), live]);
            command
        }
        Program::Go => vec![made("hold"), (SIZE >> 20).to_string()],
        Program::Plain => {
            let program = sibling("plimsoll-misbehave").display().to_string();
            let bytes = SIZE.to_string();
            let words = [program, "hog".to_owned(), "--bytes".to_owned(), bytes];
            words
                .into_iter()
                .chain(huge.then(|| "--huge".to_owned()))
                .collect()
        }
    }
}

fn cost(held: &Held, turn: &Turn<'_>) -> Result<Cost> {
    let state = held.state()?;
    let mut commands = Vec::new();
    let mut looks = Vec::new();
    let mut watches = Vec::new();
    let mut changed = State::default();
    for number in 1..=LOOKS {
        turn.progress.tell(format_args!("look {number} of {LOOKS}"));
        commands.push(of_command(held)?);
        changed = changed.most(held.state()?.since(state));
        looks.push(of_look(|| look(held.pid(), &Options::default()))?);
        changed = changed.most(held.state()?.since(state));
        watches.push(of_watch(held)?);
        changed = changed.most(held.state()?.since(state));
    }
    Ok(Cost {
        state,
        command: medians(&commands),
        look: medians(&looks),
        watch: medians(&watches),
        changed,
    })
}

fn medians<const N: usize>(all: &[[f64; N]]) -> [f64; N] {
    std::array::from_fn(|index| {
        let values: Vec<f64> = all.iter().map(|one| one[index]).collect();
        spread(&values).median
    })
}

/// Milliseconds, milliseconds of processors, MiB at the most.
fn of_command(held: &Held) -> Result<[f64; 3]> {
    let mut command = Command::new(made("cost"));
    command
        .arg(sibling("plimsoll"))
        .arg("map")
        .arg(held.pid().to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.output().map_err(Error::start(&command))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let numbers: Vec<f64> = said
        .lines()
        .next_back()
        .map(|line| {
            line.split(' ')
                .filter_map(|word| word.parse().ok())
                .collect()
        })
        .unwrap_or_default();
    match numbers.as_slice() {
        &[wall, processor, peak] if output.status.success() => {
            Ok([wall / 1e6, processor / 1e3, peak / 1024.0])
        }
        _ => Err(Error::program("plimsoll map", said.trim().to_owned())),
    }
}

/// Cost of the third look of a watch, which knows the pages of the two before.
fn of_watch(held: &Held) -> Result<[f64; 2]> {
    let mut watch = Watch::default();
    let mut again = || of_look(|| watch.look(held.pid(), &Options::default()));
    again()?;
    again()?;
    again()
}

/// Milliseconds, milliseconds of processors.
fn of_look(once: impl FnOnce() -> std::result::Result<Look, LookError>) -> Result<[f64; 2]> {
    let processors = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    };
    let (begin, before) = (clock::now().0, processors());
    let looked = once();
    let took = [(clock::now().0 - begin) as f64 / 1e6, processors() - before];
    let look = looked?;
    if look.areas.is_empty() {
        Err(Error::program("plimsoll map", look.notes.join("; ")))
    } else {
        Ok(took)
    }
}

fn report(ran: &[Variant<Looked, Cost>], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Cost of one look of `plimsoll map`, and its changes to the program.",
            "The JVMs have a heap of 2 GiB, half of it live, all of it touched; Go holds 2 GiB of \
             objects, a quarter of them garbage; `plain` is 2 GiB of memory. An eighth of that is put \
             into swap by a limit that is lowered for a moment. Then the program is stopped, so that \
             nothing but the looks can change it. Command: `plimsoll map PID` from its start to its end, \
             and the most memory that it ever had resident. Look: the same without start, arguments and \
             text. Changes: the largest difference after any look, of the program's resident memory, of \
             its swap, and of its major and minor faults.",
        )
        .columns(&[
            ("program", ""),
            ("resident", "MiB"),
            ("in swap", "MiB"),
            ("in huge pages", "MiB"),
            ("command", "ms"),
            ("processors", "ms"),
            ("peak", "MiB"),
            ("look", "ms"),
            ("processors", "ms"),
            ("resident changed", "KiB"),
            ("swap changed", "KiB"),
            ("major faults", ""),
            ("minor faults", ""),
        ]);
    results.tables = vec![watches(ran)];
    let mut worst = [(0.0, ""); 2];
    let mut changed = State::default();
    for variant in ran {
        let (cells, command, all) = row(variant);
        results.row(cells);
        changed = changed.most(all);
        if matches!(variant.what.0, Program::Java(_)) {
            for (worst, value) in worst.iter_mut().zip([command[0], command[2]]) {
                if value > worst.0 {
                    *worst = (value, variant.name.as_str());
                }
            }
        }
    }
    let [(ms, slowest), (mib, largest)] = worst;
    if ms > 0.0 {
        results.target(SOON, format!("{ms:.1} ms ({slowest})"), ms < MOST);
        results.target(SMALL, format!("{mib:.1} MiB ({largest})"), mib <= 10.0);
    }
    let nothing = changed == State::default();
    let found = if nothing {
        "nothing".to_owned()
    } else {
        format!(
            "{} KiB resident, {} KiB of swap, {} faults",
            changed.resident >> 10,
            changed.swapped >> 10,
            changed.major + changed.minor
        )
    };
    results.target(UNTOUCHED, found, nothing);
    results
}

/// The third look of a watch at each program.
fn watches(ran: &[Variant<Looked, Cost>]) -> Table {
    let title = "The third look of a watch, which also compares with the looks before:";
    let columns = [("program", ""), ("look", "ms"), ("processors", "ms")];
    let mut table = Table::new(title, &columns);
    for variant in ran {
        let of = |index: usize| median(variant, &|cost| cost.watch[index]);
        let cells = [variant.name.as_str().into(), of(0).into(), of(1).into()];
        table.rows.push(cells.into());
    }
    table
}

/// The time of the command at each program, and the most that it should take.
fn bars(ran: &[Variant<Looked, Cost>]) -> Bars {
    let bar = |variant: &Variant<Looked, Cost>| {
        let command = median(variant, &|cost| cost.command[0]);
        (variant.name.clone(), command)
    };
    Bars {
        title: "Time of one look of plimsoll map".to_owned(),
        unit: "milliseconds, from the start of the command to its end".to_owned(),
        limit: MOST,
        bars: ran.iter().map(bar).collect(),
    }
}

fn median(variant: &Variant<Looked, Cost>, value: &dyn Fn(&Cost) -> f64) -> f64 {
    let values: Vec<f64> = variant.outcomes.iter().map(value).collect();
    spread(&values).median
}

/// The cells of a variant, its command's medians, and the most that changed.
fn row(variant: &Variant<Looked, Cost>) -> ([Cell; 13], [f64; 3], State) {
    use plimsoll_unit::float::MIB;
    let of = |value: &dyn Fn(&Cost) -> f64| median(variant, value);
    let command = [0, 1, 2].map(|index| of(&|cost| cost.command[index]));
    let looks = variant.outcomes.iter().map(|cost| cost.changed);
    let changed = looks.fold(State::default(), State::most);
    let cells = [
        variant.name.as_str().into(),
        (of(&|cost| cost.state.resident as f64) / MIB)
            .round()
            .into(),
        (of(&|cost| cost.state.swapped as f64) / MIB).round().into(),
        (of(&|cost| cost.state.huge as f64) / MIB).round().into(),
        command[0].into(),
        command[1].into(),
        command[2].into(),
        of(&|cost| cost.look[0]).into(),
        of(&|cost| cost.look[1]).into(),
        (changed.resident >> 10).into(),
        (changed.swapped >> 10).into(),
        changed.major.into(),
        changed.minor.into(),
    ];
    (cells, command, changed)
}
