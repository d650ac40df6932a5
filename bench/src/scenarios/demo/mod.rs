//! The main job, to be looked at: three real programs share 1500 MB by weight, a hog comes and
//! goes. Then the same without a broker, in turn with it and twice, because a machine can be twice
//! as fast from one minute to the next.

mod compare;

use crate::harness::follow::follow;
use crate::harness::ground::Ground;
use crate::harness::interrupt;
use crate::harness::programs::{adapter, hog_that_leaves, sibling, trio};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::page::Page;
use crate::report::plot::Plot;
use crate::report::results::{commit, root};
use compare::Runs;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the three programs share, and the hog takes from, bytes.
const BUDGET: u64 = 1500 << 20;
const HOG: u64 = BUDGET / 2;
/// Bytes per second that the hog takes, and gives back.
const RATE: u64 = 100_000_000;
/// Seconds between the starts of two programs, until the hog comes, that it keeps what it took, and of a run.
const APART: f64 = 15.0;
const HOG_START: f64 = 50.0;
const HOLD: f64 = 15.0;
const SECONDS: f64 = 90.0;

/// Runs the demo and writes the report; when it is to be recorded, the table and the plot into
/// `bench/results` too.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn run_demo(record: bool) -> Result<(), String> {
    let folder = root().join("bench/out/demo");
    let _ = std::fs::remove_dir_all(&folder);
    let (shared, fixed) = (scenario(false), scenario(true));
    println!(
        "Three programs with weights 10, 40 and 20 share 1500 MB; they start {APART} s apart. At \
         {HOG_START} s a hog takes half of it."
    );
    println!(
        "The same as: plimsoll run -f {}\n",
        file_of(&folder.join("1")).display()
    );
    let ground = Ground::new("demo")
        .inspect_err(|e| eprintln!("{e}; going on without"))
        .ok();
    let mut runs = Runs::default();
    runs.shared
        .push(with_broker(&folder.join("1"), &shared, true)?);
    let path = folder.join("report.html");
    save(&path, &report(&shared, &fixed, &runs).html())?;
    if let Some(ground) = &ground {
        println!(
            "\nThe report, with plots: {}\nNow the same without a broker, twice, where every heap has a \
             fixed size, its share of \
             the 1500 MB; and once more with one: {} min. Ctrl-C ends it; the report of the first run is \
             there.\n",
            path.display(),
            (SECONDS * 3.0 / 60.0).ceil()
        );
        let bare = |label: &str| run(ground, &fixed, Conditions::Bare, label);
        runs.fixed.push(bare("fixed sizes")?);
        runs.fixed.push(bare("fixed sizes, again")?);
        runs.shared
            .push(with_broker(&folder.join("2"), &shared, false)?);
    }
    let results = runs.table(&shared);
    save(&path, &report(&shared, &fixed, &runs).html())?;
    for row in results.cells() {
        let cells = row[1..].iter().map(|cell| format!("{cell:>11}"));
        println!("{:34}{}", row[0], cells.collect::<String>());
    }
    for target in &results.targets {
        println!(
            "{}: {} ({})",
            target.claim,
            target.measured,
            target.verdict().trim_matches('*')
        );
    }
    if record {
        picture(&shared, &runs.shared[0]).record("demo")?;
        results.save().map_err(|e| e.to_string())?;
    }
    println!("\nThe report, with plots: {}", path.display());
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn file_of(folder: &Path) -> std::path::PathBuf {
    folder.join("programs.toml")
}

/// One run with a broker, its files in `folder`. The first is `shown` on a live screen where there
/// is a terminal.
fn with_broker(folder: &Path, scenario: &Scenario, shown: bool) -> Result<Trace, String> {
    std::fs::create_dir_all(folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let (file, socket) = (file_of(folder), folder.join("broker.sock"));
    save(&file, &programs_toml(scenario))?;
    let mut command = Command::new(sibling("plimsoll"));
    command.arg("--socket").arg(&socket);
    command.args(["run", "--file"]).arg(&file).arg("--record");
    command
        .arg(folder.join("record.jsonl"))
        .args(["--interval", "200"]);
    let live = shown && std::io::stdout().is_terminal();
    if live {
        command.arg("--top");
    } else {
        command.stdin(Stdio::null());
    }
    let child = command
        .spawn()
        .map_err(|e| format!("cannot start plimsoll: {e}"))?;
    let mut next = 0.0;
    let trace = follow(child, &socket, folder, scenario, |now| {
        if !live && now >= next {
            next += 5.0;
            eprint!("\rwith the broker: {now:.0} of {SECONDS:.0} s   ");
        }
    });
    if !live {
        eprint!("\r{:60}\r", "");
    }
    interrupt::check()?;
    Ok(trace)
}

fn scenario(fixed: bool) -> Scenario {
    let mut programs = trio(fixed.then_some(BUDGET));
    for (index, program) in programs.iter_mut().enumerate() {
        program.start = APART * index as f64;
    }
    programs.push(Program {
        name: "hog".to_owned(),
        start: HOG_START,
        command: hog_that_leaves(HOG, RATE, HOLD),
        outsider: true,
        ..Program::default()
    });
    Scenario {
        budget: BUDGET,
        seconds: SECONDS,
        programs,
        ..Scenario::default()
    }
}

/// What a user would write by hand.
fn programs_toml(scenario: &Scenario) -> String {
    let mut text = "name = \"demo\"\nbudget = \"1500M\"\n".to_owned();
    for program in &scenario.programs {
        let kind = if program.outsider {
            "outsider"
        } else {
            "program"
        };
        let command: Vec<String> = program
            .command
            .iter()
            .map(|word| format!("{word:?}"))
            .collect();
        let _ = write!(
            text,
            "\n[[{kind}]]\nname = {:?}\ncommand = [{}]\n",
            program.name,
            command.join(", ")
        );
        if !program.outsider {
            let _ = writeln!(text, "weight = {}", program.weight);
            let _ = writeln!(text, "adapter = {:?}", adapter(&program.command));
        }
        let _ = writeln!(
            text,
            "start = \"{:.0}s\"\nstop = \"{:.0}s\"",
            program.start,
            scenario.seconds - 2.0
        );
        let _ = writeln!(
            text,
            "stdout = \"{0}.out\"\nstderr = \"{0}.err\"",
            program.name
        );
    }
    text
}

/// The README's picture: understood without the text around it.
fn picture(scenario: &Scenario, trace: &Trace) -> Plot {
    let title = "Three programs share 1500 MB by weight; a hog takes half of it and gives it back";
    let mut plot = super::plot(title, scenario, trace);
    plot.series.retain(|series| series.name != "in swap");
    for series in &mut plot.series {
        series.note = match scenario.programs.iter().find(|p| p.name == series.name) {
            Some(program) if program.outsider => "not steered".to_owned(),
            Some(program) => format!("weight {}", program.weight),
            None => continue,
        };
    }
    Plot {
        note: "Dashed: the share by weight. What one program does not want, the others may use"
            .to_owned(),
        unit: "megabytes".to_owned(),
        events: Vec::new(),
        ..plot
    }
}

fn report(shared: &Scenario, fixed: &Scenario, runs: &Runs) -> Page {
    let mut page = Page::new("Plimsoll: three programs, one budget");
    page.text(&format!(
        "Three unmodified programs share 1500 MB by weight 10, 40 and 20: a Guile program, Lucene's \
         benchmark on JDK 17 with G1, and the same on \
         JDK 25 with the Serial collector. They start {APART} s apart. At {HOG_START} s an unrelated \
         program takes half of the memory at 100 MB/s, \
         locks it, keeps it for {HOLD} s and gives it back at the same rate.",
    ));
    for trace in &runs.shared {
        let title = "Memory, with the broker";
        page.heading("With the broker")
            .picture(&super::plot(title, shared, trace).svg());
    }
    for trace in &runs.fixed {
        let title = "Memory, fixed heap sizes, no broker";
        page.heading("Without")
            .picture(&super::plot(title, fixed, trace).svg());
    }
    let results = runs.table(shared);
    page.heading("Side by side").table(&results.cells());
    page.note(&format!("{} At commit {}.", results.method, commit()));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_toml_with_three_programs_and_a_hog() {
        let text = programs_toml(&scenario(false));
        let value: toml::Table = text.parse().unwrap();
        assert_eq!(value["program"].as_array().unwrap().len(), 3);
        assert_eq!(value["outsider"].as_array().unwrap().len(), 1);
    }
}
