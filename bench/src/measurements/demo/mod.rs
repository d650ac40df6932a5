//! A demonstration of the main purpose: three real programs share 1500 MB by weight while a hog comes and
//! goes. For comparison they run with fixed sizes and without a broker. Both variants are run twice, in turn,
//! because the speed of a computer can double from one minute to the next.

mod compare;

use crate::harness::ground::Ground;
use crate::harness::interrupt;
use crate::harness::memory_plot::memory_plot;
use crate::harness::observe_run::follow;
use crate::harness::programs::{adapter, hog_that_leaves, sibling, trio};
use crate::harness::run_scenario::play;
use crate::harness::scenario::{Conditions, Program, Scenario};
use crate::harness::trace::Trace;
use crate::measurement::{About, Measurement};
use crate::progress::Progress;
use crate::report::page::Page;
use crate::report::plot::Plot;
use crate::report::results::{Results, commit};
use crate::runner::{Runner, out};
use crate::{Error, Result};
use compare::{Run, Runs};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes that the three programs and the hog share.
const BUDGET: u64 = 1500 << 20;
/// Weights of Guile, of Lucene with G1 and of Lucene with Serial: shares of 300, 600 and 600 MB. Each of them
/// can use about its share, so that the picture shows what weights do.
const WEIGHTS: [u32; 3] = [10, 20, 20];
const HOG: u64 = BUDGET / 2;
/// Bytes per second at which the hog takes memory and gives it back.
const RATE: u64 = 100_000_000;
/// Seconds: between the starts of two programs; until the hog starts; that it keeps its memory; of a run.
const APART: f64 = 15.0;
const HOG_START: f64 = 50.0;
const HOLD: f64 = 15.0;
const SECONDS: f64 = 90.0;

/// The measurement `demo`.
pub(super) struct Demo;

impl Measurement for Demo {
    fn about(&self) -> About {
        About {
            name: "demo",
            question: "The main job: with the broker, and in turn with it, twice, with fixed sizes and \
                       without a broker",
            asks: &[compare::WORK, compare::FAULTS],
            minutes: 6,
            only: false,
            slice: false,
            seed: None,
        }
    }

    /// Writes a report beside the results. Without the rights to make a cgroup, it makes only the first run.
    fn run(&self, runner: &Runner) -> Result<Results> {
        let folder = out("demo");
        let _ = std::fs::remove_dir_all(&folder);
        let shown = Shown {
            shared: scenario(false),
            fixed: scenario(true),
            folder,
        };
        shown.announce();
        let ground = runner.ground();
        let ground = ground
            .inspect_err(|e| eprintln!("{e}; going on without"))
            .ok();
        let mut variants = vec![("with the broker", Way::Broker("1"))];
        if let Some(ground) = &ground {
            variants.extend([
                ("fixed sizes", Way::Fixed(ground)),
                ("fixed sizes, again", Way::Fixed(ground)),
                ("with the broker, again", Way::Broker("2")),
            ]);
        }
        let compares = ground.is_some();
        // A heading and a picture of each run that this program makes.
        let mut pictures = Vec::new();
        let experiment = runner.experiment(variants).once();
        let ran = experiment.run(|way, turn| {
            let (heading, title, scenario, trace) = match way {
                Way::Broker(folder) => {
                    let trace = shown.with_broker(folder, &turn.progress)?;
                    (
                        "With the broker",
                        "Memory, with the broker",
                        &shown.shared,
                        trace,
                    )
                }
                Way::Fixed(ground) => {
                    let title = "Memory, fixed heap sizes, no broker";
                    let trace = play(ground, &shown.fixed, Conditions::Bare, &turn.progress)?;
                    ("Without", title, &shown.fixed, trace)
                }
            };
            let svg = memory_plot(title, scenario, &trace).svg();
            pictures.push((heading, svg));
            let run = Run::of(scenario, &trace);
            if matches!(way, Way::Broker("1")) {
                runner.plot("", &picture(scenario, &trace))?;
                if compares {
                    let runs = Runs {
                        shared: vec![run.clone()],
                        fixed: Vec::new(),
                    };
                    shown.announce_comparison(&shown.report(&runs, &pictures, runner)?);
                }
            }
            Ok(run)
        })?;
        let mut runs = Runs::default();
        for variant in ran {
            match variant.what {
                Way::Broker(_) => runs.shared.extend(variant.outcomes),
                Way::Fixed(_) => runs.fixed.extend(variant.outcomes),
            }
        }
        let report = shown.report(&runs, &pictures, runner)?;
        println!("\nThe report, with plots: {}", report.display());
        Ok(runs.results(&shown.shared, runner))
    }
}

/// How the programs of a run come to their memory.
enum Way<'a> {
    /// With a broker. The folder of this name gets what the run leaves.
    Broker(&'static str),
    /// With fixed sizes and without a broker, on this ground.
    Fixed(&'a Ground),
}

/// The demonstration: the same programs with a broker and with fixed sizes.
struct Shown {
    shared: Scenario,
    fixed: Scenario,
    /// The folder of the report and of the programs' output.
    folder: PathBuf,
}

impl Shown {
    fn announce(&self) {
        println!(
            "Three programs with weights 10, 20 and 20 share 1500 MB; they start {APART} s apart. At \
             {HOG_START} s a hog takes half of it."
        );
        println!(
            "The same as: plimsoll run -f {}\n",
            file_of(&self.folder.join("1")).display()
        );
    }

    /// Told after the first run, whose report is there.
    fn announce_comparison(&self, report: &Path) {
        println!(
            "\nThe report, with plots: {}\nNow the same without a broker, twice, where every heap \
             has a fixed size, its share of the 1500 MB; and once more with one: {} min. Ctrl-C \
             ends it; the report of the first run is there.\n",
            report.display(),
            (SECONDS * 3.0 / 60.0).ceil()
        );
    }

    /// One run with a broker. On a terminal, the first one shows a live screen in the place of `progress`.
    fn with_broker(&self, name: &str, progress: &Progress) -> Result<Trace> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let (file, socket) = (file_of(&folder), folder.join("broker.sock"));
        save(&file, &programs_toml(&self.shared))?;
        let mut command = Command::new(sibling("plimsoll"));
        command.arg("--socket").arg(&socket);
        command.args(["run", "--file"]).arg(&file).arg("--record");
        command
            .arg(folder.join("record.jsonl"))
            .args(["--interval", "200"]);
        let live = name == "1" && std::io::stdout().is_terminal();
        let silent = Progress::silent();
        let progress = if live { &silent } else { progress };
        if live {
            command.arg("--top");
        } else {
            command.stdin(Stdio::null());
        }
        let child = command.spawn().map_err(Error::start(&command))?;
        let trace = follow(child, &socket, &folder, &self.shared, progress);
        interrupt::check()?;
        Ok(trace)
    }

    /// Writes the report on the runs so far, and returns its path.
    fn report(&self, runs: &Runs, pictures: &[(&str, String)], runner: &Runner) -> Result<PathBuf> {
        let path = self.folder.join("report.html");
        let page = page(&self.shared, runs, pictures, runner);
        save(&path, &page.html())?;
        Ok(path)
    }
}

fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file("write", path))
}

fn file_of(folder: &Path) -> PathBuf {
    folder.join("programs.toml")
}

fn scenario(fixed: bool) -> Scenario {
    let mut programs = trio(WEIGHTS, fixed.then_some(BUDGET));
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

/// The `programs.toml` that a user would write by hand.
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

/// Names of the programs in the README's picture.
const KNOWN: [(&str, &str); 4] = [
    ("guile", "Guile"),
    ("lucene-g1", "Java (G1)"),
    ("lucene-serial", "Java (Serial)"),
    ("hog", "the other"),
];
/// Seconds over which the README's picture takes means.
const CALM: f64 = 2.0;

/// The README's picture. It must be understandable without the text around it.
fn picture(scenario: &Scenario, trace: &Trace) -> Plot {
    let title = "Three programs share 1500 MiB by weight; another takes half and gives it back";
    let mut plot = memory_plot(title, scenario, trace);
    plot.series.retain(|series| series.name != "in swap");
    for series in &mut plot.series {
        series.note = match scenario.programs.iter().find(|p| p.name == series.name) {
            Some(program) if program.outsider => "not steered".to_owned(),
            Some(program) => format!("weight {}", program.weight),
            None => continue,
        };
        for (program, known) in KNOWN {
            if series.name == program {
                known.clone_into(&mut series.name);
            }
        }
    }
    let note = format!(
        "Means over {CALM:.0} s. Dashed: the share by weight; what one does not want, the others may use"
    );
    Plot {
        note,
        unit: "MiB".to_owned(),
        events: Vec::new(),
        ..plot.averaged(CALM)
    }
}

fn page(shared: &Scenario, runs: &Runs, pictures: &[(&str, String)], runner: &Runner) -> Page {
    let mut page = Page::new("Plimsoll: three programs, one budget");
    page.text(&format!(
        "Three unmodified programs share 1500 MB by weight 10, 20 and 20: a Guile program, Lucene's \
         benchmark on JDK 17 with G1, and the same on \
         JDK 25 with the Serial collector. They start {APART} s apart. At {HOG_START} s an unrelated \
         program takes half of the memory at 100 MB/s, \
         locks it, keeps it for {HOLD} s and gives it back at the same rate.",
    ));
    for (heading, svg) in pictures {
        page.heading(heading).picture(svg);
    }
    let results = runs.results(shared, runner);
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
