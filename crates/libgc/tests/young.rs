//! Collections of young objects: nobody asks for them, they are much less work, and the heap is hardly larger for them.

#[path = "support/heapload.rs"]
mod heapload;
#[path = "support/library.rs"]
mod library;

use std::path::Path;
use std::process::Command;

/// What a program printed, and how many of its collections were of young objects, and whole.
struct Run {
    result: serde_json::Value,
    young: usize,
    whole: usize,
}

fn run(program: &Path, arguments: &[&str], forbidden: bool) -> Run {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("young");
    library::link(&directory);
    let mut command = Command::new("timeout");
    command
        .arg("300")
        .arg(program)
        .args(arguments)
        .env("GC_PRINT_STATS", "1")
        .env("LD_LIBRARY_PATH", &directory);
    if forbidden {
        command.env("GC_DISABLE_INCREMENTAL", "1");
    }
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let collections = said.lines().filter(|line| line.starts_with("gc "));
    let (young, whole): (Vec<&str>, Vec<&str>) =
        collections.partition(|line| line.contains(": young,"));
    Run {
        result: serde_json::from_slice(&output.stdout).expect("one object"),
        young: young.len(),
        whole: whole.len(),
    }
}

#[test]
fn where_most_lives_and_what_is_new_dies_they_take_the_place_of_most_and_no_more_memory() {
    let Some(program) = heapload::heapload() else {
        return;
    };
    let arguments = ["largelive", "--live-mb", "40", "--churn", "20000000"];
    let with = run(program, &arguments, false);
    let without = run(program, &arguments, true);
    assert_eq!(without.young, 0);
    assert_eq!(with.result["checksum"], without.result["checksum"]);
    if plimsoll_kernel::tracking::new().is_err() {
        println!("skipped: no write tracking here");
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
