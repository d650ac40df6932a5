//! `--agent` for machines that start, that run already, and in files of programs; `plimsoll ps` says where it
//! is.

mod common;

use common::ground::{alone, classes, java, ours};
use common::{Place, Started, wait_for};
use plimsoll_runtimes::hotspot::agent::Page;
use plimsoll_runtimes::process::Process;
use std::process::Stdio;

/// Where the test program is, and its name and arguments: megabytes that live, megabytes a second.
const SOURCE: &str = "crates/runtimes/tests/java/Churn.java";
const CHURN: [&str; 3] = ["Churn", "20", "50"];
/// One that needs no input: iterations, trees of 4 MB that live, megabytes a second.
const PACED: &str = "bench/programs/GcBench.java";
const GCBENCH: [&str; 4] = ["GcBench", "1000000", "2", "50"];
/// The flags of their machines: the agent helps with this collector.
const FLAGS: [&str; 2] = ["-XX:+UseSerialGC", "-Xmx200m"];

/// The row of a program in `plimsoll ps --json`; null while there is none.
fn row(place: &Place, name: &str) -> serde_json::Value {
    fn find(rows: &serde_json::Value, name: &str) -> Option<serde_json::Value> {
        let rows = rows.as_array()?;
        let here = rows.iter().find(|row| row["name"] == name).cloned();
        here.or_else(|| rows.iter().find_map(|row| find(&row["children"], name)))
    }
    // At first no broker answers.
    let output = place.call(&["ps", "--json"]);
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    find(&listing["principals"], name).unwrap_or_default()
}

/// The line of a program in `plimsoll ps`.
fn line(place: &Place, name: &str) -> String {
    let table = place.text(&["ps"]);
    let line = table.lines().find(|line| line.contains(name));
    line.unwrap_or_default().to_owned()
}

/// The page that an agent in a machine has made.
fn page(pid: u32) -> Option<Page> {
    Page::of(&Process::new(pid).ok()?).ok()
}

/// Waits until the agent is in the program, `ps` says so, and it tells of pauses.
fn has_the_agent(place: &Place, name: &str) {
    wait_for("ps says that the agent is in it", || {
        (row(place, name)["adapter"] == "hotspot-agent").then_some(())
    });
    assert!(line(place, name).contains("agent"), "{}", line(place, name));
    let pid = row(place, name)["pid"].as_u64().unwrap() as u32;
    let page = page(pid).expect("its page is there");
    wait_for("it tells of pauses", || {
        let totals = page.view().ok()?.totals()?;
        (totals.pauses > 0).then_some(())
    });
}

/// A machine that nobody steers yet. It ends with its input.
fn machine(place: &Place, classes: &str) -> Started {
    let arguments = [&FLAGS[..], &["-cp", classes], &CHURN].concat();
    let mut command = place.program(&java(), &arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    // Java 21 and later say that an agent was loaded.
    Started(command.stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_machine_that_is_adopted_gets_the_agent_where_that_is_asked_for() {
    let (_alone, mut place) = (alone(), Place::new());
    let Some(classes) = classes(&place, &[SOURCE]) else {
        return;
    };
    let own = ours(&place).display().to_string();
    let [plain, asked] = [0, 1].map(|_| machine(&place, &classes));
    for (machine, name, agent) in [(&plain, "plain", None), (&asked, "asked", Some("auto"))] {
        let pid = machine.0.id().to_string();
        let mut words = vec!["adopt", "-n", name];
        words.extend(agent.map(|agent| ["--agent", agent]).into_iter().flatten());
        words.push(&pid);
        let mut command = place.program(&own, &words);
        let adoption = command.stdout(Stdio::null()).spawn().unwrap();
        place.keep(Started(adoption));
        place.attached(name);
    }
    has_the_agent(&place, "asked");
    wait_for("the other is steered from outside", || {
        (row(&place, "plain")["adapter"] == "hotspot").then_some(())
    });
    assert!(page(plain.0.id()).is_none(), "nobody asked for it");
    assert!(!line(&place, "plain").contains("agent"));
}

#[test]
fn a_file_of_programs_says_where_the_agent_goes() {
    let (_alone, mut place) = (alone(), Place::new());
    let Some(classes) = classes(&place, &[PACED]) else {
        return;
    };
    let own = ours(&place).display().to_string();
    let java = java();
    let words = [&[&*java], &FLAGS[..], &["-cp", &classes], &GCBENCH].concat();
    let program = |name: &str, more: &str| {
        format!("[[program]]\nname = \"{name}\"\ncommand = {words:?}\n{more}")
    };
    let file = [
        "name = \"two\"\nbudget = \"400M\"\n",
        &program("asked", "agent = \"auto\"\n"),
        &program("plain", "agent = \"never\"\n"),
    ]
    .concat();
    place.write("programs.toml", &file);
    let mut command = place.program(&own, &["run", "-f", "programs.toml"]);
    place.keep(Started(command.stdout(Stdio::null()).spawn().unwrap()));
    wait_for("the agent is in one", || {
        (row(&place, "asked")["adapter"] == "hotspot-agent").then_some(())
    });
    wait_for("and not in the other", || {
        (row(&place, "plain")["adapter"] == "hotspot").then_some(())
    });
    assert!(line(&place, "asked").contains("agent"));
}

/// The program's output is its own.
#[test]
fn a_program_that_is_started_gets_the_agent_unless_that_is_forbidden() {
    let (_alone, mut place) = (alone(), Place::new());
    let Some(classes) = classes(&place, &[PACED]) else {
        return;
    };
    let own = ours(&place).display().to_string();
    let java = java();
    let words = [&[&*java], &FLAGS[..], &["-cp", &classes], &GCBENCH].concat();
    let errors = place.path("errors");
    for (name, agent) in [("usual", &[][..]), ("forbidden", &["--agent", "never"])] {
        let run = [&["run", "-n", name], agent, &["--"], &words].concat();
        let mut command = place.program(&own, &run);
        let errors = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&errors);
        command.stdout(Stdio::null()).stderr(errors.unwrap());
        place.keep(Started(command.spawn().unwrap()));
    }
    has_the_agent(&place, "usual");
    wait_for("the other is steered from outside", || {
        (row(&place, "forbidden")["adapter"] == "hotspot").then_some(())
    });
    let pid = row(&place, "forbidden")["pid"].as_u64().unwrap() as u32;
    assert!(page(pid).is_none(), "it was forbidden");
    let errors = std::fs::read_to_string(errors).unwrap();
    assert!(!errors.contains("agent"), "{errors}");
}
