//! Two made-up programs of many threads in one memory: each scheduler of their threads under each policy for
//! their heaps.

use crate::report::results::Results;
use crate::runner::Runner;
use crate::{Error, Result};
use plimsoll_policy::phases::Rule;
use plimsoll_sim::paging::Costs;
use plimsoll_sim::threads::heap::Algorithm;
use plimsoll_sim::threads::{self, Settings, Survey, Traced};
use plimsoll_sim::together::{Entrant, Outcome, Policy, Setup, simulate};
use plimsoll_trace::Trace;
use plimsoll_trace::synth::{self, Options, table};
use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::messages::{Priority, Weight};
use std::sync::Arc;

/// The programs, and how much shorter they are made: some seconds of each.
const PROGRAMS: [(&str, f64); 2] = [("hsqldb", 1.0), ("specjbb2000", 300.0)];
const POLICIES: [(&str, Policy); 3] = [
    ("shares", Policy::Shares),
    ("Isla Vista", Policy::IslaVista),
    ("square root", Policy::SquareRoot),
];
/// By what a slice is shorter and smaller.
const SLICE: f64 = 30.0;
/// Tenths of the sum of the largest live sizes that the memory has.
const MEMORY: u64 = 18;

/// A trace that was read once.
struct Known {
    trace: Trace,
    survey: Survey,
}

/// Adds a row for each scheduler, policy and program.
///
/// # Errors
/// When a program fails.
pub(super) fn rows(results: &mut Results, runner: &Runner) -> Result<()> {
    let known = PROGRAMS
        .iter()
        .map(|&(name, shorten)| made(name, shorten, runner.slice()))
        .collect::<Result<Vec<_>>>()?;
    for (policy_name, policy) in POLICIES {
        for rule in Rule::ALL {
            let name = rule.name();
            runner
                .progress("schedulers")
                .tell(format_args!("{policy_name}, {name}"));
            let outcome = one(&known, policy, rule)?;
            for program in &outcome.programs {
                let heap = (policy_name, name);
                super::row(results, &program.name, heap, "no", program, "-");
            }
        }
    }
    Ok(())
}

fn made(name: &str, shorten: f64, is_slice: bool) -> Result<Known> {
    let program = table::find(name)
        .ok_or_else(|| Error::program(name, "no program of the table has this name"))?;
    let options = Options {
        shorten,
        scale: if is_slice { SLICE } else { 1.0 },
        ..Options::default()
    };
    let bytes = synth::write(program, &options, Vec::new(), name)?;
    let trace = Trace::from_source(Arc::new(bytes), name)?;
    let survey = Survey::of(&trace)?;
    Ok(Known { trace, survey })
}

/// All programs at once, of the same weight.
fn one(known: &[Known], policy: Policy, rule: Rule) -> Result<Outcome> {
    let live: u64 = known.iter().map(|it| it.survey.largest_live).sum();
    let memory = live * MEMORY / 10;
    let entrants = known.iter().map(|it| Entrant {
        name: it.trace.name().to_string(),
        weight: Weight::default(),
        priority: Priority::default(),
        start: Nanos::ZERO,
        stop: None,
        settings: Settings::new(rule, Algorithm::GenMc, Bytes(memory)),
        largest_live: Bytes(it.survey.largest_live),
    });
    let setup = Setup {
        memory: Bytes(memory),
        policy,
        costs: Costs::SOLID_STATE,
        reach: 4,
        entrants: entrants.collect(),
        hogs: Vec::new(),
    };
    let mut programs: Vec<Traced> = known
        .iter()
        .map(|it| Traced::new(&it.trace, &it.survey, 1.0))
        .collect();
    let mut programs: Vec<&mut dyn threads::Program> = programs
        .iter_mut()
        .map(|it| it as &mut dyn threads::Program)
        .collect();
    Ok(simulate(&setup, &mut programs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_end_under_each_scheduler_and_policy() {
        let known = PROGRAMS.map(|(name, shorten)| made(name, shorten * 10.0, true).unwrap());
        for (_, policy) in POLICIES {
            for rule in Rule::ALL {
                let outcome = one(&known, policy, rule).unwrap();
                assert_eq!(outcome.programs.len(), PROGRAMS.len());
                for it in &outcome.programs {
                    let of = &it.outcome;
                    assert_eq!(of.allocated, of.freed + of.live + of.garbage, "{}", it.name);
                    assert!(it.ended > it.began && of.threads > 30);
                }
            }
        }
    }
}
