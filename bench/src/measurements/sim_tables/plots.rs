//! The pictures: what collections mark and copy, by the size of the heap and by how it is divided.

use super::programs::Program;
use super::runs::{Runs, SCHEDULERS, Sweep};
use crate::Result;
use crate::report::plot::Plot;
use crate::runner::Runner;
use plimsoll_picture::chart::{Kind, Series};

/// Sizes of the heap, in largest live sizes.
const HEAPS: [f64; 7] = [1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0];
/// Sizes of the mature space, in nurseries.
const RATIOS: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 6.0, 8.0];

/// Draws both pictures of a program.
pub(super) fn draw(runner: &Runner, program: &Program, runs: &Runs) -> Result<()> {
    let by_heap = runs.sweep(&HEAPS, &[2.0])?;
    let by_ratio = runs.sweep(&[3.0], &RATIOS)?;
    let name = program.name;
    let note =
        "GenMC, quantum 10 µs and 10 KiB. Dashed: LARF where threads with equal rates take turns";
    for (kind, across, what, sweep) in [
        (
            "heap",
            "heap, in largest live sizes",
            "the size of the heap",
            by_heap,
        ),
        (
            "ratio",
            "mature space, in nurseries",
            "the division of the heap",
            by_ratio,
        ),
    ] {
        let plot = Plot {
            title: format!("Work of collections in {name} by {what} (simulated)"),
            note: note.to_owned(),
            unit: "marked and copied, % of the allocated bytes".to_owned(),
            across: across.to_owned(),
            series: lines(&sweep),
            ..Plot::default()
        };
        runner.plot(&format!("{name}-{kind}"), &plot)?;
    }
    Ok(())
}

fn lines(sweep: &Sweep) -> Vec<Series> {
    let line = |(number, (scheduler, ties)): (usize, (&str, Option<&str>))| {
        let takes_turns = ties == Some("oldest");
        let points = sweep.iter();
        Series {
            // Its note tells which of the two is dashed.
            name: if takes_turns {
                String::new()
            } else {
                scheduler.to_owned()
            },
            points: points
                .filter_map(|(at, values)| Some((*at, values[number]? * 100.0)))
                .collect(),
            colour: SCHEDULERS
                .iter()
                .position(|it| it.0 == scheduler)
                .unwrap_or_default(),
            kind: if takes_turns {
                Kind::Dashed
            } else {
                Kind::Line
            },
            ..Series::default()
        }
    };
    SCHEDULERS.into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_without_an_outcome_is_no_point() {
        let sweep = vec![
            (1.5, [Some(0.5), None, Some(0.4), Some(0.3)]),
            (3.0, [Some(0.25), Some(0.125), Some(0.2), Some(0.1)]),
        ];
        let lines = lines(&sweep);
        assert_eq!(lines[0].points, [(1.5, 50.0), (3.0, 25.0)]);
        assert_eq!(lines[1].points, [(3.0, 12.5)]);
        assert_eq!(
            (lines[2].kind, lines[2].colour),
            (Kind::Dashed, lines[1].colour)
        );
        assert_eq!(lines[3].name, "MQRR");
    }
}
