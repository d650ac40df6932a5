//! Machines that see files other than ours, or that we may not look into.

use crate::support::{Program, counters, eventually};
use crate::{NOBODY, answer_of, ask, files, goes_on, is_root, is_undisturbed, java, reachable};
use plimsoll_kernel::identity::as_user;
use plimsoll_programs::hotspot::is_machine;
use plimsoll_runtimes::hotspot::attach::AttachError;
use plimsoll_runtimes::process::Process;
use std::path::Path;

#[test]
fn a_machine_with_capabilities_that_its_user_has_not_is_reached_by_that_user() {
    let Some((_, home)) = java() else { return };
    if !is_root("capabilities") {
        return;
    }
    let before = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all,+net_bind_service",
        "--ambient-caps=-all,+net_bind_service",
    ];
    let Some(before) = reachable(&home, &before) else {
        return;
    };
    let program = Program::start(&home, before, &["-Xmx64m"], &["5", "10"]);
    let process = Process::new(program.child.id()).unwrap();
    let as_nobody = |what: &(dyn Fn() -> bool + Sync)| as_user(NOBODY, NOBODY, what).unwrap();
    eventually("it is told by its counters", || {
        as_nobody(&|| is_machine(&process))
    });
    assert!(as_nobody(&|| process.inner_directory("tmp").is_err()));
    eventually("it answers", || as_nobody(&|| ask(process).is_ok()));
    goes_on(&program);
    is_undisturbed(&program);
}

#[test]
fn a_machine_in_a_user_namespace_is_asked_by_its_own_user() {
    if !is_root("another user's namespace") {
        return;
    }
    let Some((_, home)) = java() else { return };
    let user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let spaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid"];
    let rest = ["--fork", "--mount-proc", "--kill-child"];
    let before = [&user[..], &spaces[..], &rest[..]].concat();
    let Some(before) = reachable(&home, &before) else {
        return;
    };
    let shell = ["sh", "-c", "mount -t tmpfs none /tmp && exec \"$0\" \"$@\""];
    let before = [before, &shell[..]].concat();
    let program = Program::start(&home, &before, &["-Xmx64m"], &["5", "10"]);
    let process = program.machine();
    assert_ne!(process.status().unwrap().inner_pid, process.pid);
    assert_eq!(process.status().unwrap().euid, NOBODY);
    drop(counters(&process));
    answer_of(process).unwrap();
    assert!(!files(&process)[0].exists());
    goes_on(&program);
    is_undisturbed(&program);
}

/// Puts a file system of its own over the working directory, with `args` in it, and becomes the program.
const ITS_OWN_FILES: &str = "mount -t tmpfs none \"$PWD\" && cd \"$PWD\" && \
                             printf '%s' \"$OPTIONS\" > args && exec \"$@\"";

/// A machine that finds `options` in a file that does not exist for us or has other contents for
/// us.
fn with_its_own_files(home: &Path, folder: &Path, options: &str, words: &[&str]) -> Program {
    let cwd = format!("--wd={}", folder.display());
    let options = format!("OPTIONS={options}");
    let before = ["env", &options, "unshare", "--mount", &cwd];
    let before = [&before[..], &["sh", "-c", ITS_OWN_FILES, "sh"]].concat();
    Program::start(home, &before, words, &["5", "10"])
}

#[test]
fn files_with_options_are_read_where_the_machine_has_them() {
    if !is_root("another mount namespace") {
        return;
    }
    let Some((_, home)) = java() else { return };
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("args").display().to_string();
    let here = format!("@{named}");
    let option_file = format!("-XX:VMOptionsFile={named}");
    let long = format!("-Dx={}", "y".repeat(3000));
    let (here, option_file, long) = (here.as_str(), option_file.as_str(), long.as_str());
    let (hidden, off) = ("-XX:-UsePerfData", "-XX:+DisableAttachMechanism");
    for (words, ours, its, answers) in [
        // First a file that does not exist for us, then one with other contents for us.
        ([long, "@args"], None, "-Xmx64m", true),
        ([long, here], Some(off), "-Xmx64m", true),
        ([hidden, option_file], Some(off), "-Xmx64m", true),
        ([hidden, "@args"], Some("-Xmx64m"), off, false),
        ([hidden, here], Some("-Xmx64m"), off, false),
    ] {
        match ours {
            Some(text) => std::fs::write(&named, text).unwrap(),
            None => drop(std::fs::remove_file(&named)),
        }
        let program = with_its_own_files(&home, folder.path(), its, &words);
        // For a moment a machine that has just started may not be known, and is asked again later.
        let mut answer = Ok(());
        eventually("it is known", || {
            answer = answer_of(program.machine());
            !answer.as_ref().is_err_and(AttachError::is_early)
        });
        let refused = matches!(answer, Err(AttachError::Refused { .. }));
        assert!(
            answer.is_ok() == answers && refused != answers,
            "{words:?}: {answer:?}"
        );
        goes_on(&program);
        is_undisturbed(&program);
    }
}

/// A file that is closed to us or gone may have contained anything.
#[test]
fn files_with_options_that_cannot_be_found_there_are_not_taken_for_nothing() {
    if !is_root("another mount namespace") {
        return;
    }
    let Some((_, home)) = java() else { return };
    let folder = tempfile::tempdir().unwrap();
    let words = ["-XX:-UsePerfData", "@args"];
    let program = with_its_own_files(&home, folder.path(), "-Xmx64m", &words);
    let process = program.machine();
    std::fs::write(folder.path().join("args"), "-Xmx64m").unwrap();
    std::fs::remove_file(process.path("cwd/args")).unwrap();
    let answer = answer_of(process);
    assert!(
        matches!(answer, Err(AttachError::NotKnown { .. })),
        "{answer:?}"
    );
    is_undisturbed(&program);
}
