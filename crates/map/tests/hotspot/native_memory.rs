//! Against the machine's own account (`-XX:NativeMemoryTracking`) in JDK 25.

use crate::jvm::{Jvm, Seen, jdks};
use plimsoll_map::Kind;
use std::io::Write;

/// The account's number for a category, bytes: `reserved` or `committed`, of mapped memory.
fn mapped(text: &str, category: &str, word: &str) -> u64 {
    let start = text.find(&format!("- {category} (")).or_else(|| {
        let padded = format!(" {category} (reserved");
        text.find(&padded)
    });
    let rest = &text[start.unwrap_or_else(|| panic!("no {category} in {text}"))..];
    let at = rest
        .find("(mmap:")
        .or_else(|| rest.find("(stack:"))
        .unwrap();
    let stack = rest
        .find("(stack:")
        .filter(|&stack| stack < at)
        .unwrap_or(at);
    let rest = &rest[stack..];
    let rest = &rest[rest.find(word).unwrap() + word.len() + 1..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap() * 1024
}

/// A row of the comparison: name, what the machine says, what is labelled, bytes.
type Row = (&'static str, u64, u64);

/// How often a machine is looked at until it says the same before and after the look.
const TRIES: u32 = 50;

/// Compares the machine's own account with a look at it, once the account stays the same. The machine
/// compiles for a while, and the threads for that come and go.
fn compared(jvm: &Jvm) -> Vec<Row> {
    // The first answer starts the thread that answers, and loads classes.
    let ask = || jvm.ask("VM.native_memory scale=KB");
    ask();
    for _ in 0..TRIES {
        let before = ask();
        let seen = jvm.look();
        let (before, after) = (rows(&before, &seen), rows(&ask(), &seen));
        if before == after {
            return after;
        }
    }
    panic!("it says something else each time");
}

fn rows(text: &str, seen: &Seen) -> Vec<Row> {
    let heap = [
        Kind::Eden,
        Kind::Survivor,
        Kind::Old,
        Kind::Humongous,
        Kind::Heap,
        Kind::FreeHeap,
    ];
    let heap: u64 = heap.iter().map(|&kind| seen.committed(kind)).sum();
    vec![
        (
            "heap, committed",
            mapped(text, "Java Heap", "committed"),
            heap,
        ),
        (
            "class space, committed",
            mapped(text, "Class", "committed"),
            seen.committed(Kind::ClassSpace),
        ),
        (
            "metaspace, committed",
            mapped(text, "Metaspace", "committed"),
            seen.committed(Kind::Metaspace),
        ),
        (
            "code cache, reserved",
            mapped(text, "Code", "reserved"),
            seen.of(Kind::CodeCache),
        ),
        (
            "code cache, committed",
            mapped(text, "Code", "committed"),
            seen.committed(Kind::CodeCache),
        ),
        (
            "class archive, committed",
            mapped(text, "Shared class space", "committed"),
            seen.of(Kind::ClassArchive),
        ),
        (
            "stacks, reserved",
            mapped(text, "Thread", "reserved"),
            // The launcher's own stack is none of the machine's threads'.
            seen.of(Kind::Stacks) - seen.named("[stack]"),
        ),
    ]
}

#[test]
fn areas_are_what_the_machine_accounts_for() {
    let Some(jdk) = jdks().into_iter().find(|jdk| jdk.version == 25) else {
        return;
    };
    for collector in ["Z", "Serial", "Parallel", "G1", "Shenandoah"] {
        let flag = format!("-XX:+Use{collector}GC");
        let flags = ["-XX:NativeMemoryTracking=summary", &flag];
        let Some(jvm) = Jvm::start(&jdk, &flags) else {
            return;
        };
        let rows = compared(&jvm);
        let mut out = String::new();
        for &(name, said, labelled) in &rows {
            let part = labelled.abs_diff(said) as f64 / said as f64 * 100.0;
            out += &format!(
                "| {collector} | {name} | {} | {} | {part:.2} % |\n",
                said >> 10,
                labelled >> 10
            );
        }
        // The harness hides what passing tests print.
        let _ = write!(std::io::stderr(), "{out}");
        for (name, said, labelled) in rows {
            assert!(
                labelled.abs_diff(said) <= said / 100,
                "{collector} {name} {said} {labelled}"
            );
        }
    }
}
