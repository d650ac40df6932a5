//! Threads under a scheduler that is made up, and windows of programs that gain or lose.

use super::{
    BUDGET, Front, HOLD, LARGEST, Outcome, PAIRS, Place, REST, Switch, TOLERANCE, Trial, Window,
    pace,
};
use crate::phases::{Quanta, Rule, Thread, Used};
use plimsoll_unit::{Bytes, Nanos};
use proptest::prelude::*;

/// Time between two looks.
const LOOK: Nanos = Nanos::millis(10);
const QUANTA: Quanta = Quanta {
    time: LOOK,
    bytes: Bytes(1 << 20),
    most: Nanos::millis(100),
};

fn ran(bytes: u64) -> Used {
    Used {
        time: LOOK,
        bytes: Bytes(bytes),
    }
}

/// Lets `front` see who ran, those in front first, at most `processors`.
fn step(front: &mut Front, threads: &[Thread], processors: usize, bytes: impl Fn(usize) -> u64) {
    let order = |place| {
        let is_there = move |front: &Front, thread| front.place(thread) == place;
        let here = threads.iter().enumerate();
        here.filter(|(_, thread)| is_there(front, **thread))
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
    };
    let chosen = [order(Place::Front), order(Place::Back)].concat();
    for &index in chosen.iter().take(processors) {
        front.look(threads[index], ran(bytes(index)));
    }
    front.decide(LOOK);
}

#[test]
fn who_computes_is_in_front_of_who_allocates() {
    let mut front = Front::new(Rule::Larf, QUANTA, 1);
    let threads: Vec<Thread> = (0..4).map(|_| front.admit()).collect();
    // All of them run once, and so are ready. The first one computes only.
    for (index, &thread) in threads.iter().enumerate() {
        front.look(thread, ran(index as u64 * 1000));
    }
    front.decide(LOOK);
    let mut turns = [0; 4];
    for _ in 0..400 {
        assert_eq!(front.back(), 3);
        for (turn, &thread) in turns.iter_mut().zip(&threads) {
            *turn += u32::from(front.place(thread) == Place::Front);
        }
        step(&mut front, &threads, 1, |index| index as u64 * 1000);
    }
    assert_eq!(turns.iter().sum::<u32>(), 400);
    assert!(turns[0] > 200, "{turns:?}");
    assert!(turns[1..].iter().all(|&turn| turn >= 400 / 40), "{turns:?}");
}

#[test]
fn a_memory_quantum_ends_a_turn_and_so_does_time() {
    let mut front = Front::new(Rule::Mqrr, QUANTA, 1);
    let threads: Vec<Thread> = (0..2).map(|_| front.admit()).collect();
    for &thread in &threads {
        front.look(thread, ran(0));
    }
    front.decide(LOOK);
    // The first one allocates its quantum in four looks; the second one allocates nothing.
    let mut turns = String::new();
    for _ in 0..28 {
        turns.push(if front.place(threads[0]) == Place::Front {
            'a'
        } else {
            'c'
        });
        step(&mut front, &threads, 1, |index| (1 - index as u64) << 18);
    }
    assert_eq!(turns, "aaaaccccccccccaaaacccccccccc");
}

#[test]
fn who_blocks_or_ends_makes_room_and_is_in_front_when_it_wakes() {
    let mut front = Front::new(Rule::Mqrr, QUANTA, 1);
    let threads: Vec<Thread> = (0..3).map(|_| front.admit()).collect();
    for &thread in &threads {
        front.look(thread, ran(0));
    }
    front.decide(LOOK);
    assert_eq!(front.place(threads[0]), Place::Front);
    // It does not run any more.
    front.decide(LOOK);
    front.decide(LOOK);
    assert_eq!(front.back(), 1);
    assert!(
        threads[..2]
            .iter()
            .all(|&thread| front.place(thread) == Place::Front)
    );
    front.leave(threads[1]);
    front.decide(LOOK);
    assert_eq!(front.back(), 0);
    // A new thread gets the number, and is no heir of the old one.
    let new = front.admit();
    assert_eq!((new.index(), front.place(new)), (1, Place::Front));
    front.look(threads[0], ran(0));
    assert_eq!(front.place(threads[0]), Place::Back);
    front.decide(LOOK);
    // Calls about threads that are gone are ignored.
    front.leave(threads[2]);
    front.leave(threads[2]);
    front.look(threads[2], ran(0));
    front.decide(LOOK);
    assert_eq!(front.back(), 0);
}

#[test]
fn the_pace_is_bounded_by_the_cost() {
    assert_eq!(pace(LOOK, Nanos::ZERO), LOOK);
    assert_eq!(pace(LOOK, Nanos::millis(1)), Nanos::millis(50));
    assert_eq!(pace(LOOK, Nanos(u64::MAX)), Nanos::seconds(1));
}

/// A window of a second in which `bytes` bytes were allocated.
fn window(bytes: f64) -> Window {
    Window {
        elapsed: Nanos::seconds(1),
        bytes: Bytes(bytes.max(0.0) as u64),
        time: Nanos::seconds(1),
        waited: Nanos::seconds(1),
    }
}

/// Windows of a program that allocates 1 GB a second without the discipline, and `with(n)` times that with it
/// in the `n`th window. Returns the work that was lost before the discipline was withdrawn, in windows, and
/// how many windows that took.
fn lost(with: impl Fn(usize) -> f64, windows: usize) -> (f64, Option<usize>) {
    let mut trial = Trial::default();
    let mut lost = 0.0;
    for n in 0..windows {
        let part = match trial.switch() {
            Switch::Off => 1.0,
            Switch::On => with(n),
        };
        lost += 1.0 - part;
        if let Outcome::Withdrawn(rest) = trial.end(window(1e9 * part)) {
            assert_eq!(rest, REST);
            assert_eq!(trial.switch(), Switch::Off);
            return (lost, Some(n + 1));
        }
    }
    (lost, None)
}

#[test]
fn a_fall_is_withdrawn_soon_and_a_gain_is_kept() {
    for (part, pairs) in [(0.0, 3), (0.5, 3), (0.9, 7), (0.95, 17)] {
        let (_, windows) = lost(|_| part, 1000);
        assert!(windows.unwrap() <= 2 * pairs, "{part} {windows:?}");
    }
    for part in [0.985, 1.0, 1.2] {
        assert_eq!(lost(|_| part, 10_000).1, None, "{part}");
    }
    // It was good for long, and is bad from then on.
    let (_, windows) = lost(|n| if n < 500 { 1.1 } else { 0.5 }, 1000);
    assert!(
        windows.unwrap() <= 500 + HOLD as usize + 2 * 4,
        "{windows:?}"
    );
}

#[test]
fn after_a_rest_it_is_tried_again_and_each_rest_is_longer() {
    let mut trial = Trial::default();
    let mut rests = Vec::new();
    let mut on = 0;
    for _ in 0..20_000 {
        let with = trial.switch() == Switch::On;
        on += u32::from(with);
        if let Outcome::Withdrawn(rest) = trial.end(window(if with { 5e8 } else { 1e9 })) {
            rests.push(rest);
        }
    }
    assert_eq!(rests[..7], [60, 120, 240, 480, 960, 1920, 3840]);
    assert_eq!(rests.last(), Some(&3840));
    assert!(on < 40, "{on}");
    let gain = trial.gain().unwrap();
    assert!(
        (gain.mean + 0.5).abs() < 1e-9 && gain.high < 0.0,
        "{gain:?}"
    );
}

#[test]
fn windows_that_nobody_waited_in_tell_nothing() {
    let mut trial = Trial::default();
    let idle = Window {
        waited: Nanos::ZERO,
        ..window(1e9)
    };
    let mut switches = Vec::new();
    for n in 0..8 {
        switches.push(trial.switch());
        assert_eq!(
            trial.end(if n % 2 == 0 { idle } else { Window::default() }),
            Outcome::Going
        );
    }
    assert_eq!(trial.gain(), None);
    use Switch::{Off, On};
    assert_eq!(
        switches,
        [Off, On, On, Off, Off, On, On, Off],
        "drift cancels out"
    );
}

#[test]
fn a_trial_that_was_stood_is_held_and_looked_at_now_and_then() {
    let mut trial = Trial::default();
    let mut on = 0;
    let mut stood = 0;
    let windows = 2 * PAIRS + 10 * (HOLD + 2);
    for _ in 0..windows {
        on += u32::from(trial.switch() == Switch::On);
        stood += u32::from(trial.end(window(1e9)) == Outcome::Stood);
    }
    assert_eq!((on, stood), (PAIRS + 10 * (HOLD + 1), 11));
}

/// The most that is lost in pairs until a discipline is withdrawn, windows.
fn in_pairs() -> f64 {
    BUDGET / (LARGEST - TOLERANCE) + 1.0
}

proptest! {
    #[test]
    fn nobody_is_back_for_longer_than_the_bound(
        rule in prop::sample::select(&Rule::ALL[..]),
        processors in 1usize..4,
        rates in prop::collection::vec(0u64..4 << 20, 2..12),
        blocked in prop::collection::vec(0u8..=255, 1..64),
    ) {
        let mut front = Front::new(rule, QUANTA, processors);
        let threads: Vec<Thread> = rates.iter().map(|_| front.admit()).collect();
        let mut back = vec![Nanos::ZERO; threads.len()];
        for n in 0..2000 {
            // A chosen thread that blocks does not run; back threads never do, as if the machine were full.
            for (index, &thread) in threads.iter().enumerate() {
                let blocks = blocked[(n / 7 + index) % blocked.len()] < 60;
                if front.place(thread) == Place::Front && !blocks {
                    front.look(thread, ran(rates[index]));
                }
            }
            front.decide(LOOK);
            for (back, &thread) in back.iter_mut().zip(&threads) {
                let is_back = front.place(thread) == Place::Back;
                *back = if is_back { *back + LOOK } else { Nanos::ZERO };
                prop_assert!(*back <= front.longest_back(LOOK), "{:?} {:?}", *back, front.longest_back(LOOK));
            }
            prop_assert!(front.back() <= threads.len());
        }
    }

    #[test]
    fn what_is_lost_is_bounded_whatever_happens(parts in prop::collection::vec(0.0f64..1.3, 1..400)) {
        let (lost, windows) = lost(|n| parts[n % parts.len()], 400);
        let seen = windows.unwrap_or(400) as f64;
        // In a trial; and while it was held, all of that.
        let bound = in_pairs() + TOLERANCE * seen + f64::from(HOLD + 1) * (seen / f64::from(HOLD + 2)).ceil();
        prop_assert!(lost <= bound, "{lost} {windows:?}");
    }

    #[test]
    fn in_a_trial_what_is_lost_is_bounded_by_the_budget(parts in prop::collection::vec(0.0f64..1.0, 16)) {
        let (lost, _) = lost(|n| parts[n % parts.len()], 2 * PAIRS as usize);
        prop_assert!(lost <= in_pairs() + TOLERANCE * f64::from(PAIRS), "{lost}");
    }

    #[test]
    fn no_windows_confuse_a_trial(windows in prop::collection::vec(any::<[u64; 4]>(), 0..200)) {
        let mut trial = Trial::default();
        for [elapsed, bytes, time, waited] in windows {
            trial.end(Window {
                elapsed: Nanos(elapsed),
                bytes: Bytes(bytes),
                time: Nanos(time),
                waited: Nanos(waited),
            });
            prop_assert!(trial.debt() < BUDGET && trial.debt() >= 0.0);
            if let Some(gain) = trial.gain() {
                prop_assert!(gain.low <= gain.mean && gain.mean <= gain.high && gain.low >= -1.0);
            }
        }
    }
}
