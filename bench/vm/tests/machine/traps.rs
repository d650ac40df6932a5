//! Traps of MMTk 0.33 for a trigger.

use super::{PLANS, machine, number, output, run, told};
use plimsoll_unit::MIB;

/// Bytes that may be in use above a limit: what each thread was granted before the poll.
const SLACK: u64 = 2 * MIB;

#[test]
fn a_bound_that_another_thread_moves_holds_at_the_next_poll() {
    for plan in ["Immix", "MarkSweep", "GenCopy", "SemiSpace"] {
        let told = run(&format!(
            "--plan {plan} --heap isla-vista:96m moved 64m 24m 12m 48m"
        ));
        assert_eq!(told["said"]["ended"], true, "{plan}");
        for (index, bound) in [64, 24, 12, 48].into_iter().enumerate() {
            let most = number(&told, &format!("/said/most/{index}"));
            assert!(
                most <= bound * MIB + SLACK,
                "{plan}: {most} under {bound} MiB"
            );
            // A copying collection needs as much again.
            assert!(
                most >= bound * MIB / 4,
                "{plan}: {most} of {bound} MiB were used"
            );
        }
    }
}

#[test]
fn both_halves_of_a_copying_heap_follow_a_bound_that_falls() {
    let resident = |heap: &str, bounds: &str| {
        let heap = format!("--plan SemiSpace --heap {heap} --threads 1");
        number(&run(&format!("{heap} moved {bounds}")), "/said/resident")
    };
    let fixed = resident("isla-vista:60m", "60m");
    let fell = resident("isla-vista:128m", "128m 60m");
    assert!(fell < fixed + 60 * MIB / 4, "{fell}, not {fixed}");
}

#[test]
fn the_maximum_is_finite_whatever_is_asked_for() {
    let told = run("--plan Immix --heap isla-vista:8000000000g maximum");
    let max = number(&told, "/said/max");
    let text = std::fs::read_to_string("/proc/meminfo").expect("procfs");
    let total = text
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(1));
    let total: u64 = total.and_then(|kib| kib.parse().ok()).expect("MemTotal");
    assert!(max <= total * 1024, "{max}");
    let few = output(machine("--plan Immix --heap isla-vista:1m maximum"));
    let said = String::from_utf8_lossy(&few.stderr).into_owned();
    assert!(
        !few.status.success() && said.contains("at least 8 MiB"),
        "{said}"
    );
}

/// If this fails, MMTk answers by itself now, and the guide can say so.
#[test]
fn mmtk_panics_when_it_is_asked_for_the_maximum_and_the_handle_does_not() {
    let told = run("--plan GenImmix --heap isla-vista:64m maximum");
    assert_eq!(told["said"]["panics"], true);
    assert_eq!(number(&told, "/said/max"), 64 * MIB);
}

#[test]
fn more_live_data_than_the_maximum_is_out_of_memory_and_no_endless_loop() {
    for plan in PLANS {
        for heap in ["isla-vista:32m", "after-stalls:32m"] {
            let told = run(&format!("--plan {plan} --heap {heap} fill"));
            assert_eq!(told["said"]["goes_on"], true, "{plan}, {heap}");
            assert_eq!(number(&told, "/out_of_memory"), 1, "{plan}, {heap}");
            let bytes = number(&told, "/said/bytes");
            assert!(
                bytes > 8 * MIB && bytes < 32 * MIB,
                "{plan}, {heap}: {bytes}"
            );
            // Each of the last requests costs some collections, not hundreds.
            assert!(number(&told, "/pauses") < 200, "{plan}, {heap}: {told}");
        }
    }
}

#[test]
fn a_bound_below_what_lives_slows_a_program_and_does_not_stop_it() {
    for plan in PLANS {
        let told = run(&format!(
            "--plan {plan} --heap isla-vista:256m --bound 1m live 30m 20000"
        ));
        assert_eq!(number(&told, "/said/checked"), 20_000 * 4 * 30, "{plan}");
        assert_eq!(number(&told, "/out_of_memory"), 0, "{plan}");
        assert!(number(&told, "/figures/collections") > 3, "{plan}: {told}");
    }
}

#[test]
fn a_large_request_is_let_in_by_a_heap_with_a_small_limit() {
    for plan in PLANS {
        let told = run(&format!("--plan {plan} --heap after-stalls:256m large 90m"));
        assert!(number(&told, "/said/limit_before") < 90 * MIB, "{plan}");
        assert_eq!(told["said"]["let_in"], true, "{plan}");
        // Some collections, not hundreds: a concurrent one is asked for again until it has ended.
        assert!(
            number(&told, "/figures/collections") < 100,
            "{plan}: {told}"
        );
    }
}

#[test]
fn threads_that_are_no_mutators_may_want_collections_at_any_time() {
    for plan in ["Immix", "GenCopy", "ConcurrentImmix"] {
        let told = run(&format!("--plan {plan} --heap isla-vista:64m foreign 8m"));
        assert_eq!(told["said"]["ended"], true, "{plan}");
        assert!(number(&told, "/said/asked") > 100, "{plan}");
        assert!(number(&told, "/figures/wanted") > 3, "{plan}: {told}");
        // A wish at every poll must not look like memory that is out.
        assert_eq!(number(&told, "/out_of_memory"), 0, "{plan}");
    }
}

#[test]
fn an_idle_program_collects_at_its_next_poll() {
    let told = run("--plan Immix --heap isla-vista:64m idle");
    assert_eq!(number(&told, "/said/while_idle"), 0);
    assert_eq!(number(&told, "/said/by_poll"), 1);
    assert_eq!(number(&told, "/said/by_allocation"), 1);
}

#[test]
fn the_limit_is_set_before_generational_plans_decide_by_it() {
    for plan in ["GenCopy", "GenImmix", "StickyImmix"] {
        let told = run(&format!(
            "--plan {plan} --watch --heap after-stalls:256m live 60m 60000"
        ));
        assert_eq!(number(&told, "/watched/in_gc_end"), 0, "{plan}");
        assert!(number(&told, "/watched/in_pause_end") > 0, "{plan}: {told}");
    }
}

#[test]
fn a_nursery_is_never_too_small() {
    for plan in ["GenCopy", "GenImmix", "StickyImmix"] {
        let told = run(&format!(
            "--plan {plan} --watch --heap isla-vista:256m --bound 1m live 12m 40000"
        ));
        assert!(number(&told, "/watched/smallest") >= 8 * MIB, "{plan}");
        assert!(number(&told, "/figures/collections") > 3, "{plan}");
        assert_eq!(number(&told, "/watched/tight"), 0, "{plan}: {told}");
    }
}

#[test]
fn collections_that_are_wanted_of_a_plan_that_never_collects_are_not_asked_for() {
    let told = run("--plan NoGC --heap isla-vista:1g foreign 8m");
    assert_eq!(told["said"]["ended"], true);
    assert_eq!(number(&told, "/figures/wanted"), 0);
    assert_eq!(number(&told, "/pauses"), 0);
}

#[test]
fn before_mmtk_can_collect_nobody_makes_it_panic() {
    for plan in ["Immix", "SemiSpace"] {
        let told = run(&format!(
            "--plan {plan} --heap isla-vista:64m --early 16m spend 32m"
        ));
        assert_eq!(number(&told, "/said/failed"), 0, "{plan}");
        // Collections that were wanted meanwhile are done when they can be.
        assert!(number(&told, "/figures/wanted") > 0, "{plan}: {told}");
        let limit = number(&told, "/figures/limit");
        assert!(limit < 64 * MIB, "{plan}: the bound holds since: {limit}");
    }
}

#[test]
fn a_runtime_that_never_says_that_mmtk_can_collect_is_told_so_once() {
    let plain = "--plan Immix --heap isla-vista:64m spend 200m";
    let unready = format!("--unready {plain}");
    let [plain, unready] = [plain, unready.as_str()].map(|words| {
        let output = output(machine(words));
        let figures = told(&output, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (said.matches("Control::ready").count(), figures)
    });
    assert_eq!((plain.0, unready.0), (0, 1));
    let limit = number(&unready.1, "/figures/limit");
    assert!(limit < 64 * MIB, "since then the bound holds: {limit}");
}

#[test]
fn a_child_after_a_fork_goes_on_under_the_bound_of_the_program() {
    for plan in ["Immix", "GenCopy"] {
        let told = run(&format!("--plan {plan} --heap isla-vista:64m fork"));
        assert_eq!(number(&told, "/said/child"), 0, "{plan}: its exit status");
        assert_eq!(told["said"]["worked"], true, "{plan}: {told}");
        assert_eq!(told["said"]["bound"], true, "{plan}: {told}");
    }
}

/// The next object of any thread begins a collection when all that the program made is dead. At the end
/// of a program the heap is full once in some hundred times, so this goes past it in small steps.
#[test]
fn a_program_may_end_when_its_heap_is_full() {
    let pauses = |operations: u64| {
        let program = format!("live 4m {operations}");
        let heap = "--plan MarkCompact --heap isla-vista:256m --bound 1m";
        number(&run(&format!("{heap} --threads 1 {program}")), "/pauses")
    };
    // A step is less than the buffer of 32 KiB that a thread takes at a time.
    let seen: Vec<u64> = (4000..=5000).step_by(35).map(pauses).collect();
    assert!(seen.first() < seen.last(), "never full: {seen:?}");
}

/// If this fails, MMTk counts right by itself now, and the guide can say so.
#[test]
fn of_a_heap_without_a_live_object_mark_compact_alone_loses_count() {
    let heap = "--heap isla-vista:64m emptied";
    for plan in PLANS {
        let keeps = run(&format!("--plan {plan} {heap} --keep"));
        assert!(number(&keeps, "/said/used") < 64 * MIB / 4096, "{plan}");
        if plan == "MarkCompact" {
            continue;
        }
        let empty = run(&format!("--plan {plan} {heap}"));
        assert!(number(&empty, "/said/used") < 64 * MIB / 4096, "{plan}");
    }
    let output = output(machine(&format!("--plan MarkCompact {heap}")));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        // More pages than there are addresses for.
        let told = told(&output, "MarkCompact");
        assert!(number(&told, "/said/used") > 1 << 36, "{told}");
    } else {
        // With its assertions MMTk panics at the subtraction, and the machine ends itself.
        assert!(said.contains("panicked"), "{said}");
        assert_ne!(output.status.code(), Some(124), "it waits for ever");
    }
}

#[test]
fn a_plan_that_never_collects_has_its_maximum_only() {
    let told = run("--plan NoGC --heap isla-vista:64m spend 48m");
    assert_eq!(number(&told, "/said/failed"), 0);
    assert_eq!(number(&told, "/pauses"), 0);
    let ended = output(machine("--plan NoGC --heap isla-vista:64m spend 200m"));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("GC triggered in nogc"), "{said}");
    assert_ne!(ended.status.code(), Some(124), "it waits for ever");
}
