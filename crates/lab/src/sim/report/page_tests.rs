use super::super::run::Status;
use super::super::samples;
use super::*;
use plimsoll_cli::size::Human;

/// Runs of some programs, collectors, heaps and schedulers.
fn sweep(programs: &[&str], collectors: &[&str], heaps: &[u64], schedulers: &[&str]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        for collector in collectors {
            for &heap in heaps {
                for (nth, scheduler) in schedulers.iter().enumerate() {
                    let mut run = samples::done();
                    run.cell.trace = format!("traces/{program}.plt");
                    run.cell.fingerprint = format!("{at:016x}");
                    run.cell.collector = (*collector).into();
                    run.cell.heap = heap;
                    run.cell.scheduler = (*scheduler).into();
                    let outcome = run.outcome.as_mut().expect("one");
                    outcome.work = 8000 / heap * 1000 - 100 * nth as u64;
                    outcome.execution -= 1000 * nth as u64;
                    outcome.contentions += 100 * nth as u64;
                    runs.push(run);
                }
            }
        }
    }
    runs
}

const ALL: [&str; 3] = ["RR", "LARF", "MQRR"];

#[test]
fn a_sweep_has_a_picture_for_each_figure() {
    let runs = sweep(
        &["bank", "search"],
        &["GenMC", "SemiSpace"],
        &[1500, 2000, 3000],
        &ALL,
    );
    let page = page(&runs);
    // Four for each collector; for each program one by collector, and one by heap for each collector.
    assert_eq!(page.matches("<svg viewBox").count(), 2 * 4 + 2 * (1 + 2));
    assert!(page.contains("A heap of 3 times the largest live size of each program."));
    assert!(page.contains("changes are those against RR"));
    for needle in [
        "bank: SemiSpace by the size of the heap",
        ">search</text>",
        "LARF: 1.10ms, −0.1 %",
    ] {
        assert!(page.contains(needle), "{needle}");
    }
    // The paper's collector stands first among those of a program.
    let (first, second) = (page.find("bank: GenMC by"), page.find("bank: SemiSpace by"));
    assert!(first.is_some() && first < second);
    if let Ok(path) = std::env::var("PLIMSOLL_SHOW") {
        std::fs::write(path, &page).expect("written");
    }
}

#[test]
fn table_1_of_the_paper_is_among_the_numbers() {
    let page = page(&[samples::done()]);
    let heads = "<th>threads</th><th>objects</th><th>allocated</th><th>largest live</th>";
    assert!(page.contains(heads));
    let (allocated, live) = (Human(u64::MAX), Human(1001));
    let row = format!("<td>3</td><td>100</td><td>{allocated}</td><td>{live}</td>");
    assert!(page.contains(&row), "{page}");
}

#[test]
fn one_simulation_is_a_page_too() {
    let page = page(&[samples::done()]);
    assert_eq!(page.matches("<svg viewBox").count(), 4);
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn what_has_no_outcome_is_said_and_leaves_a_gap() {
    let mut runs = sweep(&["x"], &["GenMC"], &[1500, 3000], &ALL);
    runs[1].outcome = None;
    runs[1].status = Status::Failed;
    runs[1].error = Some("<b>too small</b>".into());
    let page = page(&runs);
    assert!(page.contains("&lt;b&gt;too small&lt;/b&gt;") && !page.contains("<b>too"));
    let none: Vec<Run> = vec![samples::failed(); 3];
    let page = super::page(&none);
    assert!(page.contains("Without an outcome") && !page.contains("NaN"));
    assert!(super::page(&[]).contains("0 simulations"));
}

#[test]
fn nothing_from_outside_is_loaded_or_run() {
    let mut runs = sweep(&["<script>alert(1)</script>"], &["GenMC"], &[3000], &ALL);
    runs[0].cell.scheduler = "\"><img src=x>".into();
    let page = page(&runs);
    for forbidden in ["<script", "<img", "http:", "https:", "@import", "href="] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn changes_have_signs_and_few_digits() {
    let said = [-12.34, -0.01, 0.0, 5.0, 150.0, 1200.0].map(bars::percent);
    assert_eq!(
        said,
        ["−12.3 %", "0 %", "0 %", "+5.0 %", "+150 %", "13 times"]
    );
    assert_eq!(bars::change(Some(0.0), 0.0), Some(0.0));
    assert_eq!(bars::change(Some(0.0), 1.0), None);
    assert_eq!(bars::change(None, 1.0), None);
}
