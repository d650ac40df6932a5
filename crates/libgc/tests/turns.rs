//! The memory quantum (`PLIMSOLL_GC_QUANTUM`): a thread that has allocated as much gives its processor up.
//!
//! The program is `tests/c-alone/turns.c`. Its own `sched_yield` checks each turn to the byte: a thread
//! gives way before the first object after those that reached the quantum, and never else.

#[path = "support/library.rs"]
mod library;
#[path = "support/lines.rs"]
mod lines;
#[path = "support/programs.rs"]
#[expect(dead_code, reason = "the program is compiled with an argument more")]
mod programs;
#[path = "support/stressed.rs"]
mod stressed;

use lines::before;
use plimsoll_policy::phases::MEMORY_QUANTUM;
use programs::{Running, compile_with};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);
/// Bytes that each thread allocates, and the number of threads.
const MUCH: u64 = 24 << 20;
const THREADS: u64 = 3;
/// More than the largest object that the program allocates, bytes.
const LARGEST: u64 = 64 << 10;
const QUANTUM: &str = "PLIMSOLL_GC_QUANTUM";

/// Runs the program, which expects this quantum (0: nobody gives way), and returns what it said. `None` if it
/// cannot be compiled.
fn run(
    name: &str,
    [expected, much, threads]: [u64; 3],
    variables: &[(&str, &str)],
) -> Option<String> {
    let unique = format!("turns-{name}");
    // The library has to find the program's own `sched_yield`.
    let program = compile_with("tests/c-alone/turns.c", &unique, &["-rdynamic"])?;
    let mut command = Command::new(program);
    command
        .args([expected, much, threads].map(|number| number.to_string()))
        .env("LD_LIBRARY_PATH", stressed::library_for("turns", variables))
        .envs(variables.iter().copied());
    let said = Running::start(&mut command, &unique)
        .end(PATIENCE)
        .unwrap_or_else(|why| panic!("{unique}: {why}"));
    assert!(said.contains("sound\n"), "{unique}: {said}");
    Some(said)
}

/// How often each thread gave way, by what the program said; the first thread is the last one here.
fn turns(said: &str) -> Vec<u64> {
    let told = said.lines().filter(|line| line.starts_with("thread "));
    told.map(|line| before(line, "times")).collect()
}

fn each_turn_is_exact(name: &str, value: &str, quantum: u64, more: &[(&str, &str)]) {
    let mut variables = vec![(QUANTUM, value), ("GC_PRINT_STATS", "1")];
    variables.extend(more);
    let Some(said) = run(name, [quantum, MUCH, THREADS], &variables) else {
        return;
    };
    let turns = turns(&said);
    assert_eq!(turns.len() as u64, THREADS + 1, "{said}");
    for &given in &turns[..turns.len() - 1] {
        assert!(given >= MUCH / (quantum + LARGEST), "{said}");
        assert!(given <= (MUCH + LARGEST) / quantum, "{said}");
    }
    let last = said
        .lines()
        .rfind(|line| line.starts_with("gc "))
        .expect("collections");
    let counted = before(last, "times");
    // The last collection is not the end.
    assert!(
        counted > 0 && counted <= turns.iter().sum(),
        "{turns:?}: {last}"
    );
    println!(
        "{value}: {turns:?}, {}",
        said.lines().rev().nth(1).unwrap_or_default()
    );
}

#[test]
fn each_turn_of_the_papers_quantum_is_exact() {
    each_turn_is_exact("paper", "10k", MEMORY_QUANTUM.0, &[]);
}

#[test]
fn each_turn_of_a_small_quantum_is_exact() {
    each_turn_is_exact("small", "1000", 1000, &[]);
}

#[test]
fn each_turn_of_a_large_quantum_is_exact() {
    each_turn_is_exact("large", " 1M ", 1 << 20, &[]);
}

#[test]
fn each_turn_under_stress_is_exact() {
    let stress = [("PLIMSOLL_GC_STRESS", "1500")];
    each_turn_is_exact("stress", "10K", MEMORY_QUANTUM.0, &stress);
}

/// Each object is allocated with the lock and counted.
#[test]
fn each_turn_is_exact_while_leaks_are_looked_for() {
    let variables = [(QUANTUM, "4k"), ("GC_FIND_LEAK", "1")];
    if let Some(said) = run("leaks", [4 << 10, 300 << 10, THREADS], &variables) {
        let turns = turns(&said);
        assert!(turns.iter().all(|&given| given > 0), "{said}");
    }
}

#[test]
fn nobody_gives_way_without_a_quantum() {
    run("unset", [0, MUCH, THREADS], &[]);
    let said = run("zero", [0, MUCH, THREADS], &[(QUANTUM, "0")]);
    assert!(said.is_none_or(|said| !said.contains(QUANTUM)));
}

/// There is nobody to give way to.
#[test]
fn a_thread_alone_does_not_give_way() {
    run("alone", [0, MUCH, 0], &[(QUANTUM, "10k")]);
}

#[test]
fn what_is_no_number_is_refused() {
    let huge = u64::MAX.to_string() + "k";
    for value in ["", "words", "-3", "1.5m", "10kb", &huge] {
        let said = run("refused", [0, 1 << 20, THREADS], &[(QUANTUM, value)]);
        assert!(
            said.is_none_or(|said| said.contains("PLIMSOLL_GC_QUANTUM is no number")),
            "{value:?}"
        );
    }
}
