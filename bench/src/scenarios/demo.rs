//! The main job, to be looked at: three real programs share 1500 MB by weight, a hog comes and goes; then the same without a broker.

use crate::harness::follow::follow;
use crate::harness::ground::Ground;
use crate::harness::programs::{hog_that_leaves, sibling, trio};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::page::Page;
use crate::report::results::{commit, number, root};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

const BUDGET: u64 = 1500 << 20;
const HOG: u64 = BUDGET / 2;
const RATE: u64 = 100_000_000;
const HOG_START: f64 = 70.0;
const HOLD: f64 = 20.0;
const SECONDS: f64 = 120.0;

/// Runs the demo and writes the report.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn run_demo() -> Result<(), String> {
    let folder = root().join("bench/out/demo");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let file = folder.join("programs.toml");
    let scenario = scenario(false);
    std::fs::write(&file, programs_toml(&scenario))
        .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    println!(
        "Three programs with weights 10, 40 and 20 share 1500 MB; they start 20 s apart. At {HOG_START} s a hog takes half of it."
    );
    println!("The same as: plimsoll run -f {}\n", file.display());
    let ground = Ground::new("demo")
        .inspect_err(|e| eprintln!("{e}; going on without"))
        .ok();
    let shared = with_broker(&folder, &file, &scenario)?;
    let contrast = self::scenario(true);
    let alone = match &ground {
        Some(ground) => {
            println!(
                "\nNow the same without a broker: every heap has a fixed size, its share of the 1500 MB.\n"
            );
            Some(run(
                ground,
                &contrast,
                Conditions::Bare,
                "without a broker",
            )?)
        }
        None => None,
    };
    let picture = super::plot(
        "Three programs with weights 10, 40, 20, and a hog",
        &scenario,
        &shared,
    )
    .svg(960, 440)?;
    let drawn = folder.join("demo.svg");
    std::fs::write(&drawn, picture)
        .map_err(|e| format!("cannot write {}: {e}", drawn.display()))?;
    let page = report(
        &scenario,
        &shared,
        alone.as_ref().map(|trace| (&contrast, trace)),
    )?;
    let path = folder.join("report.html");
    std::fs::write(&path, page.html())
        .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    for row in table(&scenario, &shared, alone.as_ref()) {
        println!(
            "{}",
            row.iter()
                .enumerate()
                .map(|(i, cell)| if i == 0 {
                    format!("{cell:34}")
                } else {
                    format!("{cell:>14}")
                })
                .collect::<String>()
        );
    }
    println!("\nThe report, with plots: {}", path.display());
    Ok(())
}

fn with_broker(folder: &Path, file: &Path, scenario: &Scenario) -> Result<Trace, String> {
    let socket = folder.join("broker.sock");
    let mut command = Command::new(sibling("plimsoll"));
    command
        .arg("--socket")
        .arg(&socket)
        .arg("run")
        .arg("--file")
        .arg(file);
    command
        .arg("--record")
        .arg(folder.join("record.jsonl"))
        .args(["--interval", "200"]);
    if std::io::stdout().is_terminal() {
        command.arg("--top");
    } else {
        command.stdin(Stdio::null());
        println!("with the broker: {SECONDS:.0} s (in a terminal this is a live screen) …");
    }
    let child = command
        .spawn()
        .map_err(|e| format!("cannot start plimsoll: {e}"))?;
    Ok(follow(child, &socket, folder, scenario))
}

fn scenario(fixed: bool) -> Scenario {
    let mut programs = trio(fixed.then_some(BUDGET));
    for (index, program) in programs.iter_mut().enumerate() {
        program.start = 20.0 * index as f64;
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
        until_done: false,
        programs,
        changes: Vec::new(),
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

fn table(scenario: &Scenario, shared: &Trace, alone: Option<&Trace>) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new(), "with broker".to_owned()]];
    let traces: Vec<&Trace> = std::iter::once(shared).chain(alone).collect();
    if alone.is_some() {
        rows[0].push("without".to_owned());
    }
    let mut row = |name: String, value: &dyn Fn(&Trace) -> f64| {
        let cells = traces.iter().map(|trace| number(value(trace)));
        rows.push(std::iter::once(name).chain(cells).collect());
    };
    let last = |trace: &Trace| trace.samples.last().cloned().unwrap_or_default();
    for (index, program) in scenario
        .programs
        .iter()
        .enumerate()
        .filter(|(_, p)| !p.outsider)
    {
        row(format!("work, {}", program.name), &|trace| {
            trace.work(index, 0.0, scenario.seconds)
        });
        row(
            format!("  of it beside the hog, {}", program.name),
            &|trace| trace.work(index, HOG_START, HOG_START + 35.0),
        );
        row(format!("  major faults, {}", program.name), &|trace| {
            trace.count(index, |p| p.major_faults) as f64
        });
    }
    row("allocation stalls".to_owned(), &|trace| {
        (0..scenario.programs.len())
            .map(|i| trace.count(i, |p| p.stalls))
            .sum::<u64>() as f64
    });
    row("pages swapped in and out".to_owned(), &|trace| {
        last(trace).swap_traffic as f64
    });
    row("times the limit was hit".to_owned(), &|trace| {
        last(trace).limit_hits as f64
    });
    row("killed".to_owned(), &|trace| {
        trace.endings.iter().filter(|e| e.killed).count() as f64
    });
    rows
}

fn report(
    scenario: &Scenario,
    shared: &Trace,
    alone: Option<(&Scenario, &Trace)>,
) -> Result<Page, String> {
    let mut page = Page::new("Plimsoll: three programs, one budget");
    page.text(
        "Three unmodified programs share 1500 MB by weight 10, 40 and 20: a Guile program, Lucene's benchmark on JDK 17 with G1, and the same on \
         JDK 25 with the Serial collector. They start 20 s apart. At 70 s an unrelated program takes half of the memory at 100 MB/s, \
         locks it, keeps it for 20 s and gives it back at the same rate.",
    );
    page.heading("With the broker").picture(
        &super::plot(
            "Memory, with the broker (dashed: ideal shares)",
            scenario,
            shared,
        )
        .svg(960, 440)?,
    );
    if let Some((contrast, trace)) = alone {
        page.heading("Without").picture(
            &super::plot("Memory, fixed heap sizes, no broker", contrast, trace).svg(960, 440)?,
        );
    }
    page.heading("Side by side")
        .table(&table(scenario, shared, alone.map(|(_, trace)| trace)));
    page.note(&format!(
        "Work: documents indexed (Lucene), rounds (Guile). At commit {}, one run each.",
        commit()
    ));
    Ok(page)
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
