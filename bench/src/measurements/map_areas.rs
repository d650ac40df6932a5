//! Whether the areas of `plimsoll map` are those that the Java virtual machine itself accounts for
//! (`-XX:NativeMemoryTracking`).

use crate::harness::java::Classes;
use crate::harness::programs::Jvm;
use crate::measurement::{About, Measurement};
use crate::report::results::Results;
use crate::report::statistics::spread;
use crate::runner::{Runner, Variant};
use crate::{Error, Result};
use plimsoll_kernel::process::Process;
use plimsoll_map::memory::ProcessMemory;
use plimsoll_map::parts::{Part, cut};
use plimsoll_map::runtimes::hotspot::HotSpot;
use plimsoll_map::{Kind, Labeller, Labels, Snapshot, native};
use plimsoll_testbed::children::end_with_us;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const EQUAL: &str = "areas equal NMT within 1 %";
/// The version that is asked: the newest one tells most.
const VERSION: u32 = 25;
const COLLECTORS: [&str; 5] = ["G1", "Serial", "Parallel", "Z", "Shenandoah"];
/// The most that one read of the machine may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// All that belongs to the heap.
const HEAP: [Kind; 6] = [
    Kind::Eden,
    Kind::Survivor,
    Kind::Old,
    Kind::Humongous,
    Kind::Heap,
    Kind::FreeHeap,
];

/// An area of both: its name, the machine's category, the word of its sums, our kinds, and whether only
/// what can be read counts.
type Area = (
    &'static str,
    &'static str,
    &'static str,
    &'static [Kind],
    bool,
);
const AREAS: [Area; 7] = [
    ("heap, committed", "Java Heap", "committed", &HEAP, true),
    (
        "class space, committed",
        "Class",
        "committed",
        &[Kind::ClassSpace],
        true,
    ),
    (
        "metaspace, committed",
        "Metaspace",
        "committed",
        &[Kind::Metaspace],
        true,
    ),
    (
        "code cache, reserved",
        "Code",
        "reserved",
        &[Kind::CodeCache],
        false,
    ),
    (
        "code cache, committed",
        "Code",
        "committed",
        &[Kind::CodeCache],
        true,
    ),
    (
        "class archive, committed",
        "Shared class space",
        "committed",
        &[Kind::ClassArchive],
        false,
    ),
    (
        "stacks, reserved",
        "Thread",
        "reserved",
        &[Kind::Stacks],
        false,
    ),
];

/// `map-areas`.
pub(super) struct MapAreas;

/// Bytes of each area: by the machine's account, and by ours.
type Compared = [(f64, f64); AREAS.len()];

impl Measurement for MapAreas {
    fn about(&self) -> About {
        About {
            name: "map-areas",
            question: "Are the areas of plimsoll map what a JVM accounts for itself?",
            asks: &[EQUAL],
            minutes: 5,
            only: true,
            slice: false,
            seed: None,
        }
    }

    fn run(&self, runner: &Runner) -> Result<Results> {
        let classes = Classes::of("bench/programs/Hold.java")?;
        let variants = COLLECTORS.map(|collector| {
            let version = VERSION;
            (collector, Jvm { version, collector })
        });
        let ran = runner
            .experiment(variants)
            .wanted()
            .run(|jvm, _| compared(*jvm, classes.folder()))?;
        Ok(report(&ran, runner))
    }
}

/// A machine that holds memory and does nothing; ended when dropped.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(jvm: Jvm, classes: &Path) -> Result<Held> {
    let mut command = Command::new(jvm.java());
    command
        .args(jvm.choice())
        .args(["-XX:NativeMemoryTracking=summary", "-Xmx512m", "-cp"])
        .arg(classes)
        .args(["Hold", "100"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    end_with_us(&mut command);
    let mut held = Held(command.spawn().map_err(Error::start(&command))?);
    let mut line = String::new();
    if let Some(output) = held.0.stdout.take() {
        // If the read fails, the line is empty, which is an error below.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    match line.trim() {
        "held" => Ok(held),
        _ => Err(Error::program("java", "it ended before it held its memory")),
    }
}

fn compared(jvm: Jvm, classes: &Path) -> Result<Compared> {
    let held = start(jvm, classes)?;
    // The first answer starts the thread that answers, and loads classes.
    account(jvm, held.0.id())?;
    let text = account(jvm, held.0.id())?;
    let (snapshot, parts) = parts_of(held.0.id())?;
    let mut all = Compared::default();
    for (both, (_, category, word, kinds, readable)) in all.iter_mut().zip(AREAS) {
        let said = mapped(&text, category, word).ok_or_else(|| {
            Error::program("jcmd", format!("nothing about `{category}` in: {text}"))
        })?;
        let is_counted = |part: &&Part| {
            let mapping = &snapshot.mappings[part.mapping];
            // The launcher's own stack is none of the machine's threads'.
            let is_launchers = mapping.name == "[stack]";
            kinds.contains(&part.kind) && !is_launchers && (mapping.readable || !readable)
        };
        let counted = parts.iter().filter(is_counted);
        let ours: u64 = counted
            .map(|part| part.addresses.end - part.addresses.start)
            .sum();
        *both = (said as f64, ours as f64);
    }
    Ok(all)
}

/// The machine's own account of its memory.
fn account(jvm: Jvm, pid: u32) -> Result<String> {
    let java = PathBuf::from(jvm.java());
    let java = java.canonicalize().map_err(Error::file("find", &java))?;
    let mut command = Command::new(java.with_file_name("jcmd"));
    command.args([&pid.to_string(), "VM.native_memory", "scale=KB"]);
    let output = command.output().map_err(Error::start(&command))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::program("jcmd", output.status.to_string()))
    }
}

/// The parts of its address space, as `plimsoll map` sees them.
fn parts_of(pid: u32) -> Result<(Snapshot, Vec<Part>)> {
    let process = Arc::new(Process::open(pid as i32)?);
    let snapshot = Snapshot::of(&process, PATIENCE)?;
    let memory = ProcessMemory::open(&process)?;
    let mut labels = Labels::default();
    HotSpot.label(&snapshot, &memory, &mut labels);
    native::label(&snapshot, &memory, &mut labels);
    let parts = cut(&snapshot.mappings, &labels.labels);
    Ok((snapshot, parts))
}

/// Bytes of a category that are mapped, `reserved` or `committed`:
/// `- Class (reserved=…)` and, some lines below, `(mmap: reserved=1KB, committed=1KB…)`.
fn mapped(text: &str, category: &str, word: &str) -> Option<u64> {
    let start = text
        .find(&format!("- {category} ("))
        .or_else(|| text.find(&format!(" {category} (reserved")))?;
    let rest = &text[start..];
    let kinds = ["(mmap:", "(stack:"];
    let sums = kinds.iter().filter_map(|kind| rest.find(kind)).min()?;
    let rest = &rest[sums..];
    let rest = &rest[rest.find(word)? + word.len() + 1..];
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    Some(rest[..digits].parse::<u64>().ok()? << 10)
}

fn report(ran: &[Variant<Jvm, Compared>], runner: &Runner) -> Results {
    let mut results = runner
        .results(
            "Areas of JVMs by `plimsoll map`, and by the JVM's own account.",
            "JDK 25 with a heap of at most 512 MiB and 100 MiB of it live, at rest, started anew for each \
             repetition. JVM: `jcmd PID VM.native_memory` (`-XX:NativeMemoryTracking=summary`). Map: the \
             addresses of the area; where the JVM tells what is committed, those that can be read. The \
             stack of the launcher, which the JVM does not count, is left out. Difference: the largest of \
             all repetitions.",
        )
        .columns(&[
            ("collector", ""),
            ("area", ""),
            ("JVM", "KiB"),
            ("map", "KiB"),
            ("difference", "%"),
        ]);
    let mut worst = (0.0, String::new());
    for variant in ran {
        for (index, (area, ..)) in AREAS.iter().enumerate() {
            let all: Vec<(f64, f64)> = variant.outcomes.iter().map(|one| one[index]).collect();
            let median = |of: fn(&(f64, f64)) -> f64| {
                spread(&all.iter().map(of).collect::<Vec<_>>()).median / 1024.0
            };
            let apart = |(said, ours): &(f64, f64)| (ours - said).abs() / said.max(1.0) * 100.0;
            let percent = all.iter().map(apart).fold(0.0, f64::max);
            if percent >= worst.0 {
                worst = (percent, format!("{} {area}", variant.name));
            }
            results.row([
                variant.name.as_str().into(),
                (*area).into(),
                median(|both| both.0).into(),
                median(|both| both.1).into(),
                percent.into(),
            ]);
        }
    }
    let (percent, place) = worst;
    results.target(EQUAL, format!("{percent:.2} % ({place})"), percent <= 1.0);
    results
}

#[cfg(test)]
mod tests {
    use super::mapped;

    #[test]
    fn sums_of_a_category_are_those_of_its_mappings() {
        let text = "-                 Java Heap (reserved=524288KB, committed=131072KB)\n\
                    \u{20}                           (mmap: reserved=524288KB, committed=131072KB)\n\
                    -                    Thread (reserved=20544KB, committed=1000KB)\n\
                    \u{20}                           (threads #20)\n\
                    \u{20}                           (stack: reserved=20480KB, committed=936KB)\n\
                    \u{20}                           (malloc=64KB #120)\n";
        assert_eq!(mapped(text, "Java Heap", "committed"), Some(131_072 << 10));
        assert_eq!(mapped(text, "Thread", "reserved"), Some(20_480 << 10));
        assert_eq!(mapped(text, "Class", "reserved"), None);
    }
}
