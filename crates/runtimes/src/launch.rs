//! What to add to a command line and to its environment, so that the program can be steered when it runs.

use crate::detect::{self, Runtime};
use crate::hotspot::flags;
use std::ffi::OsString;
use std::path::PathBuf;

/// What is known before the start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Bytes that the broker has to share out, when it is known: a program alone should be able to use all of it.
    pub budget: Option<u64>,
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
        Runtime::LibGc => libgc(&mut prepared, plan),
        Runtime::Other => prepared.notes.push(
            "nothing is added to a program that is neither Java nor uses libgc; a Java virtual machine that it \
             starts is found and steered as far as it goes without start flags (they may be set by hand in \
             JDK_JAVA_OPTIONS)"
                .to_owned(),
        ),
    }
    prepared
}

fn java(prepared: &mut Prepared, plan: &Plan) {
    let given: Vec<String> = prepared
        .argv
        .iter()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let added = flags::start(&given, &flags::Surroundings::of_self(plan.budget));
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
