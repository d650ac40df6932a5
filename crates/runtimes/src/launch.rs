//! What to add to a command line and to its environment, so that the program can be steered when it runs.

use crate::detect::{self, Runtime};
use crate::hotspot::flags;
use std::ffi::OsString;
use std::path::PathBuf;

/// Read by the `java` launcher of JDK 9 and later.
const LAUNCHER: &str = "JDK_JAVA_OPTIONS";
/// Where the machine reads options beside its command line.
const FROM_ENVIRONMENT: [&str; 3] = ["JAVA_TOOL_OPTIONS", LAUNCHER, "_JAVA_OPTIONS"];

/// What is known before the start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Bytes that the broker has to share out, when it is known: a program alone should be able to use all of it.
    pub budget: Option<u64>,
    /// Bytes of memory of the machine, or of the tightest limit above.
    pub memory: Option<u64>,
    /// The user says that what is started is Java, whatever it looks like: a script, a build tool.
    pub java: bool,
    /// The adapter library to preload into programs that use libgc.
    pub libgc_agent: Option<PathBuf>,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The command line, with what was added.
    pub argv: Vec<OsString>,
    /// Environment variables to set (a value that was there is kept inside of the new one).
    pub environment: Vec<(OsString, OsString)>,
    /// What the program is.
    pub runtime: Runtime,
    /// What was added and why, one line each, for `-v`.
    pub notes: Vec<String>,
}

/// Adds what makes the program elastic; what the user gave comes later and wins.
pub fn prepare(argv: &[OsString], plan: &Plan) -> Prepared {
    let runtime = detect::of_command(argv);
    let mut prepared = Prepared {
        argv: argv.to_vec(),
        environment: Vec::new(),
        runtime,
        notes: Vec::new(),
    };
    match runtime {
        Runtime::HotSpot => java(&mut prepared, plan),
        _ if plan.java => java_inside(&mut prepared, plan),
        Runtime::LibGc => libgc(&mut prepared, plan),
        Runtime::Other => prepared.notes.push(
            "nothing is added to a program that is neither Java nor uses libgc; a Java virtual machine that it \
             starts is found and steered as far as it goes without start flags (`--adapter hotspot` passes them on \
             in JDK_JAVA_OPTIONS)"
                .to_owned(),
        ),
    }
    prepared
}

fn java(prepared: &mut Prepared, plan: &Plan) {
    let words = prepared.argv.iter().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    // What the machine reads from its environment was given by the user, too.
    let given: Vec<String> = FROM_ENVIRONMENT
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .flat_map(|value| flags::words(&value))
        .chain(words.flat_map(expand))
        .collect();
    let added = flags::start(
        &given,
        &flags::Surroundings::of_self(plan.budget, plan.memory),
    );
    if !added.flags.is_empty() {
        prepared
            .notes
            .push(format!("added after java: {}", added.flags.join(" ")));
    }
    prepared.notes.extend(added.notes);
    prepared
        .argv
        .splice(1..1, added.flags.into_iter().map(OsString::from));
}

/// The words of an argument file; what it is no name of stays as it is.
fn expand(word: String) -> Vec<String> {
    let file = word.strip_prefix('@');
    match file.and_then(|file| std::fs::read_to_string(file).ok()) {
        Some(text) => flags::words(&text),
        None => vec![word],
    }
}

/// For a virtual machine that something else starts. Its launcher puts the variable's words before those of its own
/// command line, and says so on standard error: that is why it is only done when asked for.
fn java_inside(prepared: &mut Prepared, plan: &Plan) {
    let added = flags::for_any(&flags::Surroundings::of_self(plan.budget, plan.memory));
    let mut value = added.flags.join(" ");
    if let Some(old) = std::env::var(LAUNCHER).ok().filter(|old| !old.is_empty()) {
        value.push(' ');
        value.push_str(&old);
    }
    prepared.notes.push(format!("{LAUNCHER}={value}"));
    prepared.notes.extend(added.notes);
    prepared
        .environment
        .push((OsString::from(LAUNCHER), OsString::from(value)));
}

fn libgc(prepared: &mut Prepared, plan: &Plan) {
    let Some(agent) = &plan.libgc_agent else {
        prepared
            .notes
            .push("the adapter for libgc is not installed: the program is passive".to_owned());
        return;
    };
    let mut value = agent.clone().into_os_string();
    if let Some(old) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        value.push(":");
        value.push(old);
    }
    prepared
        .notes
        .push(format!("LD_PRELOAD={}", value.to_string_lossy()));
    prepared
        .environment
        .push((OsString::from("LD_PRELOAD"), value));
}
