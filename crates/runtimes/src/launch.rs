//! Adds to a command line and its environment what makes the program steerable.

pub use crate::runtime::{Plan, Shared};

use crate::ALL;
use crate::list::Runtimes;
use crate::runtime::{Runtime, Start};
use plimsoll_programs::Command;
use plimsoll_programs::Setting;
use std::ffi::OsString;

/// A program that is ready to start.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The command line, including additions.
    pub argv: Vec<OsString>,
    /// Environment variables to set. An old value is kept as a part of the new one.
    pub environment: Vec<(OsString, OsString)>,
    /// The runtime that was recognised, even if the user named another.
    pub runtime: &'static dyn Runtime,
    /// The adapter that will steer it, as `Register` takes it; none for a passive program.
    pub adapter: Option<&'static str>,
    /// The additions and their reasons, in one line each, for `-v`.
    pub notes: Vec<String>,
}

/// Adds the arguments and variables that make the program elastic. The user's own ones win,
/// wherever they stand.
pub fn prepare(argv: &[OsString], plan: &Plan) -> Prepared {
    prepare_in(argv, plan, &Setting::ours())
}

/// As [`prepare`], for a program that starts in another setting than ours.
pub fn prepare_in(argv: &[OsString], plan: &Plan, setting: &Setting<'_>) -> Prepared {
    prepare_among(ALL, argv, plan, setting)
}

/// As [`prepare_in`], with these runtimes instead of [`ALL`].
pub fn prepare_among(
    runtimes: Runtimes,
    argv: &[OsString],
    plan: &Plan,
    setting: &Setting<'_>,
) -> Prepared {
    let command = Command::new(argv, setting);
    let found = runtimes.of_command(&command);
    let said = plan.said.and_then(|choice| runtimes.chosen(choice));
    let runtime = said.filter(|_| found.gives_way()).unwrap_or(found);
    let added = runtime.prepare(&Start {
        command: &command,
        plan: &plan.of(runtime),
        recognised: runtime.name() == found.name(),
    });
    let mut argv = argv.to_vec();
    let first = argv.len().min(1);
    argv.splice(first..first, added.arguments);
    Prepared {
        argv,
        environment: added.environment,
        runtime: found,
        adapter: runtime.adapter().filter(|_| added.steered),
        notes: added.notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::Bytes;

    #[test]
    fn what_only_looks_like_java_is_given_nothing_whatever_is_said_of_it() {
        // Neither is available to tests, so this imitates their folders and files.
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, content: Vec<u8>| {
            let file = home.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            file.into_os_string()
        };
        write("lib/server/libjvm.so", vec![]);
        write("lib/default/libj9vm29.so", vec![]);
        let java = write("bin/java", vec![]);
        let image = write(
            "tool",
            plimsoll_testbed::elf::with_sections(&[(".svm_heap", b"x")]),
        );
        for (program, runtime) in [(java, "openj9"), (image, "native-image")] {
            for said in [None, Some("hotspot"), Some("libgc")] {
                let argv = [program.clone(), "A".into()];
                let plan = Plan {
                    budget: Some(Bytes::mib(1500)),
                    said,
                    ..Plan::default()
                };
                let prepared = prepare(&argv, &plan);
                assert_eq!((prepared.runtime.name(), prepared.adapter), (runtime, None));
                assert!(prepared.argv == argv && prepared.environment.is_empty());
            }
        }
    }

    #[test]
    fn what_is_unknown_or_empty_stays_as_it_is() {
        let nothing = Setting {
            variables: &|_: &str| None,
            folder: std::path::Path::new(""),
        };
        let plan = Plan {
            said: Some("no-such-adapter"),
            ..Plan::default()
        };
        for argv in [vec![], vec![OsString::from("./no-such-program")]] {
            let prepared = prepare_in(&argv, &plan, &nothing);
            assert_eq!(
                (prepared.runtime.name(), prepared.adapter),
                ("passive", None)
            );
            assert!(prepared.argv == argv && prepared.environment.is_empty());
        }
    }
}
