//! The paper's Figures 5 and 6 from the first run of each variant: queries and memory over time.

use super::{Case, Policy, Run, SHORT};
use crate::Result;
use crate::harness::moments::Moment;
use crate::report::plot::Plot;
use crate::runner::{Runner, Variant};
use plimsoll_picture::chart::{Kind, Series};
use plimsoll_unit::float::MIB;

/// The pictures of the variants that ran.
pub(super) fn draw(ran: &[Variant<Case, Run>], runner: &Runner) -> Result<()> {
    runner.plot("queries", &queries(ran))?;
    if let Some(plot) = memory(ran) {
        runner.plot("", &plot)?;
    }
    Ok(())
}

/// The moments of the first run of a variant of the short size.
fn of(ran: &[Variant<Case, Run>], policy: Policy, hog: bool) -> &[Moment] {
    let size = SHORT;
    let case = Case { policy, hog, size };
    let found = ran.iter().find(|variant| variant.what == case);
    let first = found.and_then(|variant| variant.outcomes.first());
    first.map_or(&[], |run| &run.moments)
}

fn points(moments: &[Moment], value: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
    moments.iter().map(|one| (one.at, value(one))).collect()
}

/// Figure 5, beside the hog: the paper's also has the runs without one, which the table says.
fn queries(ran: &[Variant<Case, Run>]) -> Plot {
    let policies = [
        Policy::Adaptive,
        Policy::Paper,
        Policy::Fixed(348),
        Policy::Fixed(256),
        Policy::Fixed(64),
    ];
    let each = policies.into_iter().enumerate();
    let series = each.map(|(colour, policy)| Series {
        name: policy.name(),
        points: points(of(ran, policy, true), |one| one.work),
        colour,
        ..Series::default()
    });
    Plot {
        title: "Caches beside a hog: queries over time".to_owned(),
        note: "One run of each; the hog takes 95 % of the memory".to_owned(),
        unit: "queries".to_owned(),
        events: vec![(SHORT.hog.0, "the hog begins".to_owned())],
        series: series.filter(|line| !line.points.is_empty()).collect(),
        ..Plot::default()
    }
}

/// Figure 6; `None` if the adaptive cache did not run beside the hog.
fn memory(ran: &[Variant<Case, Run>]) -> Option<Plot> {
    let beside = Some(of(ran, Policy::Adaptive, true)).filter(|moments| !moments.is_empty())?;
    let line = |name: &str, value: fn(&Moment) -> u64, colour, kind| Series {
        name: name.to_owned(),
        points: points(beside, |one| value(one) as f64 / MIB),
        colour,
        kind,
        ..Series::default()
    };
    let mut series = vec![
        line("cache", |one| one.uses, 0, Kind::Line),
        line("hog", |one| one.hog, 1, Kind::Area),
        line("limit", |one| one.limit, 2, Kind::Dashed),
        line("in swap", |one| one.swapped, 6, Kind::Line),
    ];
    series.retain(|line| line.points.iter().any(|point| point.1 > 0.0));
    Some(Plot {
        title: "An adaptive cache beside a hog: memory over time".to_owned(),
        note: "One run".to_owned(),
        unit: "MiB".to_owned(),
        events: vec![(SHORT.hog.0, "the hog begins".to_owned())],
        series,
        top: SHORT.budget as f64 / MIB,
        ..Plot::default()
    })
}
