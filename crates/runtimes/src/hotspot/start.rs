//! The additions before a virtual machine starts.

use super::agent;
use super::flags::{self, Given, Known, LAUNCHER, Surroundings};
use crate::runtime::{Addition, Plan, Start};
use plimsoll_programs::elf::{self, Elf};
use plimsoll_programs::java;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Adds flags after the name of a Java launcher, or to the launcher's variable for a program that
/// starts one.
pub(super) fn prepare(start: &Start<'_>) -> Addition {
    if start.recognised {
        launcher(start)
    } else {
        inside(start)
    }
}

fn launcher(start: &Start<'_>) -> Addition {
    let command = start.command;
    let words = command.argv.iter().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let given = Given::collect(words, command.setting);
    let around = Surroundings {
        version: java::version(command),
        known: java::libjvm(command).map_or_else(Known::default, |p| Known::of(&p)),
        ..surroundings(start.plan)
    };
    let added = flags::start(&given, &around);
    let mut notes = Vec::new();
    if !added.flags.is_empty() {
        notes.push(format!("added after java: {}", added.flags.join(" ")));
    }
    notes.extend(added.notes);
    let mut arguments: Vec<OsString> = added.flags.into_iter().map(OsString::from).collect();
    match agent(start, &given, &around) {
        Ok(Some(option)) => {
            notes.push(format!("added after java: {}", option.to_string_lossy()));
            arguments.push(option);
        }
        Ok(None) => {}
        Err(why) => notes.push(format!("the agent is left out: {why}")),
    }
    Addition {
        arguments,
        steered: true,
        notes,
        ..Addition::default()
    }
}

/// The option that loads the agent; `None` where nobody wants it. A machine that cannot load an agent does
/// not start, so this is added only where the machine has our own kind of processor and our own C library.
/// Any other is loaded into when it runs, where it does no harm if that fails.
///
/// # Errors
/// Why it is left out although it is wanted.
fn agent(
    start: &Start<'_>,
    given: &Given,
    around: &Surroundings,
) -> Result<Option<OsString>, &'static str> {
    let plan = start.plan;
    let collector = flags::collector(given, around);
    if !agent::helps(collector, &plan.chosen) {
        return Ok(None);
    }
    let library = plan.own.as_deref().and_then(agent::library);
    let library = library.ok_or("it is not installed beside plimsoll")?;
    let library = library.canonicalize().map_err(|_| "its file is gone")?;
    if let Some(why) = agent::refused_version(around.version) {
        return Err(why);
    }
    let machine = java::libjvm(start.command).ok_or("the JVM's library was not found")?;
    let processor = |file| Elf::at(file).map(|file| file.processor());
    let ours = processor(&library);
    let needs_the_same = elf::needs(&machine, C_LIBRARY) && elf::needs(&library, C_LIBRARY);
    if ours.is_none() || processor(&machine) != ours || !needs_the_same {
        return Err("the JVM is built for another C library or processor");
    }
    let launcher = start.command.executable();
    let own = plan.own.as_deref().and_then(loader_of);
    if !launcher.is_some_and(|java| is_loader_of(java, own.as_deref())) {
        return Err("the JVM does not run with the C library that plimsoll runs with");
    }
    if let Some(why) = agent::refused_at_start(given) {
        return Err(why);
    }
    // The machine ends the path there.
    if library.as_os_str().as_encoded_bytes().contains(&b'=') {
        return Err("the path of its library contains =");
    }
    let mut option = OsString::from("-agentpath:");
    option.push(library);
    Ok(Some(option))
}

/// The C library that the agent is linked with.
const C_LIBRARY: &str = "libc.so.6";
/// The loader of that library where a distribution puts it.
const LOADER: &str = if cfg!(target_arch = "x86_64") {
    "/lib64/ld-linux-x86-64.so.2"
} else {
    "/lib/ld-linux-aarch64.so.1"
};

/// Whether a launcher is started by our own loader: `own`, or the usual one where we have none. An
/// installation that brings its own C library, perhaps an older one, has a loader of its own, too (those of
/// Nix and Guix).
fn is_loader_of(launcher: &Path, own: Option<&Path>) -> bool {
    let own = own.unwrap_or(Path::new(LOADER));
    let is_own = |theirs: &Path| {
        let files = theirs.canonicalize().ok().zip(own.canonicalize().ok());
        theirs == own || files.is_some_and(|(theirs, own)| theirs == own)
    };
    loader_of(launcher).is_some_and(|theirs| is_own(&theirs))
}

fn loader_of(executable: &Path) -> Option<PathBuf> {
    Elf::at(executable)?.interpreter()
}

fn surroundings(plan: &Plan) -> Surroundings {
    Surroundings {
        budget: plan.budget,
        memory: plan.memory,
        group: plan.group,
        beyond: plan.beyond,
        cliff: plan.cliff,
        own_rule: plan.own_rule,
        ..Surroundings::of_self()
    }
}

/// Adds flags for a virtual machine that another program starts. The launcher puts the variable's
/// words before its command line and says so on standard error, so this is done only on request.
fn inside(start: &Start<'_>) -> Addition {
    let setting = start.command.setting;
    if start.plan.own_rule {
        return Addition {
            steered: true,
            ..Addition::default()
        };
    }
    // Its command line is unknown, but its environment is known.
    let given = Given::collect([], setting);
    let added = flags::for_any(&given, &surroundings(start.plan));
    let mut addition = Addition {
        steered: true,
        notes: added.notes,
        ..Addition::default()
    };
    if added.flags.is_empty() {
        return addition;
    }
    let mut value = OsString::from(added.flags.join(" "));
    if let Some(old) = (setting.variables)(LAUNCHER).filter(|old| !old.is_empty()) {
        value.push(" ");
        value.push(old);
    }
    let note = format!("{LAUNCHER}={}", value.to_string_lossy());
    addition.notes.push(note);
    let variable = (OsString::from(LAUNCHER), value);
    addition.environment.push(variable);
    addition
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Shared, prepare, prepare_in};
    use crate::lever_options::Chosen;
    use crate::testing::with_variables;
    use plimsoll_programs::Setting;
    use plimsoll_programs::hotspot::HotSpot;
    use plimsoll_unit::Bytes;

    /// The flags that the imitated machine knows.
    const FLAGS: &[u8] = b"GCTimeRatio\0ExplicitGCInvokesConcurrent\0NewRatio\0";

    /// A directory that looks like a JDK, and its launcher.
    fn jdk() -> (tempfile::TempDir, OsString) {
        let home = tempfile::tempdir().unwrap();
        let library = plimsoll_testbed::elf::with_sections(&[(".rodata", FLAGS)]);
        for (file, content) in [("bin/java", vec![]), ("lib/server/libjvm.so", library)] {
            let file = home.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
        }
        let java = home.path().join("bin/java").into_os_string();
        (home, java)
    }

    fn plan() -> Plan {
        Plan {
            budget: Some(Bytes::mib(1500)),
            memory: Some(Bytes(24 << 30)),
            ..Plan::default()
        }
    }

    /// The additions to a command line with these variables in its environment.
    fn added(arguments: &str, variables: &[(&str, &str)]) -> String {
        let (_home, java) = jdk();
        let mut argv = vec![java];
        argv.extend(arguments.split(' ').map(OsString::from));
        let prepared = with_variables(variables, |setting| prepare_in(&argv, &plan(), setting));
        assert_eq!(prepared.runtime.name(), "hotspot");
        let new = prepared.argv.len() - argv.len();
        assert_eq!(prepared.argv[new + 1..], argv[1..]);
        let new: Vec<String> = prepared.argv[1..=new]
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        new.join(" ")
    }

    #[test]
    fn what_variables_give_wins_over_what_is_added() {
        let nothing = added("-XX:+UseG1GC -jar a.jar", &[]);
        assert!(
            nothing.contains("-Xmx1593m") && nothing.contains("GCTimeRatio"),
            "{nothing}"
        );
        let value = "--add-opens java.base/java.lang=ALL-UNNAMED -Xmx2g";
        let less = added("-jar a.jar", &[(LAUNCHER, value)]);
        assert!(!less.contains("-Xmx"), "{less}");
        let value = "-Dname=\"My App\" -Xmx2g -XX:GCTimeRatio=9";
        let less = added("-jar a.jar", &[("JAVA_TOOL_OPTIONS", value)]);
        assert!(
            !less.contains("-Xmx") && !less.contains("GCTimeRatio"),
            "{less}"
        );
        let arguments = "--add-opens java.base/java.nio=ALL-UNNAMED -Xms2g -jar a.jar";
        let less = added(arguments, &[]);
        assert!(!less.contains("-Xm"), "{less}");
    }

    #[test]
    fn a_heap_may_become_what_it_may_alone_although_others_hold_the_memory_now() {
        let budget = |capacity: u64, outsiders: u64, budget: u64| {
            let plan = Plan {
                budget: Some(Bytes::mib(budget)),
                shared: Some(Shared {
                    capacity: Bytes::mib(capacity),
                    some_day: Bytes::mib(budget + outsiders),
                }),
                ..Plan::default()
            };
            plan.of(&HotSpot).budget.unwrap().0 >> 20
        };
        assert_eq!(budget(24000, 1000, 22000), 22000);
        assert_eq!(budget(24000, 22000, 1000), 6000);
        assert_eq!(budget(350, 250, 80), 126);
        // A budget that is bounded on purpose stays bounded.
        assert_eq!(budget(24000, 500, 2000), 2500);
    }

    #[test]
    fn a_machine_that_is_too_old_is_given_nothing() {
        let (home, java) = jdk();
        let argv = [java, "A".into()];
        let added = |release: &str| {
            std::fs::write(home.path().join("release"), release).unwrap();
            prepare(&argv, &plan()).argv.len() - argv.len()
        };
        assert_eq!(added("JAVA_VERSION=\"1.8.0_402\"\n"), 0);
        assert_eq!(added("OS_NAME=\"Linux\"\nJAVA_VERSION=\"10.0.2\"\n"), 0);
        for known in [
            "OS_NAME=\"Linux\"\nJAVA_VERSION=\"11.0.13\"\n",
            "JAVA_VERSION=\"17.0.15\"\n",
            "JAVA_VERSION=\"25\"\n",
            "",
            "JAVA_VERSION=",
        ] {
            assert!(added(known) > 0, "{known}");
        }
    }

    #[test]
    fn the_agent_is_left_out_of_a_version_that_it_was_not_tried_in() {
        let (home, java) = jdk();
        let own = home.path().join("plimsoll");
        let plan = Plan {
            chosen: Chosen::of([("agent", "auto")]),
            own: Some(own.clone()),
            ..plan()
        };
        let argv = [java, "-XX:+UseSerialGC".into(), "A".into()];
        let notes = |release: &str| {
            std::fs::write(home.path().join("release"), release).unwrap();
            let prepared = prepare(&argv, &plan);
            let words = prepared.argv.iter().map(|word| word.to_string_lossy());
            assert!(!words.into_iter().any(|word| word.contains("agentpath")));
            prepared.notes.join(" ")
        };
        let known = "JAVA_VERSION=\"21.0.1\"\n";
        assert!(notes(known).contains("not installed beside"));
        std::fs::write(own.with_file_name(agent::LIBRARY), "library").unwrap();
        for unknown in ["", "JAVA_VERSION=\"26\"\n", "JAVA_VERSION=\"99.0.1\"\n"] {
            let notes = notes(unknown);
            assert!(notes.contains("left out: this version"), "{notes}");
        }
        let another = notes(known);
        assert!(another.contains("another C library"), "{another}");
    }

    /// The agent and the machine are for processor 62, the launcher has the loader of `own`.
    #[test]
    fn the_agent_is_added_only_to_a_machine_with_our_processor_and_c_library() {
        const LIBC: [&str; 1] = ["libc.so.6"];
        let (home, java) = jdk();
        let home = home.path();
        std::fs::write(home.join("release"), "JAVA_VERSION=\"21.0.1\"\n").unwrap();
        let own = home.join("plimsoll");
        let plan = Plan {
            chosen: Chosen::of([("agent", "auto")]),
            own: Some(own.clone()),
            ..plan()
        };
        let argv = [java, "-XX:+UseSerialGC".into(), "A".into()];
        let write = |file: &str, bytes: Vec<u8>| std::fs::write(home.join(file), bytes).unwrap();
        let program = plimsoll_testbed::elf::program;
        write(agent::LIBRARY, program(62, None, &LIBC));
        let notes = |machine: u16, needs: &[&str], theirs: Option<&str>, ours: Option<&str>| {
            write("lib/server/libjvm.so", program(machine, None, needs));
            write("bin/java", program(62, theirs, &LIBC));
            write("plimsoll", program(62, ours, &LIBC));
            prepare(&argv, &plan).notes.join("\n")
        };
        let is_added = |notes: &str| notes.contains("-agentpath:");
        let (usual, nix) = (Some(LOADER), Some("/nix/store/x-glibc-2.30/lib/ld.so"));
        for (theirs, ours) in [(usual, usual), (usual, None), (nix, nix)] {
            let told = notes(62, &LIBC, theirs, ours);
            assert!(is_added(&told), "{told}");
        }
        for (theirs, ours) in [
            (nix, usual),
            (usual, nix),
            (nix, None),
            (None, None),
            (None, usual),
        ] {
            let told = notes(62, &LIBC, theirs, ours);
            assert!(
                !is_added(&told) && told.contains("that plimsoll runs with"),
                "{told}"
            );
        }
        for (machine, needs) in [(183, &LIBC[..]), (62, &["libc.musl-x86_64.so.1"][..])] {
            let told = notes(machine, needs, usual, usual);
            assert!(
                !is_added(&told) && told.contains("another C library or processor"),
                "{told}"
            );
        }
        // Another way to the same loader.
        let (real, link) = (home.join("ld.so"), home.join("link.so"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let told = notes(62, &LIBC, link.to_str(), real.to_str());
        assert!(is_added(&told), "{told}");
    }

    #[test]
    fn what_a_program_in_another_folder_is_given_is_found_there() {
        let (home, _java) = jdk();
        std::fs::write(home.path().join("options"), "-Xmx2g").unwrap();
        std::fs::write(home.path().join("flags"), "-XX:GCTimeRatio=9").unwrap();
        let argv = ["bin/java", "@options", "-XX:VMOptionsFile=flags", "A"].map(OsString::from);
        let setting = Setting {
            variables: &|_: &str| None,
            folder: home.path(),
        };
        let prepared = prepare_in(&argv, &plan(), &setting);
        let added = prepared.notes.join(" ");
        assert_eq!(prepared.runtime.name(), "hotspot");
        assert!(added.contains("-XX:+Explicit"), "{added}");
        assert!(
            !added.contains("-Xmx") && !added.contains("GCTimeRatio"),
            "{added}"
        );
    }

    #[test]
    fn what_is_passed_on_stands_before_what_was_there_and_spares_the_rest() {
        let plan = Plan {
            said: Some("hotspot"),
            ..plan()
        };
        let variable = |name: &str| match name {
            LAUNCHER => Some(OsString::from("-Da='b c'")),
            "JAVA_TOOL_OPTIONS" => Some(OsString::from("-XX:MarkSweepDeadRatio=5 -Xmx1g")),
            _ => None,
        };
        let argv = ["sh", "start.sh"].map(OsString::from);
        let setting = Setting {
            variables: &variable,
            folder: Path::new(""),
        };
        let prepared = prepare_in(&argv, &plan, &setting);
        assert_eq!(prepared.argv, argv);
        assert_eq!(prepared.adapter, Some("hotspot"));
        let (name, value) = &prepared.environment[0];
        let value = value.to_string_lossy();
        assert_eq!(name, LAUNCHER);
        assert!(value.ends_with(" -Da='b c'"), "{value}");
        assert!(value.contains("ShrinkHeapInSteps"), "{value}");
        assert!(
            !value.contains("MarkSweepDeadRatio") && !value.contains("MaxRAM"),
            "{value}"
        );
    }
}
