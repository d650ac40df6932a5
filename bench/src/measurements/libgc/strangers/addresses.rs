//! Limits of addresses (`ulimit -v`): a program is to run in each in which it runs with libgc.

use super::kinds::ADDRESSES;
use crate::Result;
use crate::harness::job::{Conditions, Ending};
use crate::harness::libgc::{OURS, SYSTEM, Workload};
use crate::measurements::libgc::run_workloads::Stage;
use crate::report::results::{Results, Table};
use crate::runner::Runner;
use serde::{Deserialize, Serialize};

/// MiB: the smallest limit.
const FIRST: u64 = 24;
/// MiB: no limit is larger.
const LAST: u64 = 4400;
/// Each limit is larger by one part in this many than the one before.
const PART: u64 = 8;
/// Seconds that a run may take.
const LONGEST: f64 = 60.0;

/// In how many limits a program ran.
#[derive(Default, Serialize, Deserialize)]
struct Count {
    limits: usize,
    /// With libgc, and of these with ours.
    system: usize,
    ours: usize,
    /// Limits, MiB, in which it ran with libgc only.
    lost: Vec<u64>,
    /// MiB: the smallest limit in which it ran with libgc.
    first: Option<u64>,
}

/// Runs two programs in all limits, once.
pub(super) fn measure(stage: &mut Stage, runner: &Runner, results: &mut Results) -> Result<()> {
    let programs = [
        Workload::stranger("addresses", None),
        Workload::guile(20_000, 500),
    ];
    let named = programs.map(|one| (format!("addresses, {}", one.name), one));
    let ran = runner.experiment(named).wanted().once().run(|one, turn| {
        let mut count = Count::default();
        for mib in limits() {
            let progress = turn.progress.part(&format!("{mib} MiB"));
            let limited = one.clone().with_addresses(mib << 10);
            let conditions = Conditions {
                longest: LONGEST,
                ..Conditions::default()
            };
            let mut runs = |with| -> Result<bool> {
                let outcome = stage.run(&limited, 1, with, &conditions, &progress)?;
                Ok(outcome.ending == Ending::Finished)
            };
            count.limits += 1;
            if runs(SYSTEM)? {
                count.first.get_or_insert(mib);
                count.system += 1;
                if runs(OURS)? {
                    count.ours += 1;
                } else {
                    count.lost.push(mib);
                }
            }
        }
        Ok(count)
    })?;
    let counts = ran.iter().flat_map(|variant| &variant.outcomes);
    let names = ran.iter().map(|variant| variant.what.name.as_str());
    report(names.zip(counts).collect(), results);
    Ok(())
}

/// MiB.
fn limits() -> Vec<u64> {
    let next = |mib: &u64| Some(mib + (mib / PART).max(1));
    std::iter::successors(Some(FIRST), next)
        .take_while(|mib| *mib <= LAST)
        .collect()
}

fn report(counts: Vec<(&str, &Count)>, results: &mut Results) {
    let mut table = Table::new(
        "Limits of addresses (`ulimit -v`) in which a program runs.",
        &[
            ("program", ""),
            ("limits", ""),
            ("smallest with libgc", "MiB"),
            ("runs with libgc", ""),
            ("of these with ours", ""),
        ],
    );
    let mut measured = Vec::new();
    for (name, count) in &counts {
        table.rows.push(vec![
            (*name).into(),
            (count.limits as u64).into(),
            count.first.map_or("-".into(), Into::into),
            (count.system as u64).into(),
            (count.ours as u64).into(),
        ]);
        let lost: Vec<String> = count.lost.iter().map(u64::to_string).collect();
        let lost = if lost.is_empty() {
            String::new()
        } else {
            format!(" (not in {} MiB)", lost.join(", "))
        };
        measured.push(format!("{name} {} of {}{lost}", count.ours, count.system));
    }
    if counts.is_empty() {
        results.target(ADDRESSES, "nothing to compare".to_owned(), None);
        return;
    }
    results.tables.push(table);
    let met = counts.iter().all(|(_, count)| count.lost.is_empty());
    results.target(ADDRESSES, measured.join("; "), met);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_from_the_first_to_the_last() {
        let all = limits();
        assert_eq!(all[0], FIRST);
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!(all.len() > 30 && *all.last().unwrap() > LAST * 8 / 10);
    }
}
