//! Programs with mistakes, and programs to which the kernel refuses things: live objects stay
//! intact to the end.
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

use plimsoll_kernel::advise::{Advice, advise};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{SwapFile, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use programs::{Running, compile, temporary};
use sound::PATIENCE;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The name of the library's directory.
const LIBRARY: &str = "unlucky";

fn sound(name: &str, arguments: &[&str], variables: &[(&str, &str)]) {
    sound::sound(LIBRARY, name, arguments, variables);
}

/// Much of the heap is absent, so that kernel calls matter.
const STRESS: (&str, &str) = ("PLIMSOLL_GC_STRESS", "40");

/// Whether a file holds a text.
fn holds(file: &Path, text: &str) -> bool {
    let bytes = std::fs::read(file).expect("cargo built it");
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn the_installed_library_knows_no_variables_of_tests() {
    let (installed, stressed) = (library::built(), stressed::built());
    for name in stressed::VARIABLES {
        assert!(!holds(&installed, name), "{name} in {installed:?}");
        assert!(holds(&stressed, name), "{name} not in {stressed:?}");
    }
}

/// How many collections a program tells of, on the library of a directory.
fn collections(directory: &Path, name: &str) -> Option<usize> {
    let program = compile("tests/c-alone/mistakes.c", name)?;
    let mut command = Command::new(program);
    command
        .envs([STRESS, ("GC_PRINT_STATS", "1")])
        .env("LD_LIBRARY_PATH", directory);
    let said = Running::start(&mut command, name).end(PATIENCE);
    let said = said.unwrap_or_else(|why| panic!("{name}: {why}"));
    Some(said.lines().filter(|line| line.starts_with("gc ")).count())
}

#[test]
fn only_the_library_of_tests_is_put_under_stress() {
    let plain = collections(&programs::library(LIBRARY), "calm");
    let stressed = collections(&stressed::library_for(LIBRARY, &[STRESS]), "stirred");
    if let (Some(plain), Some(stressed)) = (plain, stressed) {
        assert!(stressed > 4 * plain, "{plain} {stressed}");
        println!("collections: {plain}, {stressed} under stress");
    }
}

#[test]
fn mistakes_of_the_program_do_not_spread() {
    sound("mistakes", &[], &[]);
}

#[test]
fn mistakes_under_stress() {
    sound("mistakes", &["stress"], &[("PLIMSOLL_GC_STRESS", "200")]);
}

#[test]
fn forks_inside_of_callbacks_and_of_many_threads() {
    sound("forks", &[], &[]);
}

#[test]
fn a_child_has_what_threads_did_not_hand_out_and_a_table_that_grows_has_finalizers_called() {
    sound("left", &[], &[]);
}

#[test]
fn a_process_ends_in_the_middle_of_a_collection() {
    sound("exits", &[], &[]);
}

#[test]
fn answers_that_nobody_waits_for() {
    sound("uncounted", &[], &[]);
}

#[test]
fn threads_are_cancelled() {
    sound("cancelled", &[], &[]);
    sound(
        "cancelled",
        &["said"],
        &[("GC_PRINT_STATS", "1"), ("PLIMSOLL_GC_STRESS", "300")],
    );
}

#[test]
fn ten_thousand_threads() {
    sound("many_threads", &["10000"], &[]);
}

#[test]
fn threads_with_small_stacks() {
    sound("small_stacks", &["32", "40", "1000000"], &[]);
    sound("small_stacks", &["32", "3", "60000"], &[STRESS]);
    let said = [("GC_PRINT_STATS", "1"), ("PLIMSOLL_GC_FAIL", "3")];
    sound("small_stacks", &["40", "20", "1000000"], &said);
}

#[test]
fn objects_of_absurd_sizes() {
    sound("room", &["absurd"], &[]);
}

#[test]
fn objects_larger_than_all_memory() {
    sound("room", &["beyond"], &[]);
}

#[test]
fn addresses_are_limited() {
    for limit in ["l40", "l64", "l200"] {
        sound("room", &[limit], &[]);
    }
}

/// The library leaves enough addresses for stacks, `malloc` and libraries. Before, the heap took half of the
/// addresses, or all: whether a program ran was a matter of luck.
#[test]
fn a_small_program_runs_under_any_limit_on_addresses() {
    let mut limit = 36;
    while limit < 4500 {
        sound("addresses", &[&format!("b{limit}")], &[]);
        limit += limit / 5 + 1;
    }
}

#[test]
fn addresses_may_be_limited_later() {
    for limit in ["a48", "a300", "a2140"] {
        sound("addresses", &[limit], &[]);
    }
}

/// Where memory is plenty, memory that is needed again is not given back in between.
#[test]
fn large_objects_that_come_and_go_use_the_same_pages() {
    for kind in ["zeroed", "plain"] {
        sound("blocks", &[kind], &[]);
    }
}

#[test]
fn data_is_limited() {
    for limit in ["d200", "d400"] {
        sound("room", &[limit], &[]);
    }
}

#[test]
fn the_program_has_taken_all_mappings() {
    sound("room", &["mappings"], &[]);
}

#[test]
fn signals_at_any_moment() {
    sound("signals", &[], &[]);
    sound("signals", &["stress"], &[("PLIMSOLL_GC_STRESS", "300")]);
}

#[test]
fn a_handler_holds_what_its_thread_does_not() {
    sound("interrupted", &[], &[]);
}

#[test]
fn the_kernel_refuses_what_is_asked() {
    for what in ["userfaultfd", "madvise", "scan", "open", "undumpable"] {
        sound("refused", &[what], &[STRESS]);
    }
}

#[test]
fn no_file_can_be_opened_from_the_start() {
    sound("blind", &[], &[]);
}

#[test]
fn the_library_is_unloaded_before_its_threads_end() {
    sound("unload", &[], &[]);
}

#[test]
fn the_program_closes_files_that_it_does_not_know() {
    sound("refused", &["files"], &[STRESS]);
}

#[test]
fn every_so_many_calls_of_the_kernel_fail() {
    for every in ["2", "3", "7"] {
        let variables = [STRESS, ("PLIMSOLL_GC_FAIL", every)];
        sound("lives", &["14", "20", every], &variables);
    }
}

/// Runs a program in a group with this memory limit, and with this much swap beyond it.
fn in_group(limit: u64, swap: Option<u64>, name: &str, arguments: &[&str]) -> Option<Confined> {
    let program = compile(&format!("tests/c-alone/{name}.c"), &format!("{name}-group"))?;
    let Ok(group) = TestCgroup::new("libgc-bad-luck", Some(Bytes(limit))) else {
        skip("no cgroup of our own here");
        return None;
    };
    let directory = group.cgroup().dir().to_owned();
    if let Some(swap) = swap {
        let both = directory.join("memory.memsw.limit_in_bytes");
        let bounded = std::fs::write(both, (limit + swap).to_string())
            .or_else(|_| std::fs::write(directory.join("memory.swap.max"), swap.to_string()));
        if bounded.is_err() {
            skip("swap of a group cannot be bounded here");
            return None;
        }
    }
    let Ok(file) = SwapFile::new(temporary(), Bytes::mib(256)) else {
        skip("no swap of our own here");
        return None;
    };
    let mut command = Command::new("sh");
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec \"$@\"",
        directory.display()
    );
    command
        .args(["-c", &script, "sh"])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", programs::library(LIBRARY));
    let unique = format!("{name}-{limit}-{}", swap.unwrap_or(0));
    Some(Confined {
        running: Running::start(&mut command, &unique),
        _group: group,
        _swap: file,
    })
}

/// Fields are dropped in this order: the program ends before its group is removed, and the group
/// before the swap file.
struct Confined {
    running: Running,
    _group: TestCgroup,
    _swap: SwapFile,
}

fn ends_well(confined: Confined) {
    let said = confined
        .running
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{why}"));
    assert!(said.ends_with("sound\n"), "{said}");
}

/// The group's swap is full, so nothing more can be evicted, but the live objects fit.
#[test]
fn swap_is_exhausted() {
    if let Some(confined) = in_group(48 * MIB, Some(4 * MIB), "lives", &["18", "30"]) {
        ends_well(confined);
    }
}

/// The kernel populates all writable memory at once.
#[test]
fn the_program_locks_its_memory() {
    if let Some(confined) = in_group(96 * MIB, None, "room", &["populated"]) {
        ends_well(confined);
    }
}

/// The heap may always allocate a sixteenth of what it has in memory; memory that was never touched
/// does not count.
#[test]
fn a_large_object_is_not_touched() {
    if let Some(confined) = in_group(96 * MIB, Some(0), "room", &["untouched"]) {
        ends_well(confined);
    }
}

/// All of the program's pages are evicted again and again from outside, including summaries, mark
/// bits and stacks.
#[test]
fn everything_is_evicted_from_outside() {
    let Some(mut confined) = in_group(256 * MIB, None, "lives", &["17", "60"]) else {
        return;
    };
    let pid = confined.running.child.id() as i32;
    let mut rounds = 0;
    while !confined.running.has_ended() {
        if confined.running.said().contains("begun")
            && let Ok(process) = Process::open(pid)
            && advise(&process, Advice::PageOut, Bytes::MAX).is_ok()
        {
            rounds += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("evicted {rounds} times");
    ends_well(confined);
}
