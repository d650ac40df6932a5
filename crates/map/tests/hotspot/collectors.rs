//! Heaps, code caches and metaspace of every version and collector.

use crate::jvm::{Jdk, Jvm, LIVE, Seen, jdks, near};
use crate::said;
use plimsoll_map::Kind;
use plimsoll_unit::MIB;

const HEAP: [Kind; 6] = [
    Kind::Eden,
    Kind::Survivor,
    Kind::Old,
    Kind::Humongous,
    Kind::Heap,
    Kind::FreeHeap,
];

/// Checks that the heap of each version is what the machine says. `views`: how often it is mapped.
fn check(flags: &[&str], versions: &[u32], views: u64) {
    for jdk in jdks().iter().filter(|jdk| versions.contains(&jdk.version)) {
        let Some(jvm) = Jvm::start(jdk, flags) else {
            return;
        };
        // Answering takes some memory of the heap.
        let before = said::heap(&jvm.ask("VM.info"));
        let seen = jvm.look();
        let said = said::heap(&jvm.ask("VM.info"));
        let name = format!("JDK {} {flags:?}: {:?}", jdk.version, seen.notes);
        assert!(!said.is_empty(), "{name}");
        let has_tops = !(jdk.version == 11 && flags == ["-XX:+UseZGC"]);
        for kind in &HEAP[..5] {
            let used = |spaces: &[said::Space]| {
                let of_kind = spaces.iter().filter(|space| space.0 == *kind);
                let used = of_kind.map(|s| if has_tops { s.2 - s.1 } else { s.3 - s.1 });
                used.sum::<u64>() * views
            };
            let (from, to) = (used(&before), used(&said));
            let (from, to) = (from.min(to), from.max(to));
            let labelled = seen.of(*kind);
            let is_right = near(labelled, labelled.clamp(from, to));
            assert!(is_right, "{kind:?} {labelled} {from}..{to} {name}");
        }
        let used: u64 = HEAP[..5].iter().map(|&kind| seen.of(kind)).sum();
        assert!(used > (LIVE + 8) * MIB * views, "{used} {name}");
        if !flags.contains(&"-XX:+UseZGC") {
            check_places(&said, &seen, &name);
        }
        check_metaspace(&jvm, &seen, &name);
        check_code(&jvm, &seen, &name);
        check_stacks(&jvm, &seen, &name);
        check_collector(flags[0], &seen, &name);
    }
}

/// The table of cards is found, which has a byte for 512 of the heap; a note tells of the rest.
fn check_collector(flag: &str, seen: &Seen, name: &str) {
    let is_one_of = |names: &[&str]| {
        let mut flags = names.iter().map(|name| format!("-XX:+Use{name}GC"));
        flags.any(|one| one == flag)
    };
    let found = seen.of(Kind::Collector);
    if is_one_of(&["Serial", "Parallel", "G1", "ConcMarkSweep"]) {
        assert!((MIB..8 * MIB).contains(&found), "{found} {name}");
    } else {
        assert_eq!(found, 0, "{name}");
    }
    let told = |note: &String| note.contains("collector's mark bits");
    assert_eq!(
        seen.notes.iter().any(told),
        !is_one_of(&["Serial"]),
        "{name}"
    );
}

/// Every space is where the machine says.
fn check_places(said: &[said::Space], seen: &Seen, name: &str) {
    let mut differ = 0;
    for (kind, bottom, top, end) in said {
        // The machine may have allocated, and begun a region, for the answer.
        if bottom < top {
            differ += u64::from(seen.at(*bottom) != Some(*kind));
        }
        let above = top.next_multiple_of(4096);
        if above < *end {
            differ += u64::from(seen.at(above) != Some(Kind::FreeHeap));
        }
    }
    assert!(differ <= 4, "{differ} of {} {name}", said.len());
}

/// The first number of KiB after a word in a text.
fn kibibytes(text: &str, after: &str) -> Option<u64> {
    let rest = &text[text.find(after)? + after.len()..];
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse::<u64>().ok().map(|n| n * 1024)
}

fn check_metaspace(jvm: &Jvm, seen: &Seen, name: &str) {
    let text = jvm.ask("VM.metaspace basic scale=KB");
    let line = |start: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(start))?;
        // `Class space:  1048576,00 KB reserved,  320,00 KB ( <1%) committed`
        let mut fields = line.split(',').map(str::trim);
        let committed = fields.find(|field| field.ends_with("committed"))?;
        let number = committed.split_whitespace().next()?;
        number.parse::<f64>().ok().map(|kib| (kib * 1024.0) as u64)
    };
    let alone = text
        .find("Virtual space:\n")
        .and_then(|at| text[at..].lines().nth(1));
    let others = line("Non-class space:").or_else(|| line(alone?.trim_start()));
    let classes = line("Class space:");
    let others = others.unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(
        near(seen.of(Kind::Metaspace), others),
        "{others} {} {name}: {} {text}",
        seen.of(Kind::Metaspace),
        seen.ranges(Kind::Metaspace)
    );
    let classes = classes.unwrap_or(0);
    let committed = seen.committed(Kind::ClassSpace);
    assert!(near(committed, classes), "{classes} {committed} {name}");
}

fn check_code(jvm: &Jvm, seen: &Seen, name: &str) {
    let text = jvm.ask("Compiler.codecache");
    let mut heaps = 0;
    for line in text.lines().filter(|line| line.contains("bounds [0x")) {
        let bounds = line
            .split(['[', ',', ']'])
            .filter_map(|word| u64::from_str_radix(word.trim().strip_prefix("0x")?, 16).ok());
        for address in bounds.take(2) {
            assert_eq!(
                seen.at(address),
                Some(Kind::CodeCache),
                "{address:x} {name}"
            );
        }
        heaps += 1;
    }
    assert!(heaps > 0, "{name}: {text}");
}

/// The thread that runs the program has a stack of 1 MiB, and so have all others.
fn check_stacks(jvm: &Jvm, seen: &Seen, name: &str) {
    let threads = jvm.ask("Thread.print");
    let java = threads.lines().filter(|line| {
        line.contains("prio=") && line.contains(" os_prio=") && line.contains("tid=")
    });
    let java = java.filter(|line| line.contains('#')).count() as u64;
    let stacks = seen.of(Kind::Stacks);
    assert!(
        java > 5 && stacks >= (java - 1) * MIB / 2,
        "{java} {stacks} {name}"
    );
}

#[test]
fn serial() {
    check(&["-XX:+UseSerialGC"], &[11, 17, 21, 25], 1);
}

#[test]
fn cms() {
    check(&["-XX:+UseConcMarkSweepGC"], &[11], 1);
}

#[test]
fn parallel() {
    check(&["-XX:+UseParallelGC"], &[11, 17, 21, 25], 1);
}

#[test]
fn g1() {
    check(&["-XX:+UseG1GC"], &[11, 17, 21, 25], 1);
}

#[test]
fn shenandoah() {
    check(&["-XX:+UseShenandoahGC"], &[17, 21, 25], 1);
    check(
        &["-XX:+UseShenandoahGC", "-XX:ShenandoahGCMode=generational"],
        &[25],
        1,
    );
}

#[test]
fn shenandoah_of_jdk_11_is_shown_as_a_whole() {
    let jdks: Vec<Jdk> = jdks().into_iter().filter(|jdk| jdk.version == 11).collect();
    for jdk in &jdks {
        let Some(jvm) = Jvm::start(jdk, &["-XX:+UseShenandoahGC"]) else {
            return;
        };
        let seen = jvm.look();
        assert_eq!(seen.of(Kind::Heap), 512 * MIB);
        assert!(
            seen.notes.iter().any(|note| note.contains("as a whole")),
            "{:?}",
            seen.notes
        );
    }
}

#[test]
fn z_with_three_views() {
    check(&["-XX:+UseZGC"], &[11, 17, 21], 3);
}

#[test]
fn z_with_generations() {
    check(&["-XX:+UseZGC"], &[25], 1);
    check(&["-XX:+UseZGC", "-XX:+ZGenerational"], &[21], 1);
}

#[test]
fn epsilon() {
    for jdk in &jdks() {
        let Some(jvm) = Jvm::start(jdk, &["-XX:+UseEpsilonGC"]) else {
            return;
        };
        let seen = jvm.look();
        assert!(seen.of(Kind::Heap) > (LIVE + 8) * MIB, "{:?}", seen.notes);
        let said = kibibytes(&jvm.ask("GC.heap_info"), "used");
        // The answer takes memory of the heap, and Epsilon gives none back.
        let less = said.unwrap_or(0).saturating_sub(seen.of(Kind::Heap));
        assert!(less < 8 * MIB, "{said:?}");
    }
}
