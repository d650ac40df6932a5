//! Things that the collector was not told about: libraries that are loaded and unloaded,
//! unregistered threads, stacks of handlers and coroutines, a program with other rights.
//!
//! The programs are in `tests/c-alone`; some of them crash with libgc.

#[path = "support/library.rs"]
mod library;
#[path = "support/programs.rs"]
mod programs;
#[path = "support/sound.rs"]
mod sound;
#[path = "support/stressed.rs"]
mod stressed;

use plimsoll_testbed::skip;
use programs::{compile, compile_with, temporary};
use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const LIBRARY: &str = "strangers";

fn sound(name: &str, arguments: &[&str], variables: &[(&str, &str)]) {
    sound::sound(LIBRARY, name, arguments, variables);
}

#[test]
fn threads_that_are_not_registered() {
    sound("unknown", &[], &[]);
}

/// As in ECL, where a division by zero is to raise a signal.
#[test]
fn exceptions_of_floating_point_numbers_raise_no_signal_in_a_collection() {
    sound("floats", &[], &[]);
}

#[test]
fn a_function_that_runs_with_the_lock_allocates() {
    sound("lent", &[], &[]);
}

#[test]
fn uncollectable_bytes_are_counted_exactly_by_one_thread_and_by_several() {
    sound("held", &[], &[]);
}

#[test]
fn threads_that_end_after_their_destructors() {
    sound("ends", &[], &[]);
}

#[test]
fn stacks_that_nobody_told_of() {
    sound("elsewhere", &[], &[]);
    sound("elsewhere", &["blind"], &[]);
}

/// Makes `count` copies of a library, to be loaded one by one, in a directory of that name. `None`
/// if there is no compiler.
fn plugins(name: &str, count: usize) -> Option<String> {
    let directory = temporary().join(name);
    let _ = fs::create_dir(&directory);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c-alone/plugin.c");
    let first = directory.join("plugin-0.so");
    let made = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC"])
        .arg(source)
        .arg("-o")
        .arg(&first)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        skip("no C compiler");
        return None;
    }
    for number in 1..count {
        let copy = directory.join(format!("plugin-{number}.so"));
        fs::copy(&first, copy).expect("the directory for tests can be written to");
    }
    Some(directory.display().to_string())
}

fn unloading(who: &str, threads: usize, variables: &[(&str, &str)]) {
    let stress = if variables.is_empty() { "" } else { "stress" };
    if let Some(directory) = plugins(&format!("plugins-{who}{stress}"), threads) {
        let threads = threads.to_string();
        let arguments = [directory.as_str(), who, &threads, stress];
        sound("unloading", &arguments, variables);
    }
}

#[test]
fn libraries_are_unloaded_by_registered_threads() {
    unloading("registered", 4, &[]);
}

#[test]
fn libraries_are_unloaded_by_threads_that_nobody_stops() {
    unloading("unregistered", 4, &[]);
    unloading("blocking", 4, &[]);
}

#[test]
fn libraries_are_unloaded_by_threads_that_block_signals() {
    unloading("unwilling", 2, &[]);
}

#[test]
fn libraries_are_unloaded_by_fifty_threads() {
    unloading("all", 50, &[]);
}

/// While the C library unloads a library, its calls of `free` wait for a stopped thread.
#[test]
fn libraries_are_unloaded_while_a_stopped_thread_allocates() {
    for who in ["unregistered", "blocking", "unwilling"] {
        if let Some(directory) = plugins(&format!("plugins-allocator-{who}"), 1) {
            sound("unloader", &[directory.as_str(), who], &[]);
            sound("unloader", &[directory.as_str(), who, "many"], &[]);
        }
    }
}

/// Every third collection is in steps.
#[test]
fn libraries_are_unloaded_between_steps() {
    unloading("registered", 3, &[("PLIMSOLL_GC_STRESS", "40")]);
    unloading("all", 8, &[("PLIMSOLL_GC_STRESS", "100")]);
}

/// Tools under which developers run their programs.
#[test]
fn under_sanitizers_and_valgrind() {
    let run = |program: &Path, within: &[&str]| {
        let arguments: Vec<_> = within.iter().map(Path::new).chain([program]).collect();
        let mut command = Command::new(arguments[0]);
        command
            .args(&arguments[1..])
            .args(["12", "4"])
            .env("LD_LIBRARY_PATH", programs::library(LIBRARY))
            // The sanitizer's own leak search does not know the collector's memory.
            .env(
                "ASAN_OPTIONS",
                "detect_stack_use_after_return=0:detect_leaks=0",
            );
        let name = format!("developed-{}", within.len());
        let said = programs::Running::start(&mut command, &name)
            .end(sound::PATIENCE)
            .unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        assert!(said.contains("sound\n"), "{arguments:?}: {said}");
    };
    let source = "tests/c-alone/lives.c";
    let sanitizer = ["-fsanitize=address,undefined"];
    if let Some(program) = compile_with(source, "developed-sanitized", &sanitizer) {
        run(&program, &[]);
    }
    let there = Command::new("valgrind").arg("--version").output();
    if !there.is_ok_and(|said| said.status.success()) {
        skip("no valgrind");
    } else if let Some(program) = compile(source, "developed") {
        run(&program, &["valgrind", "-q", "--undef-value-errors=no"]);
    }
}

#[test]
fn nothing_from_the_environment_of_others_is_believed() {
    /// A group other than root's.
    const GROUP: u32 = 65_534;
    let library = programs::library(LIBRARY);
    let place = format!("-Wl,-rpath,{}", library.display());
    let Some(program) = compile_with("tests/c-alone/secure.c", "secure", &[&place]) else {
        return;
    };
    let log = temporary().join("secure.log");
    let run = || {
        let _ = fs::remove_file(&log);
        let output = Command::new(&program)
            .env("GC_LOG_FILE", &log)
            .env("GC_PRINT_STATS", "1")
            .env("GC_FREE_SPACE_DIVISOR", "7")
            .env("GC_DONT_GC", "1")
            .env("GC_ENABLE_INCREMENTAL", "1")
            .env("PLIMSOLL_PAGE", "/dev/null")
            .env("PLIMSOLL_GC_MEANS", "nothing")
            .output()
            .expect("it was compiled");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (said, log.exists())
    };
    let (said, logged) = run();
    assert_eq!(said, "secure 0, divisor 7, disabled 1, threads 2\n");
    assert!(logged);
    let set_group_id = Permissions::from_mode(0o2755);
    if chown(&program, None, Some(GROUP)).is_err()
        || set_permissions(&program, set_group_id).is_err()
    {
        skip("files cannot be given to another group here");
        return;
    }
    let (said, logged) = run();
    if said.starts_with("secure 0") {
        skip("the file system takes no notice of set-group-ID");
        return;
    }
    assert_eq!(said, "secure 1, divisor 3, disabled 0, threads 1\n");
    assert!(!logged);
}
