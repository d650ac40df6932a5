//! Real programs with the adapter: gcbench (C) and churn (GNU Guile). The tests assert bytes and
//! counts, never times.

use crate::stage::{self, Page, churn, gcbench, last, number, run, with};
use plimsoll_unit::Bytes;
use std::process::Command;
use std::time::Duration;

const MB: Bytes = Bytes(plimsoll_unit::MB);
/// Samples taken while a limit is in force.
const SAMPLES: usize = 20;

fn stays_below(program: &stage::Running, limit: Bytes) {
    for _ in 0..SAMPLES {
        let uses = program.uses();
        assert!(uses <= limit, "uses {uses} of {limit}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn use_follows_the_limit_down_and_up() {
    let Some(gcbench) = gcbench() else { return };
    let page = Page::new(MB * 300);
    let mut program = stage::start(&page, &with(&gcbench, &["--seconds", "600"]));
    program.until("fills its limit", |uses| uses > MB * 270);
    stays_below(&program, MB * 300);
    page.set(MB * 120);
    program.until("gives back", |uses| uses <= MB * 120);
    stays_below(&program, MB * 120);
    page.set(MB * 400);
    program.until("grows again", |uses| uses > MB * 360);
    stays_below(&program, MB * 400);
}

#[test]
fn guile_follows_the_limit_down_and_up() {
    let Some(churn) = churn() else { return };
    let page = Page::new(MB * 250);
    let mut program = stage::start(&page, &with(&churn, &["15", "600"]));
    program.until("fills its limit", |uses| uses > MB * 225);
    page.set(MB * 120);
    program.until("gives back", |uses| uses <= MB * 120);
    page.set(MB * 200);
    program.until("grows again", |uses| uses > MB * 180);
    stays_below(&program, MB * 200);
}

#[test]
fn with_memory_at_hand_it_collects_rarely_and_computes_the_same() {
    let Some(gcbench) = gcbench() else { return };
    let argv = with(&gcbench, &["--iterations", "60"]);
    let (plain, steered) = (run(&argv, None), run(&argv, Some("fixed:500000000")));
    let collections = |lines| number(last(lines), "collections");
    assert!(
        collections(&steered) * 10 <= collections(&plain),
        "{} {}",
        last(&steered),
        last(&plain)
    );
    assert_eq!(
        number(last(&steered), "checksum"),
        number(last(&plain), "checksum")
    );
    assert_eq!(steered.len(), plain.len());
}

#[test]
fn a_program_with_a_maximum_of_its_own_is_collected_below_it() {
    let Some(gcbench) = gcbench() else { return };
    let argv = with(&gcbench, &["--iterations", "60"]);
    let plain = run(&argv, None);
    let checksum = number(last(&plain), "checksum");
    // More memory is available than its maximum, and the program allocates many times that.
    for bound in ["export GC_MAXIMUM_HEAP_SIZE=100M", "ulimit -v 400000"] {
        let bounded = ["sh", "-c", &format!("{bound}; exec \"$0\" \"$@\"")].map(String::from);
        let bounded: Vec<String> = bounded.into_iter().chain(argv.clone()).collect();
        let steered = run(&bounded, Some("fixed:1000000000"));
        let done = last(&steered);
        assert_eq!(number(done, "checksum"), checksum, "{bound}");
        assert!(number(done, "collections") > 3, "{bound}: {done}");
    }
}

#[test]
fn guile_computes_the_same_with_fewer_collections() {
    let Some(churn) = churn() else { return };
    let argv = with(&churn, &["10", "x60"]);
    let (plain, steered) = (run(&argv, None), run(&argv, Some("fixed:400000000")));
    for field in ["work", "checksum", "round"] {
        assert_eq!(number(last(&steered), field), number(last(&plain), field));
    }
    let collections = |lines| number(last(lines), "collections");
    assert!(
        collections(&steered) * 3 <= collections(&plain),
        "{} {}",
        last(&steered),
        last(&plain)
    );
}

#[test]
fn off_and_default_leave_the_schedule_alone() {
    let Some(gcbench) = gcbench() else { return };
    let argv = with(&gcbench, &["--iterations", "20"]);
    let plain = number(last(&run(&argv, None)), "collections");
    for setting in ["off", "default", "nonsense"] {
        let collections = number(last(&run(&argv, Some(setting))), "collections");
        assert!(
            collections.abs_diff(plain) <= plain / 10 + 2,
            "{setting}: {collections} {plain}"
        );
    }
}

#[test]
fn an_idle_program_pays_its_debt() {
    let Some(gcbench) = gcbench() else { return };
    let page = Page::new(MB * 300);
    let argv = with(
        &gcbench,
        &["--iterations", "60", "--every", "60", "--idle", "600"],
    );
    let mut program = stage::start(&page, &argv);
    program.until("fills its limit", |uses| uses > MB * 250);
    let idle = |lines: &stage::Lines| lines.iter().any(|line| line["event"] == "idle");
    while !idle(&stage::lines(&program)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    page.set(MB * 60);
    program.until("gives back without allocating", |uses| uses <= MB * 60);
}

#[test]
fn a_program_that_forbids_collections_has_none() {
    let Some(gcbench) = gcbench() else { return };
    let page = Page::new(MB * 40);
    let argv = with(
        &gcbench,
        &[
            "--iterations",
            "60",
            "--every",
            "1",
            "--no-gc-from",
            "10",
            "--no-gc-to",
            "40",
        ],
    );
    let lines = stage::finish(stage::start(&page, &argv));
    let at = |iteration: u64| {
        let line = lines
            .iter()
            .find(|line| line["event"] == "progress" && line["iteration"] == iteration);
        number(line.expect("each iteration is told"), "collections")
    };
    assert_eq!(at(11), at(40));
    assert!(
        at(60) > at(40),
        "collections go on when they are allowed again"
    );
}

#[test]
fn threads_compute_the_same_while_the_limit_moves() {
    let Some(gcbench) = gcbench() else { return };
    let argv = with(&gcbench, &["--iterations", "25", "--threads", "3"]);
    let plain = number(last(&run(&argv, None)), "checksum");
    let page = Page::new(MB * 300);
    let program = stage::start(&page, &argv);
    for limit in [60, 200, 40, 300].into_iter().cycle().take(12) {
        std::thread::sleep(Duration::from_millis(150));
        page.set(MB * limit);
    }
    assert_eq!(number(last(&stage::finish(program)), "checksum"), plain);
}

#[test]
fn finalizers_run_on_the_programs_own_thread() {
    let Some(gcbench) = gcbench() else { return };
    let page = Page::new(MB * 200);
    let program = stage::start(
        &page,
        &with(&gcbench, &["--iterations", "60", "--finalizers"]),
    );
    for limit in [40, 150].into_iter().cycle().take(12) {
        std::thread::sleep(Duration::from_millis(100));
        page.set(MB * limit);
    }
    let lines = stage::finish(program);
    let told = lines
        .iter()
        .find(|line| line["event"] == "finalizers")
        .expect("it is told");
    assert_eq!(
        (told["some"].as_bool(), number(told, "elsewhere")),
        (Some(true), 0)
    );
}

#[test]
fn a_forked_child_goes_on() {
    let Some(gcbench) = gcbench() else { return };
    let page = Page::new(MB * 100);
    let program = stage::start(&page, &with(&gcbench, &["--iterations", "40", "--fork"]));
    for limit in [40, 150].into_iter().cycle().take(10) {
        std::thread::sleep(Duration::from_millis(100));
        page.set(MB * limit);
    }
    let lines = stage::finish(program);
    let child = lines
        .iter()
        .find(|line| line["event"] == "child")
        .expect("it is told");
    assert_eq!(child["right"].as_bool(), Some(true));
    assert_eq!(last(&lines)["event"], "done");
}

#[test]
fn a_dead_broker_leaves_its_last_word() {
    let Some(gcbench) = gcbench() else { return };
    let mut page = Page::new(MB * 300);
    let mut program = stage::start(
        &page,
        &with(&gcbench, &["--seconds", "600", "--every", "1"]),
    );
    program.until("fills its limit", |uses| uses > MB * 250);
    page.set(MB * 150);
    program.until("gives back", |uses| uses <= MB * 150);
    page.die();
    std::thread::sleep(Duration::from_secs(4)); // the page is stale after three
    let before = number(last(&stage::lines(&program)), "collections");
    stays_below(&program, MB * 150);
    while number(last(&stage::lines(&program)), "collections") < before + 3 {
        stays_below(&program, MB * 150);
    }
}

#[test]
fn a_broken_page_costs_nothing() {
    let Some(gcbench) = gcbench() else { return };
    let argv = with(&gcbench, &["--iterations", "10"]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page");
    for content in [
        None,
        Some(vec![]),
        Some(vec![0; 4096]),
        Some(vec![0xff; 4096]),
        Some(vec![b'P'; 100]),
    ] {
        if let Some(content) = &content {
            std::fs::write(&path, content).expect("writable");
        }
        let output = Command::new(&argv[0])
            .args(&argv[1..])
            .env("LD_PRELOAD", stage::agent())
            .env("PLIMSOLL_PAGE", &path)
            .output()
            .expect("the program starts");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let collections = number(
            last(&stage::parse(&String::from_utf8_lossy(&output.stdout))),
            "collections",
        );
        assert!(collections > 10, "{collections}");
    }
}
