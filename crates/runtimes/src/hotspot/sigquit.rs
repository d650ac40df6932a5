//! Whether a machine takes SIGQUIT as the request to open its attach socket.
//!
//! In other cases the signal does harm. It ends a program that has no handler. A program that
//! embeds a machine may do anything. A machine prints all its threads into the program's output if
//! attaching is disabled, if it listens already, or if it finds no file when the signal comes. So
//! the signal is sent only to a process that is known to open its socket.
//!
//! | source | what it tells |
//! |---|---|
//! | the counters of the process | its options; whether attaching is allowed; whether a launcher started it |
//! | its command line, if counters are missing or cut | the same, if variables and files can be read too |
//! | `/proc/PID/status`, its cgroups | whether the signal is caught, and would arrive at once |
//!
//! With `-Xrs` or `-XX:+StartAttachListener` a machine opens its socket by itself, so we wait for
//! it.

use super::attach::error::AttachError;
use super::flags::{Files, Given, path_below_root};
use crate::process::{Process, Status};
use crate::steer::age;
use crate::suspended;
use plimsoll_programs::Setting;
use plimsoll_programs::foreign_files::Root;
use plimsoll_programs::hotspot::hsperfdata::{Counters, PerfError, PerfFile};
use plimsoll_programs::hotspot::{is_launcher, is_machine};
use plimsoll_programs::java;
use std::path::Path;

/// The bit of SIGQUIT in the signal sets of `/proc/PID/status`.
const QUIT: u64 = 1 << (libc::SIGQUIT - 1);
/// By then a machine without counters has started, seconds.
const SETTLED: i64 = 3;

/// The counter with one character for each capability. The first is for attaching.
const CAPABILITIES: &str = "sun.rt.jvmCapabilities";
const ARGUMENTS: &str = "java.rt.vmArgs";
/// The counter with flags from files.
const FLAGS: &str = "java.rt.vmFlags";
/// The counter with what the launcher started; empty if there was no launcher.
const COMMAND: &str = "sun.rt.javaCommand";
const VERSION: &str = "java.property.java.vm.specification.version";
/// Counters hold this much of a text (`PerfMaxStringConstLength`), bytes.
const MOST_TOLD: usize = 1024;

/// The name of the thread that serves the socket.
const LISTENER: &[u8] = b"Attach Listener";
/// Since this version a listening machine makes its socket again if it was removed.
const MAKES_ANOTHER: u32 = 14;
/// Bytes of an installation's file `release` that are read at most.
const MOST_RELEASE: u64 = 64 << 10;

/// Reasons for which a process is left alone.
const KEEPS: &str = "-Xrs leaves signals to the program; a machine opens its socket by itself then";
const LISTENS: &str =
    "-XX:+StartAttachListener has it open its socket by itself, and it has not yet";
const HOST: &str = "no Java launcher started it: it is a program with a virtual machine inside";
const HIDDEN: &str =
    "it publishes no counters that tell, and its command line cannot be read in full";
const REPLACED: &str = "it listens, but in the place of its socket lies one that another left";
const REMOVED: &str =
    "it listens, but its socket was removed, and before Java 14 it makes no other";

/// Succeeds if the process takes the signal as the request. `left`: a socket without a listener
/// lies in the place of its socket.
///
/// # Errors
/// Why not, or not yet.
pub(super) fn takes(process: &Process, left: bool) -> Result<(), AttachError> {
    is_the_moment(process)?;
    let told = by_counters(process)?;
    let version = if told.is_whole {
        told.version
    } else {
        told.version.or(by_command_line(process)?)
    };
    let makes_another = version.is_some_and(|version| version >= MAKES_ANOTHER);
    let why = match listens(process) {
        true if left => REPLACED,
        true if !makes_another => REMOVED,
        _ => return Ok(()),
    };
    let pid = process.pid;
    Err(AttachError::NotKnown { pid, why })
}

/// Succeeds if a signal that is sent now is caught, arrives at once, and is the only one pending.
///
/// # Errors
/// Why not.
pub(super) fn is_the_moment(process: &Process) -> Result<(), AttachError> {
    let pid = process.pid;
    let status = process.status().map_err(|_| AttachError::Gone { pid })?;
    if status.caught & QUIT == 0 {
        return Err(AttachError::NotCatching { pid });
    }
    match stands_still(pid, &status) {
        Some(how) => Err(AttachError::StandsStill { pid, how }),
        None => Ok(()),
    }
}

fn stands_still(pid: u32, status: &Status) -> Option<&'static str> {
    let waits = "has a SIGQUIT waiting that has not reached it";
    suspended::how(pid, status).or((status.pending & QUIT != 0).then_some(waits))
}

/// The facts that counters tell about a machine, if they do not forbid the signal.
#[derive(Debug, Default)]
struct Told {
    /// The feature version, if they tell it.
    version: Option<u32>,
    /// The counters hold all options that the machine was started with.
    is_whole: bool,
}

fn by_counters(process: &Process) -> Result<Told, AttachError> {
    let pid = process.pid;
    let Ok(mut perf) = PerfFile::open(process) else {
        return Ok(Told::default());
    };
    if !perf.is_of(process) {
        return Ok(Told::default());
    }
    match perf.read() {
        Err(PerfError::Unfinished { .. }) => Err(AttachError::Starting { pid }),
        Ok(counters) => told(pid, counters),
        Err(_) => Ok(Told::default()),
    }
}

/// As [`by_counters`], from a copy of the counters.
fn told(pid: u32, counters: Counters<'_>) -> Result<Told, AttachError> {
    let not_known = |why| Err(AttachError::NotKnown { pid, why });
    let version = counters.text_of(VERSION).unwrap_or_default();
    let version = version.strip_prefix("1.").unwrap_or(version).parse().ok();
    let in_part = Told {
        version,
        is_whole: false,
    };
    match counters.text_of(CAPABILITIES) {
        Some(can) if can.starts_with('1') => {}
        Some(_) => return Err(AttachError::Refused { pid }),
        None => return Ok(in_part),
    }
    let Some(arguments) = counters.text_of(ARGUMENTS) else {
        return Ok(in_part);
    };
    let flags = counters.text_of(FLAGS).unwrap_or_default();
    let words = || [arguments, flags].map(str::split_ascii_whitespace);
    let says = |word: &str| {
        let mut all = words().into_iter().flatten();
        all.any(|one| one.strip_prefix("-XX:").unwrap_or(one) == word)
    };
    if says("-Xrs") || says("+ReduceSignalUsage") {
        return not_known(KEEPS);
    }
    if says("+StartAttachListener") {
        return not_known(LISTENS);
    }
    match counters.text_of(COMMAND) {
        Some("") => return not_known(HOST),
        Some(_) => {}
        // The counter is missing, or was cut inside a character.
        None => return Ok(in_part),
    }
    Ok(Told {
        is_whole: arguments.len() < MOST_TOLD && flags.len() < MOST_TOLD,
        ..in_part
    })
}

/// Succeeds if the command line and all that it refers to allow the signal. Returns the feature
/// version, if the installation tells it.
fn by_command_line(process: &Process) -> Result<Option<u32>, AttachError> {
    let pid = process.pid;
    let not_known = |why| Err(AttachError::NotKnown { pid, why });
    if !is_machine(process) {
        return not_known(HIDDEN);
    }
    let Some(program) = path_below_root(process, "exe") else {
        return not_known(HIDDEN);
    };
    // The file of a running program may have been replaced.
    let name = program.to_string_lossy();
    let program = Path::new(name.strip_suffix(" (deleted)").unwrap_or(&name));
    let root = Root::of(process.pid);
    if !root.is_ok_and(|root| is_launcher(&root, program)) {
        return not_known(HOST);
    }
    let files = Files::of(process);
    let Some(given) = given(process, &files).filter(Given::is_whole) else {
        return not_known(HIDDEN);
    };
    if given.ever_on("DisableAttachMechanism") {
        return Err(AttachError::Refused { pid });
    }
    if given.keeps_signals() {
        return not_known(KEEPS);
    }
    if given.ever_on("StartAttachListener") {
        return not_known(LISTENS);
    }
    // A machine removes a socket that is opened before it has started.
    if age(process).ok_or(AttachError::Gone { pid })? >= SETTLED {
        Ok(version_of(program, &files))
    } else {
        Err(AttachError::Starting { pid })
    }
}

/// The feature version of the installation that this launcher belongs to.
fn version_of(launcher: &Path, files: &Files) -> Option<u32> {
    let (text, _) = files.read(&launcher.parent()?.parent()?.join("release"), MOST_RELEASE)?;
    java::version_in(&text)
}

/// The options that a running `java` was given.
fn given(process: &Process, files: &Files) -> Option<Given> {
    let words = process.arguments()?.into_iter().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let environment = process.variables()?;
    let variable = |name: &str| {
        let mut all = environment.iter();
        let (_, value) = all.find(|(one, _)| one == name)?;
        Some(value.clone())
    };
    let folder = process.path("cwd");
    let setting = Setting {
        variables: &variable,
        folder: &folder,
    };
    Some(Given::of_running(words, &setting, files))
}

/// Whether the process has a thread that serves an attach socket.
pub(super) fn listens(process: &Process) -> bool {
    process.has_thread(LISTENER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testbed::hsperfdata::Counter::Text;
    use plimsoll_testbed::hsperfdata::file;

    /// The facts from counters with these texts, or the error.
    fn say(capable: &str, arguments: &str, flags: &str, command: &str) -> String {
        let counters = file(
            true,
            &[
                (CAPABILITIES, Text(capable)),
                (ARGUMENTS, Text(arguments)),
                (FLAGS, Text(flags)),
                (COMMAND, Text(command)),
                (VERSION, Text("17")),
            ],
        );
        match told(7, Counters::parse(&counters).unwrap()) {
            Ok(told) => format!("{} {:?}", told.is_whole, told.version),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn only_who_is_known_to_take_it_for_that_gets_the_signal() {
        assert_eq!(say("11", "-Xmx9m -ea", "", "Main a"), "true Some(17)");
        assert!(say("01", "-Xmx9m", "", "Main").contains("lets nobody attach"));
        for (arguments, flags) in [
            ("-Xmx9m -Xrs", ""),
            ("-Xrs", ""),
            ("-XX:+ReduceSignalUsage -ea", ""),
            ("", "+ReduceSignalUsage"),
        ] {
            let said = say("1", arguments, flags, "Main");
            assert!(said.contains("-Xrs"), "{said}");
        }
        assert!(say("1", "-XX:+StartAttachListener", "", "Main").contains("by itself"));
        assert!(say("1", "-Xmx9m", "", "").contains("machine inside"));
        // Arguments of the program are not options of the machine.
        assert_eq!(say("1", "-Dx=-Xrs", "", "Main -Xrs"), "true Some(17)");
        // The part that is cut off may hold anything, but the version is known.
        let long = "-Da=".to_owned() + &"x".repeat(MOST_TOLD);
        assert_eq!(say("1", &long[..MOST_TOLD], "", "Main"), "false Some(17)");
        assert_eq!(say("1", "", &long[..MOST_TOLD], "Main"), "false Some(17)");
    }

    #[test]
    fn counters_that_say_nothing_of_it_are_not_taken_for_consent() {
        let without_command = vec![(CAPABILITIES, Text("1")), (ARGUMENTS, Text(""))];
        for counters in [vec![], vec![(CAPABILITIES, Text("1"))], without_command] {
            let counters = file(true, &counters);
            let told = told(7, Counters::parse(&counters).unwrap()).unwrap();
            assert!(!told.is_whole && told.version.is_none());
        }
    }

    #[test]
    fn a_process_that_stands_still_is_told_from_one_that_waits() {
        let of = |state, pending| {
            let status = Status {
                state,
                pending,
                ..Status::default()
            };
            stands_still(u32::MAX, &status).is_some()
        };
        assert!(!of(b'R', 0) && !of(b'S', 1) && !of(b'D', 0));
        assert!(of(b'T', 0) && of(b't', 0) && of(b'S', QUIT));
    }
}
