//! Machines with the options of start files that people use, written as our own lists: each follows a limit
//! of two fifths of its heap, lives on, and keeps the options that it was given.

use crate::machine::{Sums, library, resident};
use crate::steered::steered_with;
use crate::support::{LONG, eventually, jdks};
use plimsoll_runtimes::Ended;
use plimsoll_runtimes::hotspot::attach::Attach;
use plimsoll_runtimes::hotspot::machine::Machine;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_runtimes::lever_options::Chosen;
use plimsoll_testbed::cases;
use plimsoll_unit::{Bytes, MIB};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The largest heap of all of them, and two fifths of it, MiB.
const HEAP: u64 = 400;
const LIMIT: u64 = HEAP * 2 / 5;

/// Kinds of programs, and the options that their start files have by default.
const LINES: [(&str, &str); 11] = [
    (
        "a search server",
        "-Xms400m -Xmx400m -XX:+UseG1GC -XX:G1ReservePercent=25 -XX:InitiatingHeapOccupancyPercent=30 \
         -XX:+AlwaysPreTouch -Xss1m -Djava.awt.headless=true -Dfile.encoding=UTF-8 -Djna.nosys=true \
         -XX:-OmitStackTraceInFastThrow -XX:+ShowCodeDetailsInExceptionMessages \
         -XX:+HeapDumpOnOutOfMemoryError -XX:+ExitOnOutOfMemoryError -XX:MaxDirectMemorySize=209715200",
    ),
    (
        "a search platform",
        "-server -Xms400m -Xmx400m -XX:+UseG1GC -XX:+PerfDisableSharedMem -XX:+ParallelRefProcEnabled \
         -XX:MaxGCPauseMillis=250 -XX:+AlwaysPreTouch -XX:+ExplicitGCInvokesConcurrent -Xss256k \
         -XX:-OmitStackTraceInFastThrow -XX:+CrashOnOutOfMemoryError",
    ),
    (
        "a database",
        "-ea -Xms400m -Xmx400m -XX:+UseThreadPriorities -XX:+HeapDumpOnOutOfMemoryError -Xss256k \
         -XX:+AlwaysPreTouch -XX:+UseTLAB -XX:+ResizeTLAB -XX:+UseNUMA -XX:+PerfDisableSharedMem \
         -Djava.net.preferIPv4Stack=true -XX:+UseG1GC -XX:+ParallelRefProcEnabled \
         -XX:MaxTenuringThreshold=2 -XX:G1HeapRegionSize=16m -XX:+UnlockExperimentalVMOptions \
         -XX:G1NewSizePercent=50 -XX:MaxGCPauseMillis=300 -XX:InitiatingHeapOccupancyPercent=70",
    ),
    (
        "a message broker",
        "-Xms400m -Xmx400m -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
         -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 \
         -Djava.awt.headless=true",
    ),
    (
        "a game server",
        "-Xms400m -Xmx400m -XX:+UseG1GC -XX:+ParallelRefProcEnabled -XX:MaxGCPauseMillis=200 \
         -XX:+UnlockExperimentalVMOptions -XX:+DisableExplicitGC -XX:+AlwaysPreTouch \
         -XX:G1NewSizePercent=30 -XX:G1MaxNewSizePercent=40 -XX:G1HeapRegionSize=8m \
         -XX:G1ReservePercent=20 -XX:G1HeapWastePercent=5 -XX:G1MixedGCCountTarget=4 \
         -XX:InitiatingHeapOccupancyPercent=15 -XX:G1MixedGCLiveThresholdPercent=90 -XX:SurvivorRatio=32 \
         -XX:+PerfDisableSharedMem -XX:MaxTenuringThreshold=1",
    ),
    (
        "a batch job that nobody may collect",
        "-Xms400m -Xmx400m -XX:+UseParallelGC -XX:+DisableExplicitGC -XX:+AlwaysPreTouch",
    ),
    (
        "a small service that nobody may collect",
        "-Xms400m -Xmx400m -XX:+UseSerialGC -XX:+DisableExplicitGC -XX:+AlwaysPreTouch",
    ),
    (
        "a container of servlets",
        "-Xmx400m --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
         -Djdk.tls.ephemeralDHKeySize=2048 -Dignore.endorsed.dirs= -Djava.io.tmpdir=/tmp",
    ),
    (
        "a service from a buildpack",
        "-Xmx400m -XX:+ExitOnOutOfMemoryError -XX:MaxDirectMemorySize=10m -XX:MaxMetaspaceSize=96m \
         -XX:ReservedCodeCacheSize=240m -Xss1m -XX:ActiveProcessorCount=1",
    ),
    (
        "a build daemon",
        "-Xms256m -Xmx400m -XX:MaxMetaspaceSize=384m -XX:+HeapDumpOnOutOfMemoryError \
         --add-opens=java.base/java.util=ALL-UNNAMED -Dfile.encoding=UTF-8 -Duser.country -Duser.language=en",
    ),
    (
        "a build tool",
        "-Xmx400m -XX:+TieredCompilation -XX:TieredStopAtLevel=1 -Dlibrary.jansi.path=/nowhere",
    ),
];

/// The choice of the user: `always`, because most of these touch their heap in advance.
fn chosen() -> Chosen {
    Chosen::of([("give-back", "always")])
}

/// The options as `plimsoll run` passes them on: ours first.
fn prepared(home: &Path, options: &[&str]) -> Vec<String> {
    let mut argv: Vec<OsString> = vec![home.join("bin/java").into()];
    argv.extend(options.iter().map(OsString::from));
    argv.push("Sums".into());
    let plan = Plan {
        budget: Some(Bytes::mib(1024)),
        own: Some(library()),
        chosen: chosen(),
        ..Plan::default()
    };
    let prepared = launch::prepare(&argv, &plan);
    assert_eq!(prepared.runtime.name(), "hotspot");
    let words = prepared.argv[1..prepared.argv.len() - 1].iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Checks that the machine has the values that these options give.
fn keeps(machine: &Machine, options: &[&str], what: &str) {
    for option in options
        .iter()
        .filter_map(|option| option.strip_prefix("-XX:"))
    {
        // A computer with one node switches it off by itself.
        if option == "+UseNUMA" {
            continue;
        }
        let (name, value) = option.split_once('=').unwrap_or((&option[1..], ""));
        let holds = match option.as_bytes()[0] {
            b'+' => machine.flags.on(name),
            b'-' => !machine.flags.on(name),
            _ => machine.flags.number(name) == bytes(value),
        };
        assert!(holds, "{what}: {option}");
    }
}

/// A number as an option has it.
fn bytes(value: &str) -> Option<u64> {
    match value.strip_suffix('m') {
        Some(number) => Some(number.parse::<u64>().ok()? * MIB),
        None => value.parse().ok(),
    }
}

fn follows(home: &Path, what: &str, options: &str) {
    let options: Vec<&str> = options.split(' ').collect();
    let words = prepared(home, &options);
    let ours: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(
        ours.ends_with(&options),
        "{what}: the user's options come last"
    );
    let mut sums = Sums::start(home, &[], &ours, ["20", "2"]);
    let what = format!("{what} on {}", home.display());
    let process = sums.process;
    let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
    keeps(&machine, &options, &what);
    let (script, steering) = steered_with(&sums, chosen());
    script.limit.store(2 * HEAP * MIB, Ordering::Relaxed);
    let page = sums.page();
    sums.collects(&page, 3);
    script.limit.store(LIMIT * MIB, Ordering::Relaxed);
    let most = LIMIT * MIB * 21 / 20;
    let uses = || resident(&process) >> 20;
    eventually(&format!("{what} comes to its limit of {LIMIT} MiB"), || {
        sums.checked();
        resident(&process) <= most
    });
    sums.rest(&page);
    eventually(
        &format!("{what} rests below its limit: {} MiB", uses()),
        || resident(&process) <= most,
    );
    sums.tell("go on");
    sums.goes_on();
    let machine = Machine::ask(&Attach::new(process).unwrap(), LONG).unwrap();
    keeps(&machine, &options, &what);
    sums.quit();
    assert_eq!(steering.join().unwrap(), Ended::ProgramGone);
}

#[test]
fn programs_as_people_start_them_follow_a_limit() {
    // Java 11 does not know all of these options.
    let jdks = jdks().into_iter().filter(|(version, _)| *version > 11);
    for (row, (_, home)) in jdks.enumerate() {
        for (what, options) in cases::of_column(LINES, row, 2) {
            follows(&home, what, options);
        }
    }
}
