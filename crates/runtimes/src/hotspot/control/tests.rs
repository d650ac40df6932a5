//! The controller steers models of collectors.

mod cliff;
mod emptying;
mod rates;
mod refusal;
mod serial;
mod settling;

use super::*;
use crate::hotspot::sizing_flags::Trigger;
use crate::hotspot::snapshot::{Generation, Work};
use plimsoll_unit::MIB;
use proptest::prelude::*;
use std::time::Duration;

fn levers(sized_by: SizedBy, concurrent: bool) -> Levers {
    Levers {
        sized_by,
        trigger: Trigger::Run,
        concurrent,
        shrink_collections: 1,
        least_percent: 120,
        least_size: Bytes::ZERO,
        delay: Duration::ZERO,
        returns_on_change: false,
        set_apart: Bytes::ZERO,
        remarks: Vec::new(),
    }
}

/// A model of a machine that follows its flags at once. All of its committed heap is resident, unless
/// `touched` says otherwise.
struct Model {
    levers: Levers,
    live: u64,
    native: u64,
    min: u64,
    max: u64,
    seen: Seen,
    forced: u64,
    /// Bytes that were allocated while the last concurrent cycle marked. They vary.
    drift: u64,
    /// Whether it ignores commands.
    deaf: bool,
    /// Percent of the committed heap that the program touches.
    touched: u64,
    /// The size below which the old generation does not shrink, bytes.
    first: u64,
}

impl Model {
    fn new(levers: Levers, live: u64) -> Model {
        let old = Generation {
            capacity: Bytes(2 * live),
            max: Bytes::mib(4096),
            used: Bytes(live),
            ..Generation::default()
        };
        let mut heap = Snapshot {
            old,
            ..Snapshot::default()
        };
        if let SizedBy::OldRatios { .. } = levers.sized_by {
            heap.young = Generation {
                capacity: Bytes::mib(64),
                max: Bytes::mib(4096),
                first_max: Bytes::mib(3277),
                ..heap.young
            };
        }
        let seen = Seen {
            native: Bytes::mib(30),
            heap,
            ..Seen::default()
        };
        Model {
            levers,
            live,
            native: 30 * MIB,
            min: 40,
            max: 70,
            seen,
            forced: 0,
            drift: 0,
            deaf: false,
            touched: 100,
            first: 0,
        }
    }

    fn uses(&self) -> u64 {
        let heap = match self.levers.sized_by {
            SizedBy::OldRatios { .. } => {
                Bytes(self.live) + self.seen.heap.young.capacity * 83 / 100
            }
            _ => self.seen.heap.old.capacity * self.touched / 100,
        };
        (heap + Bytes(self.native)).0
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Set("MinHeapFreeRatio", v) => {
                assert!(v <= self.max, "Min must not pass Max");
                self.min = v;
            }
            Action::Set("MaxHeapFreeRatio", v) => {
                assert!(v >= self.min && v <= 100, "Max must not pass Min");
                self.max = v;
            }
            Action::Set("SoftMaxHeapSize", v) if !self.deaf => {
                self.seen.heap.old.capacity = Bytes(v)
            }
            Action::Collect => {
                self.drift = self.drift / 2 * 3 % (500 * MIB);
                self.collect(self.live + self.drift);
            }
            Action::CollectWhole => self.collect(self.live),
            _ => {}
        }
    }

    fn collect(&mut self, in_use: u64) {
        self.forced += 1;
        if self.deaf {
            return;
        }
        self.seen.heap.work[1] = Work {
            invocations: self.seen.heap.work[1].invocations + 1,
            time: Nanos::ZERO,
        };
        let heap = &mut self.seen.heap;
        heap.old.used = Bytes(self.live);
        let least = in_use * 100 / (100 - self.min.min(99));
        let most = if self.max < 100 {
            in_use * 100 / (100 - self.max)
        } else {
            u64::MAX
        };
        heap.old.capacity = heap
            .old
            .capacity
            .clamp(Bytes(least), Bytes(most.max(least)))
            .max(Bytes(self.first.min(heap.old.capacity.0)))
            .min(heap.old.max);
        if let SizedBy::OldRatios { new_ratio } = self.levers.sized_by {
            heap.young.capacity = heap.old.capacity / new_ratio;
        }
    }

    /// Runs the controller for some seconds at one limit, ten times per second.
    fn run(&mut self, control: &mut Control, limit: u64, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.seen.now += Nanos::millis(100);
            self.seen.limit = Bytes(limit);
            self.seen.available = self.seen.available.max(Bytes(limit));
            self.seen.heap.work[0].invocations += 1;
            self.seen.heap.allocated_last += Bytes(1);
            for _ in 0..8 {
                self.seen.uses = Bytes(self.uses());
                let actions = control.tick(&self.seen);
                let collects =
                    actions.contains(&Action::Collect) || actions.contains(&Action::CollectWhole);
                for action in actions {
                    self.act(action);
                    if action == Action::Measure {
                        self.seen.native = Bytes(self.native);
                    }
                    if matches!(action, Action::Collect | Action::CollectWhole) {
                        control.collected(Nanos::millis(50), Bytes(self.live), false);
                    }
                }
                if !collects {
                    break;
                }
            }
            self.seen.uses = Bytes(self.uses());
        }
    }
}

fn follows(sized_by: SizedBy) {
    let levers = levers(sized_by, false);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 100 * MIB);
    for limit in [500, 900, 400, 700, 1500, 500] {
        model.run(&mut control, limit * MIB, 10);
        let (uses, limit) = (model.uses(), limit * MIB);
        assert!(
            uses <= limit + limit / 50,
            "{sized_by:?}: {} MiB over {} MiB",
            uses / MIB,
            limit / MIB
        );
        assert!(
            uses + limit / 8 >= limit,
            "{sized_by:?}: {} MiB under {} MiB",
            uses / MIB,
            limit / MIB
        );
    }
    assert!(
        model.forced < 40,
        "{sized_by:?}: {} collections in a minute",
        model.forced
    );
    let facts = control.facts(&model.seen);
    assert_eq!(facts.live, Bytes::mib(100));
    assert!(facts.floor >= Bytes::mib(150) && facts.demand > Bytes::mib(4096));
}

#[test]
fn ratios_of_the_heap_follow_the_limit() {
    follows(SizedBy::HeapRatios);
}

#[test]
fn a_program_that_allocates_fast_while_a_cycle_marks_is_collected_whole() {
    let levers = levers(SizedBy::HeapRatios, true);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 100 * MIB);
    model.drift = 300 * MIB;
    for limit in [1000, 400, 800, 300] {
        model.run(&mut control, limit * MIB, 10);
        let uses = model.uses() / MIB;
        assert!(
            uses <= limit + limit / 50 && uses + limit / 8 >= limit,
            "{uses} MiB at a limit of {limit} MiB"
        );
    }
}

#[test]
fn ratios_of_the_old_generation_follow_the_limit() {
    follows(SizedBy::OldRatios { new_ratio: 1 });
    follows(SizedBy::OldRatios { new_ratio: 2 });
}

#[test]
fn a_soft_maximum_follows_the_limit() {
    let levers = levers(SizedBy::SoftMax, true);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 100 * MIB);
    for limit in [500, 900, 400] {
        model.run(&mut control, limit * MIB, 20);
        assert!(
            model.uses().abs_diff(limit * MIB) < limit * MIB / 20,
            "{} {limit}",
            model.uses() / MIB
        );
    }
}

/// The memory that it holds does not shrink by itself, neither in memory nor in swap.
fn shenandoah_that_keeps_what_it_has() -> (Control, Model) {
    let mut levers = levers(SizedBy::SoftMax, true);
    levers.returns_on_change = true;
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 50 * MIB);
    model.run(&mut control, 900 * MIB, 5);
    model.deaf = true;
    (control, model)
}

#[test]
fn shenandoah_is_nudged_until_it_has_returned_what_it_must() {
    let (mut control, mut model) = shenandoah_that_keeps_what_it_has();
    for resident in [900 * MIB, 390 * MIB] {
        let mut set = Vec::new();
        for _ in 0..20 {
            model.seen.now += Nanos::millis(100);
            (model.seen.limit, model.seen.uses) = (Bytes::mib(400), Bytes(resident));
            for action in control.tick(&model.seen) {
                if let Action::Set("SoftMaxHeapSize", bytes) = action {
                    set.push(bytes);
                }
            }
        }
        assert!(set.len() >= 5, "{set:?}");
        assert!(set.windows(2).all(|pair| pair[0] != pair[1]), "{set:?}");
    }
}

#[test]
fn shenandoah_is_asked_to_collect_when_much_too_much_stays() {
    for (uses, times) in [(900, 1..=3), (420, 0..=0)] {
        let (mut control, mut model) = shenandoah_that_keeps_what_it_has();
        let mut asked = Vec::new();
        for tenth in 0..25 {
            model.seen.now += Nanos::millis(100);
            (model.seen.limit, model.seen.uses) = (Bytes::mib(400), Bytes::mib(uses));
            if control.tick(&model.seen).contains(&Action::Collect) {
                asked.push(tenth);
            }
        }
        assert!(times.contains(&asked.len()), "{uses}: {asked:?}");
        assert!(
            asked.iter().all(|&tenth| tenth > 5),
            "nudges first: {asked:?}"
        );
        assert!(
            asked.windows(2).all(|pair| pair[1] - pair[0] > 10),
            "{asked:?}"
        );
    }
}

#[test]
fn with_little_that_lives_it_asks_for_no_more_than_its_steps_let_it_have() {
    for sized_by in [SizedBy::HeapRatios, SizedBy::OldRatios { new_ratio: 1 }] {
        let levers = levers(sized_by, false);
        let mut control = Control::new(levers.clone(), 0.05);
        let mut model = Model::new(levers, 10 * MIB);
        model.run(&mut control, 820 * MIB, 10);
        let (uses, demand) = (model.uses(), control.facts(&model.seen).demand);
        assert!(uses < 700 * MIB, "{sized_by:?}: the size is out of reach");
        assert!(
            demand >= Bytes(uses) && demand < Bytes::mib(700),
            "{sized_by:?}: {demand}"
        );
        model.run(&mut control, demand.0, 20);
        assert_eq!(model.uses(), uses, "{sized_by:?}: it keeps what it has");
        assert_eq!(control.facts(&model.seen).demand, demand);
        // If twice as much is available, the next step is too.
        model.seen.available = Bytes::mib(1200);
        model.run(&mut control, demand.0, 1);
        assert!(control.facts(&model.seen).demand > Bytes::mib(850));
    }
}

#[test]
fn a_program_that_rests_wants_little_at_once_and_all_when_it_works_again() {
    let levers = levers(SizedBy::OldRatios { new_ratio: 1 }, false);
    let mut watch = Watch::default();
    let mut seen = Model::new(levers.clone(), 10 * MIB).seen;
    (seen.uses, seen.processor) = (Bytes::mib(200), Nanos(1));
    let mut tenths = |watch: &mut Watch, tenths: u64, part: u64| {
        for _ in 0..tenths {
            seen.now += Nanos::millis(100);
            seen.processor += Nanos::millis(part);
            seen.major_faults += u64::from(part == 2) * 100;
            if part > 10 {
                seen.heap.work[0].invocations += 1;
                seen.heap.allocated_last = Bytes::mib(50);
            }
            watch.look(&seen, &levers);
        }
        let facts = watch.facts(&seen, &levers);
        (facts.allocation_rate.unwrap(), facts.demand)
    };
    let (rate, demand) = tenths(&mut watch, 30, 100);
    assert!(rate.abs_diff(500 * MIB) < 50 * MIB && demand > Bytes::mib(1000));
    // A short rest does not count.
    assert_eq!(tenths(&mut watch, 5, 0).1, demand);
    assert_eq!(tenths(&mut watch, 13, 1), (0, Bytes::mib(225)));
    // A program that waits for the disk does not rest.
    assert_eq!(tenths(&mut watch, 5, 2).1, demand);
    assert_eq!(tenths(&mut watch, 13, 1).1, Bytes::mib(225));
    let (rate, all) = tenths(&mut watch, 6, 100);
    assert!(rate > 400 * MIB && all == demand);
}

#[test]
fn a_program_that_begins_to_rest_is_collected_once() {
    let asked = collections_in_three_rests(SizedBy::OldRatios { new_ratio: 1 });
    let rests: Vec<i32> = asked.iter().map(|(rest, _)| *rest).collect();
    assert_eq!(rests, [0, 1], "{asked:?}");
    // No collection makes such a heap smaller.
    assert_eq!(collections_in_three_rests(SizedBy::Fixed), []);
}

/// For each collection that was asked for while the program rested: the number of the rest, and the tenth of
/// a second in it.
fn collections_in_three_rests(sized_by: SizedBy) -> Vec<(i32, i32)> {
    let levers = levers(sized_by, false);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 100 * MIB);
    model.seen.processor = Nanos(1);
    let mut asked = Vec::new();
    for rest in 0..3 {
        for tenth in 0..100 {
            model.seen.now += Nanos::millis(100);
            // The program works for five seconds. In the last round it does not collect by itself.
            if tenth < 50 {
                model.seen.processor += Nanos::millis(100);
                model.seen.heap.work[0].invocations += u64::from(rest < 2);
            }
            (model.seen.limit, model.seen.uses) = (Bytes::mib(400), Bytes(model.uses()));
            for action in control.tick(&model.seen) {
                if action == Action::Collect && tenth > 55 {
                    asked.push((rest, tenth));
                }
                model.act(action);
            }
        }
    }
    asked
}

#[test]
fn a_limit_below_the_floor_does_not_make_it_collect_for_ever() {
    let levers = levers(SizedBy::OldRatios { new_ratio: 1 }, false);
    let mut control = Control::new(levers.clone(), 0.05);
    let mut model = Model::new(levers, 300 * MIB);
    model.run(&mut control, 200 * MIB, 120);
    assert!(model.forced < 20, "{} collections", model.forced);
    assert!(model.seen.heap.old.capacity >= Bytes(model.live));
}

#[test]
fn a_machine_that_ignores_collections_is_not_asked_without_end() {
    for sized_by in [
        SizedBy::HeapRatios,
        SizedBy::OldRatios { new_ratio: 2 },
        SizedBy::OldOnly,
        SizedBy::SoftMax,
    ] {
        let levers = levers(sized_by, false);
        let mut control = Control::new(levers.clone(), 0.05);
        let mut model = Model::new(levers, 100 * MIB);
        model.seen.heap.old.capacity = Bytes::mib(2000);
        model.deaf = true;
        model.run(&mut control, 300 * MIB, 120);
        assert!(
            model.forced < 80,
            "{sized_by:?}: {} collections",
            model.forced
        );
    }
}

#[test]
fn without_a_limit_nothing_is_done() {
    let levers = levers(SizedBy::HeapRatios, false);
    let mut control = Control::new(levers.clone(), 0.05);
    assert!(control.tick(&Model::new(levers, 100 * MIB).seen).is_empty());
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let generation = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
    )
        .prop_map(|g| Generation {
            capacity: Bytes(g.0),
            max: Bytes(g.1),
            used: Bytes(g.2),
            first_capacity: Bytes(g.3),
            first_max: Bytes(g.4),
        });
    let heap = (
        generation.clone(),
        generation,
        any::<[u64; 3]>(),
        any::<u64>(),
    )
        .prop_map(|(young, old, n, a)| {
            let work = n.map(|invocations| Work {
                invocations,
                time: Nanos(a),
            });
            Snapshot {
                young,
                old,
                work,
                allocated_last: Bytes(a),
                collecting: false,
            }
        });
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
    );
    (numbers, heap).prop_map(|((now, limit, owed, uses, native), heap)| Seen {
        now: Nanos(now),
        limit: Bytes(limit),
        available: Bytes(limit.saturating_add(owed)),
        owed: Bytes(owed),
        uses: Bytes(uses),
        native: Bytes(native),
        // In every third moment an excess can be paged out.
        spare: Bytes(now.rotate_left(7) * u64::from(owed % 3 > 0)),
        ample: Bytes(native.rotate_left(7) * u64::from(owed % 3 > 0)),
        kept: Bytes(native.rotate_left(29) * u64::from(owed % 3 > 0)),
        processor: Nanos::ZERO,
        asked: Nanos::ZERO,
        major_faults: 0,
        beside: (owed % 5 == 0).then_some(Nanos(uses.rotate_left(17))),
        empties: owed.is_multiple_of(2),
        at_bound: owed.is_multiple_of(4).then_some(AtBound {
            asked: native.rotate_left(11),
            left: Bytes(uses),
        }),
        heap,
    })
}

#[test]
fn an_old_generation_is_touched_as_far_as_it_was_ever_filled() {
    let mut control = Control::new(levers(SizedBy::OldRatios { new_ratio: 3 }, false), 0.05);
    let mut touched = |used: u64, capacity: u64| {
        let generation = |capacity, used| Generation {
            capacity: Bytes::mib(capacity),
            max: Bytes::mib(1000),
            used: Bytes::mib(used),
            ..Generation::default()
        };
        let heap = Snapshot {
            young: generation(40, 0),
            old: generation(capacity, used),
            ..Snapshot::default()
        };
        control.tick(&Seen {
            heap,
            ..Seen::default()
        });
        control.touched(&heap) / MIB
    };
    assert_eq!(
        touched(30, 300),
        Bytes(70),
        "much is committed, little is touched"
    );
    assert_eq!(touched(90, 300), Bytes(130));
    assert_eq!(
        touched(30, 300),
        Bytes(130),
        "a collection gives nothing back"
    );
    assert_eq!(touched(30, 60), Bytes(100), "a smaller generation does");
    assert_eq!(touched(30, 300), Bytes(100), "and has to be filled again");
    let g1 = Control::new(levers(SizedBy::HeapRatios, true), 0.05);
    let heap = Snapshot {
        old: Generation {
            capacity: Bytes::mib(300),
            used: Bytes::mib(30),
            ..Generation::default()
        },
        ..Snapshot::default()
    };
    assert_eq!(g1.touched(&heap), Bytes::mib(300));
}

proptest! {
    #[test]
    fn absurd_counters_never_panic(moments in proptest::collection::vec(any_seen(), 1..20)) {
        let old_ratios = SizedBy::OldRatios { new_ratio: 3 };
        let ways = [
            SizedBy::HeapRatios, old_ratios, SizedBy::OldOnly, SizedBy::SoftMax, SizedBy::Fixed,
        ];
        for sized_by in ways {
            for concurrent in [false, true] {
                let mut control = Control::new(levers(sized_by, concurrent), 0.05);
                for seen in &moments {
                    for action in control.tick(seen) {
                        if let Action::Set(name, value) = action {
                            prop_assert!(!name.ends_with("Ratio") || value <= 100);
                        }
                    }
                    let _ = control.facts(seen);
                }
            }
        }
    }
}
