//! The main job, to be looked at: three real programs share 1500 MB by weight, a hog comes and goes; then the same without a broker.

use crate::harness::follow::follow;
use crate::harness::ground::Ground;
use crate::harness::programs::{adapter, hog_that_leaves, sibling, trio};
use crate::harness::runner::run;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::report::page::Page;
use crate::report::results::{self, Results, commit, root};
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

/// Runs the demo and writes the report; when it is to be recorded, the table and the plot into `bench/results` too.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn run_demo(record: bool) -> Result<(), String> {
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
    save(&folder.join("demo.svg"), &picture)?;
    let results = table(&scenario, &shared, alone.as_ref());
    let page = report(
        &scenario,
        &shared,
        alone.as_ref().map(|trace| (&contrast, trace)),
        &results,
    )?;
    let path = folder.join("report.html");
    save(&path, &page.html())?;
    for row in results.cells() {
        let cells = row[1..].iter().map(|cell| format!("{cell:>14}"));
        println!("{:38}{}", row[0], cells.collect::<String>());
    }
    if record {
        save(&results::folder().join("demo.svg"), &picture)?;
        results.save().map_err(|e| e.to_string())?;
    }
    println!("\nThe report, with plots: {}", path.display());
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
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

fn table(scenario: &Scenario, shared: &Trace, alone: Option<&Trace>) -> Results {
    let mut columns = vec![("", ""), ("with the broker", "")];
    if alone.is_some() {
        columns.push(("without", ""));
    }
    let mut results = Results::new(
        "demo",
        "Side by side with the same programs without a broker.",
        "Without: no broker, each program has the size of its share of the 1500 MB for good. Work: documents indexed (Lucene), \
         replacements (Guile). Beside the hog: from 70 s to 105 s. Collections: as the runtime counts them, with concurrent cycles; their time: pauses \
         (Java), all of it (libgc). Stalls: allocations that waited for the kernel to reclaim.",
        1,
    )
    .columns(&columns);
    let traces: Vec<&Trace> = std::iter::once(shared).chain(alone).collect();
    let mut row = |name: String, value: &dyn Fn(&Trace) -> f64| {
        let cells = traces.iter().map(|trace| value(trace).into());
        results
            .rows
            .push(std::iter::once(name.into()).chain(cells).collect());
    };
    let last = |trace: &Trace| trace.samples.last().cloned().unwrap_or_default();
    let programs = || scenario.programs.iter().enumerate();
    for (index, program) in programs().filter(|(_, p)| !p.outsider) {
        let name = |what: &str| format!("{}: {what}", program.name);
        row(name("work"), &|t| t.work(index, 0.0, scenario.seconds));
        row(name("work beside the hog"), &|t| {
            t.work(index, HOG_START, HOG_START + 35.0)
        });
        row(name("collections"), &|t| {
            t.count(index, |p| p.collections) as f64
        });
        row(name("seconds in them"), &|t| {
            t.count(index, |p| p.collection_ns) as f64 / 1e9
        });
        row(name("major faults"), &|t| {
            t.count(index, |p| p.major_faults) as f64
        });
    }
    row("allocation stalls".to_owned(), &|trace| {
        let ours = programs().filter(|(_, p)| !p.outsider);
        ours.map(|(i, _)| trace.count(i, |p| p.stalls)).sum::<u64>() as f64
    });
    row("pages swapped in and out".to_owned(), &|trace| {
        last(trace).swap_traffic as f64
    });
    row("times the limit was hit".to_owned(), &|trace| {
        last(trace).limit_hits as f64
    });
    row("ended before their time".to_owned(), &|trace| {
        let late = scenario.seconds - 4.0;
        // Where all ended early, so did what was seen of them.
        let sample = trace.at(late).filter(|sample| sample.at > late - 2.0);
        let gone = |i: usize| sample.is_none_or(|s| !s.programs[i].alive);
        let ours = programs().filter(|(_, p)| !p.outsider);
        ours.filter(|(i, _)| gone(*i)).count() as f64
    });
    results
}

fn report(
    scenario: &Scenario,
    shared: &Trace,
    alone: Option<(&Scenario, &Trace)>,
    results: &Results,
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
    page.heading("Side by side").table(&results.cells());
    page.note(&format!(
        "{} At commit {}, one run each.",
        results.method,
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
