//! The paper's Figures 1 and 2 from the first run of each variant: iterations and memory over time.

use super::{BUDGET, Case, HOG_START, Run, Schedule};
use crate::Result;
use crate::harness::moments::Moment;
use crate::report::plot::Plot;
use crate::runner::{Runner, Variant};
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_unit::float::MIB;

/// The pictures of the variants that ran.
pub(super) fn draw(ran: &[Variant<Case, Run>], runner: &Runner) -> Result<()> {
    runner.plot("iterations", &iterations(ran))?;
    for schedule in Schedule::ALL {
        let part = match schedule {
            Schedule::Adaptive => "",
            other => other.name(),
        };
        if let Some(plot) = memory(schedule, ran) {
            runner.plot(part, &plot)?;
        }
    }
    Ok(())
}

/// The moments of the first run of a variant.
fn of(ran: &[Variant<Case, Run>], schedule: Schedule, hog: bool) -> Option<&[Moment]> {
    let case = Case { schedule, hog };
    let found = ran.iter().find(|variant| variant.what == case)?;
    Some(&found.outcomes.first()?.moments)
}

fn points(moments: &[Moment], value: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
    moments.iter().map(|one| (one.at, value(one))).collect()
}

/// When the hog begins, and when it was seen last if the program outlives it.
fn events(beside: &[Moment]) -> Vec<(f64, String)> {
    let last = beside.iter().rposition(|one| one.hog > 0);
    let left = last.filter(|last| last + 1 < beside.len());
    let left = left.map(|last| (beside[last].at, "it has left".to_owned()));
    let begins = (HOG_START, "the hog begins".to_owned());
    std::iter::once(begins).chain(left).collect()
}

/// Figure 1.
fn iterations(ran: &[Variant<Case, Run>]) -> Plot {
    let all = Schedule::ALL.into_iter().enumerate();
    let lines = all.flat_map(|(colour, schedule)| {
        [false, true].map(|hog| Series {
            name: format!("{}{}", schedule.name(), if hog { ", hog" } else { "" }),
            points: points(of(ran, schedule, hog).unwrap_or_default(), |one| one.work),
            colour,
            kind: if hog { Kind::Dashed } else { Kind::Line },
            ..Series::default()
        })
    });
    let series: Vec<Series> = lines.filter(|line| !line.points.is_empty()).collect();
    Plot {
        title: "GCBench on libgc: iterations over time".to_owned(),
        note: "One run of each schedule; dashed: with a hog that takes half of the memory"
            .to_owned(),
        unit: "iterations".to_owned(),
        events: events(of(ran, Schedule::Adaptive, true).unwrap_or_default()),
        series,
        ..Plot::default()
    }
}

/// Figure 2 for one schedule; `None` if it did not run beside the hog.
fn memory(schedule: Schedule, ran: &[Variant<Case, Run>]) -> Option<Plot> {
    let beside = of(ran, schedule, true).filter(|moments| !moments.is_empty())?;
    let alone = of(ran, schedule, false).unwrap_or_default();
    let line = |name: &str, moments, value: fn(&Moment) -> u64, colour, kind| Series {
        name: name.to_owned(),
        points: points(moments, |one| value(one) as f64 / MIB),
        colour,
        kind,
        ..Series::default()
    };
    let mut series = vec![
        line("gcbench", beside, |one| one.uses, 0, Kind::Line),
        line("without a hog", alone, |one| one.uses, 0, Kind::Dashed),
        line("hog", beside, |one| one.hog, 1, Kind::Area),
        line("limit", beside, |one| one.limit, 2, Kind::Dashed),
        line("in swap", beside, |one| one.swapped, 6, Kind::Line),
    ];
    series.retain(|line| line.points.iter().any(|point| point.1 > 0.0));
    Some(Plot {
        title: format!("GCBench on libgc, {}: memory over time", schedule.name()),
        note: "One run with a hog, and one without".to_owned(),
        unit: "MiB".to_owned(),
        events: events(beside),
        series,
        top: BUDGET as f64 / MIB,
        ..Plot::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The latest time of any line.
    fn end(series: &[Series]) -> f64 {
        let last = series.iter().filter_map(|line| line.points.last());
        last.map(|point| point.0).fold(0.0, f64::max)
    }

    fn ran(schedule: Schedule, hog: bool, seconds: u32) -> Variant<Case, Run> {
        let moment = |second| Moment {
            at: f64::from(second),
            work: f64::from(second) * 40.0,
            uses: 900 << 20,
            hog: if hog { 700 << 20 } else { 0 },
            ..Moment::default()
        };
        Variant {
            name: String::new(),
            what: Case { schedule, hog },
            outcomes: vec![Run {
                moments: (0..=seconds).map(moment).collect(),
                ..Run::default()
            }],
        }
    }

    #[test]
    fn a_picture_ends_where_the_longest_run_does() {
        let all = [
            ran(Schedule::Adaptive, false, 11),
            ran(Schedule::Adaptive, true, 13),
            ran(Schedule::Fixed, true, 20),
        ];
        let plot = iterations(&all);
        let names: Vec<&str> = plot.series.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["adaptive", "adaptive, hog", "fixed, hog"]);
        assert_eq!((end(&plot.series), plot.seconds), (20.0, 0.0));
        assert_eq!(plot.series[2].points.last(), Some(&(20.0, 800.0)));
        let plot = memory(Schedule::Adaptive, &all).expect("it ran beside the hog");
        let names: Vec<&str> = plot.series.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["gcbench", "without a hog", "hog"], "no swap");
        assert_eq!(end(&plot.series), 13.0);
        assert_eq!(plot.events.len(), 1, "it ended before the hog had left");
        assert!(memory(Schedule::Default, &all).is_none());
        let mut left = all[1].outcomes[0].moments.clone();
        left[13].hog = 0;
        assert_eq!(events(&left)[1], (12.0, "it has left".to_owned()));
    }
}
