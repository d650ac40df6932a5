//! What to add to a command line and to its environment, so that the program can be steered when it runs.

use crate::detect::{self, Runtime};
use crate::hotspot::flags::{self, Given, Known, LAUNCHER, Surroundings};
use crate::libgc::{Libraries, Wish};
use crate::setting::Setting;
use std::ffi::OsString;

/// What is known before the start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Bytes that the broker has to share out, when it is known: a program alone should be able to
    /// use all of it.
    pub budget: Option<u64>,
    /// Bytes of memory of the machine, or of the lowest limit above: what a virtual machine takes for its
    /// memory.
    pub memory: Option<u64>,
    /// Bytes of the lowest limit of a group above, where that is below the machine's memory.
    pub group: Option<u64>,
    /// Nothing can be paged out where the program will be: who is over the limit there is killed.
    pub cliff: bool,
    /// What the user says that it is, whatever it looks like: a script, a build tool, a program
    /// with libraries of its own.
    pub said: Option<Runtime>,
    /// What there is for programs that use libgc.
    pub libraries: Libraries,
    /// Which of it they get.
    pub wish: Wish,
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
    /// Who will steer it, as `Register` takes it; none for a passive program.
    pub adapter: Option<&'static str>,
    /// What was added and why, one line each, for `-v`.
    pub notes: Vec<String>,
}

/// Adds what makes the program elastic; what the user gave wins, wherever it stands.
pub fn prepare(argv: &[OsString], plan: &Plan) -> Prepared {
    prepare_in(argv, plan, &Setting::ours())
}

/// As [`prepare`], for a program that does not start where we are.
pub fn prepare_in(argv: &[OsString], plan: &Plan, setting: &Setting<'_>) -> Prepared {
    let runtime = detect::of_command(argv, setting);
    let mut prepared = Prepared {
        argv: argv.to_vec(),
        environment: Vec::new(),
        runtime,
        adapter: plan.said.unwrap_or(runtime).adapter(),
        notes: Vec::new(),
    };
    match runtime {
        // What is said of it or not, it would not understand what is added. Why is said when it runs.
        Runtime::OpenJ9 | Runtime::NativeImage => prepared.adapter = None,
        Runtime::HotSpot => java(&mut prepared, plan, setting),
        _ if plan.said == Some(Runtime::HotSpot) => java_inside(&mut prepared, plan, setting),
        _ if plan.said == Some(Runtime::LibGc) => libgc(&mut prepared, plan, setting),
        Runtime::LibGc => libgc(&mut prepared, plan, setting),
        Runtime::Other => prepared.notes.push(
            "nothing is added to a program that is neither Java nor uses libgc; a Java virtual machine \
             that it \
             starts is found and steered as far as it goes without start flags (`--adapter hotspot` \
             passes them on \
             in JDK_JAVA_OPTIONS)"
                .to_owned(),
        ),
    }
    prepared
}

fn java(prepared: &mut Prepared, plan: &Plan, setting: &Setting<'_>) {
    let words = prepared.argv.iter().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let given = Given::collect(words, setting);
    let around = Surroundings {
        version: detect::java_version(&prepared.argv, setting),
        known: detect::libjvm(&prepared.argv, setting)
            .map_or_else(Known::default, |p| Known::of(&p)),
        ..surroundings(plan)
    };
    let added = flags::start(&given, &around);
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

fn surroundings(plan: &Plan) -> Surroundings {
    Surroundings {
        budget: plan.budget,
        memory: plan.memory,
        group: plan.group,
        cliff: plan.cliff,
        ..Surroundings::of_self()
    }
}

/// For a virtual machine that something else starts. Its launcher puts the variable's words before
/// those of its own command line, and says so on standard error: that is why it is only done when
/// asked for.
fn java_inside(prepared: &mut Prepared, plan: &Plan, setting: &Setting<'_>) {
    // What its command line will say is not known, but its environment is.
    let given = Given::collect([], setting);
    let added = flags::for_any(&given, &surroundings(plan));
    prepared.notes.extend(added.notes);
    if added.flags.is_empty() {
        return;
    }
    let mut value = OsString::from(added.flags.join(" "));
    if let Some(old) = (setting.variables)(LAUNCHER).filter(|old| !old.is_empty()) {
        value.push(" ");
        value.push(old);
    }
    prepared
        .notes
        .push(format!("{LAUNCHER}={}", value.to_string_lossy()));
    prepared.environment.push((OsString::from(LAUNCHER), value));
}

fn libgc(prepared: &mut Prepared, plan: &Plan, setting: &Setting<'_>) {
    let executable = detect::executable(&prepared.argv, setting);
    prepared.adapter = None;
    if let Some(why) = executable.as_deref().and_then(detect::privileges) {
        prepared.notes.push(format!(
            "libgc: the program {why}, so the loader takes no library from us: it is passive"
        ));
        return;
    }
    let put = plan
        .libraries
        .put(plan.wish, executable.as_deref(), setting);
    prepared.adapter = Runtime::LibGc.adapter().filter(|_| put.steered);
    prepared.notes.push(put.note);
    prepared.environment.extend(put.environment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The flags that the made-up machine knows.
    const FLAGS: &[u8] = b"GCTimeRatio\0ExplicitGCInvokesConcurrent\0NewRatio\0";

    /// A directory that looks like a JDK, and its launcher.
    fn jdk() -> (tempfile::TempDir, OsString) {
        let home = tempfile::tempdir().unwrap();
        let library = crate::elf::made_up(&[(".rodata", FLAGS)]);
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
            budget: Some(1500 << 20),
            memory: Some(24 << 30),
            ..Plan::default()
        }
    }

    /// What is added to a command line beside these variables.
    fn added(arguments: &str, variables: &[(&str, &str)]) -> String {
        let (_home, java) = jdk();
        let mut argv = vec![java];
        argv.extend(arguments.split(' ').map(OsString::from));
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let setting = Setting {
            variables: &variable,
            folder: Path::new(""),
        };
        let prepared = prepare_in(&argv, &plan(), &setting);
        assert_eq!(prepared.runtime, Runtime::HotSpot);
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
    fn what_is_said_to_use_libgc_is_given_its_adapter() {
        let plan = Plan {
            said: Some(Runtime::LibGc),
            libraries: Libraries {
                drop_in: None,
                adapter: Some("/agent.so".into()),
            },
            ..plan()
        };
        let nothing = Setting {
            variables: &|_: &str| None,
            folder: Path::new(""),
        };
        let prepared = prepare_in(&["./tool.scm".into()], &plan, &nothing);
        assert_eq!(
            prepared.environment,
            [("LD_PRELOAD".into(), OsString::from("/agent.so"))]
        );
        assert_eq!(prepared.adapter, Some("libgc"));
        let nothing_there = Plan {
            libraries: Libraries::default(),
            ..plan
        };
        let prepared = prepare_in(&["./tool.scm".into()], &nothing_there, &nothing);
        assert_eq!((prepared.adapter, prepared.environment.len()), (None, 0));
    }

    #[test]
    fn a_set_user_id_program_is_passive() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("tool");
        std::fs::write(&program, "").unwrap();
        let plan = Plan {
            said: Some(Runtime::LibGc),
            libraries: Libraries {
                drop_in: Some("/g/libgc.so.1".into()),
                adapter: None,
            },
            ..plan()
        };
        let adapter = |mode| {
            std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
            prepare(&[program.clone().into_os_string()], &plan).adapter
        };
        assert_eq!(adapter(0o755), Some("libgc"));
        // Ours already: who starts it gains nothing, and the loader takes what it is given.
        assert_eq!(adapter(0o4755), Some("libgc"));
        if std::os::unix::fs::chown(&program, Some(4711), None).is_ok() {
            assert_eq!(adapter(0o4755), None);
            assert_eq!(adapter(0o755), Some("libgc"));
        }
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
        assert_eq!(prepared.runtime, Runtime::HotSpot);
        assert!(added.contains("-XX:+Explicit"), "{added}");
        assert!(
            !added.contains("-Xmx") && !added.contains("GCTimeRatio"),
            "{added}"
        );
    }

    #[test]
    fn what_is_passed_on_stands_before_what_was_there_and_spares_the_rest() {
        let plan = Plan {
            said: Some(Runtime::HotSpot),
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

    #[test]
    fn what_only_looks_like_java_is_given_nothing_whatever_is_said_of_it() {
        // Neither can be had here: folders and files that look like them.
        let (j9, java) = jdk();
        let main = j9.path().join("lib/default/libj9vm29.so");
        std::fs::create_dir_all(main.parent().unwrap()).unwrap();
        std::fs::write(main, "").unwrap();
        let image = j9.path().join("tool");
        std::fs::write(&image, crate::elf::made_up(&[(".svm_heap", b"x")])).unwrap();
        for (program, runtime) in [
            (java, Runtime::OpenJ9),
            (image.into_os_string(), Runtime::NativeImage),
        ] {
            for said in [None, Some(Runtime::HotSpot), Some(Runtime::LibGc)] {
                let argv = [program.clone(), "A".into()];
                let prepared = prepare(&argv, &Plan { said, ..plan() });
                assert_eq!((prepared.runtime, prepared.adapter), (runtime, None));
                assert!(prepared.argv == argv && prepared.environment.is_empty());
            }
        }
    }
}
