//! Heaps of one size, with the agent and without.

use super::*;
use crate::hotspot::control::observation::tolerance;

/// A heap of 500 MiB with some live bytes, in which the agent leaves what the controller says.
struct Full {
    live: u64,
    uses: u64,
    seen: Seen,
    collections: u64,
    /// The last was asked for so that it stops the program.
    stopped: bool,
    /// The agent leaves these bytes if they are fewer than the limit.
    least: Option<u64>,
}

impl Full {
    fn new(live: u64, empties: bool) -> Full {
        let heap = Snapshot {
            old: Generation {
                capacity: Bytes::mib(500),
                max: Bytes::mib(500),
                used: Bytes(live),
                ..Generation::default()
            },
            ..Snapshot::default()
        };
        let seen = Seen {
            native: Bytes::mib(30),
            empties,
            heap,
            ..Seen::default()
        };
        Full {
            live,
            uses: 530 * MIB,
            seen,
            collections: 0,
            stopped: false,
            least: None,
        }
    }

    /// Runs the controller for some seconds. The program fills `rate` bytes in each.
    fn run(&mut self, control: &mut Control, limit: u64, rate: u64, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.seen.now += Nanos::millis(100);
            self.seen.limit = Bytes(limit);
            self.uses = (self.uses + rate / 10).min(530 * MIB);
            // After a collection it looks at once, as the steering does.
            for _ in 0..8 {
                self.seen.uses = Bytes(self.uses);
                let actions = control.tick(&self.seen);
                if actions.is_empty() {
                    break;
                }
                assert!(matches!(
                    actions[..],
                    [Action::Collect | Action::CollectWhole]
                ));
                self.stopped = actions == [Action::CollectWhole];
                self.collect(control);
            }
        }
    }

    fn collect(&mut self, control: &mut Control) {
        self.collections += 1;
        if self.seen.empties {
            let rest = self.seen.native + Bytes(self.live);
            let leaves = control.leaves(&self.seen);
            let most = self.least.unwrap_or(leaves.0).min(leaves.0);
            self.uses = self.uses.min(rest.max(Bytes(most)).0);
        }
        control.collected(Nanos::millis(50), Bytes(self.live), false);
    }
}

fn control() -> Control {
    Control::new(levers(SizedBy::Fixed, false), 0.05)
}

#[test]
fn a_heap_of_one_size_that_is_emptied_is_collected_above_its_limit() {
    let mut control = control();
    let mut full = Full::new(100 * MIB, true);
    for limit in [300, 200, 400] {
        full.run(&mut control, limit * MIB, MIB, 5);
        let most = (Bytes::mib(limit + 1) + tolerance(Bytes::mib(limit))).0;
        assert!(full.uses <= most, "{} at {limit}", full.uses / MIB);
    }
    assert!(
        (2..=6).contains(&full.collections),
        "{} collections",
        full.collections
    );
}

#[test]
fn without_the_agent_it_is_left_alone() {
    let mut full = Full::new(100 * MIB, false);
    full.run(&mut control(), 200 * MIB, MIB, 20);
    assert_eq!(full.collections, 0);
}

#[test]
fn what_does_not_help_or_costs_too_much_is_not_done_again_and_again() {
    // More lives than the limit.
    let mut full = Full::new(400 * MIB, true);
    full.run(&mut control(), 200 * MIB, MIB, 120);
    assert!(full.collections < 20, "{} collections", full.collections);
    // The program is over its limit ten times a second.
    let mut full = Full::new(150 * MIB, true);
    full.run(&mut control(), 200 * MIB, 500 * MIB, 120);
    let most = 120 + 60;
    assert!(full.collections <= most, "{} collections", full.collections);
}

/// An excess would end the program, so some memory stays free below its limit.
#[test]
fn a_heap_of_one_size_on_a_cliff_is_emptied_below_its_limit_at_once() {
    let mut full = Full::new(20 * MIB, true);
    full.seen.spare = Bytes::mib(50);
    full.seen.kept = Bytes::mib(13);
    full.run(&mut control(), 200 * MIB, 0, 5);
    assert_eq!((full.collections, full.uses), (1, 150 * MIB));
    // Less than that is not reached: it is not asked for at each look.
    let mut full = Full::new(165 * MIB, true);
    full.seen.spare = Bytes::mib(50);
    full.seen.kept = Bytes::mib(13);
    full.run(&mut control(), 200 * MIB, 0, 5);
    assert!(full.collections < 8, "{} collections", full.collections);
}

/// Others wait for the memory that a program owes: the share of the time does not bind then. But collections
/// that do not help are still asked for ever more rarely.
#[test]
fn a_debt_is_paid_however_often_that_takes_but_not_in_vain() {
    // The program is over its limit ten times a second.
    let mut full = Full::new(150 * MIB, true);
    full.seen.owed = Bytes::mib(50);
    full.run(&mut control(), 200 * MIB, 500 * MIB, 120);
    assert!(full.collections > 600, "{} collections", full.collections);
    // More lives than the limit.
    let mut full = Full::new(400 * MIB, true);
    full.seen.owed = Bytes::mib(50);
    full.run(&mut control(), 200 * MIB, MIB, 120);
    assert!(full.collections < 20, "{} collections", full.collections);
}

/// A cycle frees little of a large heap of one size at once. But many live bytes are collected at a stop only
/// if a cycle was in vain.
#[test]
fn a_collection_that_stops_the_program_is_asked_for_where_usual_ones_are_concurrent() {
    let concurrent = || Control::new(levers(SizedBy::Fixed, true), 0.05);
    let mut full = Full::new(100 * MIB, true);
    full.run(&mut concurrent(), 200 * MIB, MIB, 1);
    assert!(full.collections == 1 && full.stopped);
    let (mut full, mut control) = (Full::new(300 * MIB, true), concurrent());
    full.run(&mut control, 350 * MIB, MIB, 1);
    assert!(full.collections == 1 && !full.stopped);
    full.run(&mut control, 200 * MIB, MIB, 3);
    assert!(full.collections > 1 && full.stopped);
    // Where usual ones stop the program, they are asked for as usual.
    let mut full = Full::new(100 * MIB, true);
    full.run(&mut self::control(), 200 * MIB, MIB, 1);
    assert!(full.collections == 1 && !full.stopped);
}

/// The program works for a while and then rests, far below its limit.
#[test]
fn what_an_idle_program_does_not_need_is_given_back_once() {
    let mut idle = Full::new(100 * MIB, true);
    let mut control = control();
    for _ in 0..30 {
        idle.seen.processor += Nanos::millis(900);
        idle.run(&mut control, 2000 * MIB, 0, 1);
    }
    assert_eq!(idle.collections, 0, "it may have all of it");
    idle.seen.heap.work[0].invocations += 1;
    idle.run(&mut control, 2000 * MIB, 0, 50);
    let looked = idle.collections;
    assert!(looked <= 1, "one shows what it has dropped: {looked}");
    // The agent is told the limit of an idle program.
    idle.least = Some((idle.seen.native + Bytes(idle.live) + Bytes::mib(32)).0);
    idle.run(&mut control, 2000 * MIB, 0, 30);
    assert_eq!(idle.collections, looked + 1);
    assert_eq!(idle.uses, 162 * MIB);
    idle.run(&mut control, 2000 * MIB, 0, 300);
    assert_eq!(idle.collections, looked + 1, "it is left alone");
}

#[test]
fn a_heap_at_the_least_size_that_its_user_gave_is_emptied() {
    for (least, collects) in [(256 * MIB, true), (0, false)] {
        let mut levers = levers(SizedBy::HeapRatios, false);
        levers.least_size = Bytes(least);
        let mut control = Control::new(levers.clone(), 0.05);
        let mut model = Model::new(levers, 40 * MIB);
        model.seen.empties = true;
        model.seen.heap.old.capacity = Bytes::mib(256);
        // The agent leaves what fits.
        model.touched = 100;
        let mut collected = 0;
        for _ in 0..50 {
            model.seen.now += Nanos::millis(100);
            model.seen.limit = Bytes::mib(160);
            model.seen.uses = Bytes(model.uses());
            for action in control.tick(&model.seen) {
                model.act(action);
                if matches!(action, Action::Collect | Action::CollectWhole) {
                    collected += 1;
                    control.collected(Nanos::millis(50), Bytes::mib(40), false);
                }
            }
        }
        let capacity = model.seen.heap.old.capacity / MIB;
        if collects {
            assert!((1..12).contains(&collected), "{collected} collections");
        } else {
            assert!(capacity <= Bytes(130), "{capacity}");
        }
    }
}
