//! The stall signal under real pressure: each tier sees stalls at the limit of a group, and none
//! without.

use crate::common::{DelayAccounting, MIB, PATIENCE, alone, group, start_holding, swap};
use plimsoll_kernel::Error;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::stalls::{Declined, Stalled, Stalls, Tier};
use plimsoll_testbed::skip;

/// Opens one tier. If it does not work here, says why and returns `None`.
fn tier(pid: i32, tier: Tier) -> Option<Stalls> {
    match Stalls::among(Process::open(pid).unwrap(), &[tier, Tier::MajorFaults]) {
        Ok(stalls) if stalls.tier() == tier => Some(stalls),
        Ok(stalls) => {
            skip(format_args!("{}: {}", tier.name(), stalls.declined()[0].1));
            None
        }
        Err(e) => panic!("{}: {e}", tier.name()),
    }
}

/// Reads twice with `work` in between.
fn within(stalls: &mut Stalls, work: impl FnOnce()) -> Stalled {
    let before = stalls.read().unwrap();
    work();
    stalls.read().unwrap().since(before)
}

#[test]
fn there_is_always_a_tier_and_each_better_one_says_why_not() {
    let _one = alone();
    for mut stalls in [Stalls::own().unwrap(), Stalls::open(1).unwrap()] {
        let tier = stalls.tier();
        stalls.read().unwrap();
        let declined: Vec<Tier> = stalls.declined().iter().map(|(tier, _)| *tier).collect();
        let better: Vec<Tier> = Tier::ALL.into_iter().take_while(|&t| t != tier).collect();
        assert_eq!(declined, better);
        for (tier, why) in stalls.declined() {
            assert!(why.to_string().len() > 20, "{tier:?}: {why}");
        }
    }
}

#[test]
fn major_faults_are_seen_when_pages_come_back_from_swap() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("faults", Some(48 * MIB)) else {
        return;
    };
    let mut squeezed = start_holding(&["touch", "--bytes", "96M", "--every", "1"], Some(&group));
    let free = start_holding(&["touch", "--bytes", "32M", "--every", "1"], None);
    let mut of_free = tier(free.pid(), Tier::MajorFaults).unwrap();
    let mut stalls = tier(squeezed.pid(), Tier::MajorFaults).unwrap();
    let quiet = of_free.read().unwrap();
    let seen = within(&mut stalls, || {
        let rounds = squeezed.next(PATIENCE).unwrap().unwrap().rounds;
        squeezed.until(PATIENCE, |p| p.rounds > rounds + 2).unwrap();
    });
    assert!(seen.count > 0 && seen.ns == 0, "{seen:?}");
    assert!(!of_free.read().unwrap().since(quiet).any());
    let pid = squeezed.pid();
    drop(squeezed);
    let gone = stalls.read();
    assert!(
        matches!(gone, Err(Error::Gone { pid: p }) if p == pid),
        "{gone:?}"
    );
}

#[test]
fn delay_accounting_counts_and_times_stalls() {
    let _one = alone();
    let Some(_swap) = swap(256 * MIB) else { return };
    let Some(group) = group("delays", Some(48 * MIB)) else {
        return;
    };
    let Some(_on) = DelayAccounting::on() else {
        return;
    };
    let squeezed = start_holding(&["hog", "--bytes", "32M", "--hold", "0"], Some(&group));
    let Some(mut stalls) = tier(squeezed.pid(), Tier::DelayAccounting) else {
        return;
    };
    assert!(
        !stalls.read().unwrap().any(),
        "it has its memory without reclaim"
    );
    drop(squeezed);
    assert!(stalls.read().unwrap_err().is_gone());
    let mut squeezed = start_holding(&["touch", "--bytes", "96M", "--every", "1"], Some(&group));
    let mut stalls = tier(squeezed.pid(), Tier::DelayAccounting).unwrap();
    let seen = within(&mut stalls, || {
        let rounds = squeezed.next(PATIENCE).unwrap().unwrap().rounds;
        squeezed.until(PATIENCE, |p| p.rounds > rounds + 2).unwrap();
    });
    assert!(seen.count > 0 && seen.ns > 0, "{seen:?}");
}

#[test]
fn a_program_that_is_not_counted_is_told_so() {
    let _one = alone();
    // Nothing is switched off for it: either it is off, or the first process is older.
    let child = start_holding(&["hog", "--bytes", "1M"], None);
    let pid = if DelayAccounting::is_on() {
        1
    } else {
        child.pid()
    };
    let on = DelayAccounting::is_on();
    let process = Process::open(pid).unwrap();
    let stalls = Stalls::among(process, &[Tier::DelayAccounting, Tier::MajorFaults]).unwrap();
    match stalls.declined() {
        [] => skip("the first process is counted, so the switch is older than it"),
        [(Tier::DelayAccounting, Declined::OlderThanSwitch { pid: 1 })] => assert!(on),
        [(Tier::DelayAccounting, Declined::SwitchedOff)] => assert!(!on),
        other => skip(format_args!("{}", other[0].1)),
    }
    if let (false, Some(_on)) = (on, DelayAccounting::on()) {
        let process = Process::open(pid).unwrap();
        let stalls = Stalls::among(process, &[Tier::DelayAccounting, Tier::MajorFaults]).unwrap();
        let why = &stalls.declined()[0].1;
        assert!(!matches!(why, Declined::SwitchedOff), "{why}");
    }
}
