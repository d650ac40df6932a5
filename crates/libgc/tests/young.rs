//! Collections of young objects, and whole ones in steps. They happen without being asked for.
//! Those of young objects are much less work, those in steps let the program run in between, and
//! neither makes the heap much larger.

#[path = "support/heapload.rs"]
mod heapload;
#[path = "support/library.rs"]
mod library;

use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The object that a program printed; how many of its collections were of young objects and how many were
/// whole; and how many steps the whole ones took.
struct Run {
    result: serde_json::Value,
    young: usize,
    whole: usize,
    steps: Vec<u32>,
}

fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("young");
        library::link(&directory);
        directory
    });
    let mut command = Command::new("timeout");
    command
        .arg("300")
        .arg(program)
        .args(arguments)
        .env("GC_PRINT_STATS", "1")
        .env("LD_LIBRARY_PATH", &*DIRECTORY)
        .envs(environment.iter().copied());
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let collections = said.lines().filter(|line| line.starts_with("gc "));
    let (young, whole): (Vec<&str>, Vec<&str>) =
        collections.partition(|line| line.contains(": young,"));
    let steps = |line: &&str| {
        let (before, _) = line.split_once(" steps, ")?;
        before.rsplit_once("in ")?.1.parse().ok()
    };
    Run {
        result: serde_json::from_slice(&output.stdout).expect("one object"),
        young: young.len(),
        whole: whole.len(),
        steps: whole.iter().filter_map(steps).collect(),
    }
}

const NEITHER: [(&str, &str); 1] = [("GC_DISABLE_INCREMENTAL", "1")];

#[test]
fn where_most_lives_and_what_is_new_dies_they_take_the_place_of_most_and_no_more_memory() {
    let Some(program) = heapload::heapload() else {
        return;
    };
    let arguments = ["largelive", "--live-mb", "40", "--churn", "20000000"];
    let with = run(program, &arguments, &[]);
    let without = run(program, &arguments, &NEITHER);
    assert_eq!((without.young, without.steps.len()), (0, 0));
    assert_eq!(with.result["checksum"], without.result["checksum"]);
    if plimsoll_kernel::write_tracking::new().is_err() {
        skip("no write tracking here");
        return;
    }
    let whole = with.whole;
    assert!(with.young > whole, "{} young, {whole} whole", with.young);
    let peak = |run: &Run| run.result["rss_peak"].as_u64().expect("bytes");
    assert!(
        peak(&with) <= peak(&without) / 20 * 21,
        "{} {}",
        with.result,
        without.result
    );
}

#[test]
fn a_whole_collection_that_would_take_long_is_made_in_steps() {
    let Some(program) = heapload::heapload() else {
        return;
    };
    let arguments = ["largelive", "--live-mb", "200", "--churn", "8000000"];
    let with = run(program, &arguments, &[]);
    let without = run(program, &arguments, &NEITHER);
    assert_eq!(with.result["checksum"], without.result["checksum"]);
    // A program that asks for both.
    let limited = run(
        program,
        &arguments,
        &[
            ("GC_ENABLE_INCREMENTAL", "1"),
            ("GC_PAUSE_TIME_TARGET", "1"),
        ],
    );
    assert_eq!(limited.result["checksum"], without.result["checksum"]);
    assert!(without.steps.is_empty());
    if plimsoll_kernel::write_tracking::new().is_err() {
        skip("no write tracking here");
        return;
    }
    let most = |run: &Run| run.steps.iter().copied().max().unwrap_or(0);
    assert!(most(&with) >= 5, "{:?}", with.steps);
    // Not the most: a step that loses its processor marks little.
    let mean = |run: &Run| run.steps.iter().sum::<u32>() as usize / run.steps.len().max(1);
    assert!(
        mean(&limited) > mean(&with),
        "{:?} {:?}",
        limited.steps,
        with.steps
    );
    assert_eq!(
        with.result["collections"].as_u64(),
        Some((with.young + with.whole) as u64),
        "steps are not collections: {}",
        with.result
    );
}
