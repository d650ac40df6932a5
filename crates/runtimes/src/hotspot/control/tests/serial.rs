//! Serial as a program finds it that was started without our flags: what has become old and died is
//! resident until a collection makes the old generation smaller, and each shrinking takes four collections.

use super::*;

/// A tenth of a second.
const LOOK: Nanos = Nanos::millis(100);
/// How long a collection of the young generation takes, and one of the whole heap.
const PAUSE: Nanos = Nanos(1_500_000);
const COLLECTION: Nanos = Nanos::millis(17);
/// The largest young generation, and the largest old one, bytes.
const MAX: (u64, u64) = (200 * MIB, 400 * MIB);
/// Memory that survivors touch beyond eden, bytes.
const SURVIVORS: u64 = 2 * MIB;

/// A generation, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    capacity: u64,
    used: u64,
    /// Resident: from its start on.
    touched: u64,
}

impl Part {
    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.touched = self.touched.min(capacity);
    }
}

/// A model of such a machine.
struct Serial {
    young: Part,
    old: Part,
    /// Bytes per second that the program allocates, and that become old and die there.
    rates: (u64, u64),
    live: u64,
    min: u64,
    max: u64,
    /// The part of an excess that the next collection gives up, percent.
    factor: u64,
    /// Each collection gives up only a part of an excess, as without our flags.
    by_steps: bool,
    /// An agent gives back what is free beyond the limit.
    agent: bool,
    /// The part of the young generation that is resident where it was filled, percent.
    resident: u64,
    seen: Seen,
    /// Collections that were asked for.
    forced: u64,
    /// The most that it used in the last run, two seconds after its begin, bytes.
    peak: u64,
}

impl Serial {
    fn new(live: u64, rates: (u64, u64)) -> (Control, Serial) {
        Serial::with_steps(live, rates, 4)
    }

    /// One whose shrinking takes this many collections.
    fn with_steps(live: u64, rates: (u64, u64), collections: u32) -> (Control, Serial) {
        let mut levers = levers(SizedBy::OldRatios { new_ratio: 2 }, false);
        levers.shrink_collections = collections;
        levers.least_percent = 105;
        let old = Part {
            capacity: (live + 8) * MIB,
            used: live * MIB,
            touched: live * MIB,
        };
        let young = Part {
            capacity: old.capacity / 2,
            ..Part::default()
        };
        let seen = Seen {
            native: Bytes::mib(35),
            ..Seen::default()
        };
        let serial = Serial {
            young,
            old,
            rates: (rates.0 * MIB, rates.1 * MIB),
            live: live * MIB,
            min: 40,
            max: 70,
            factor: 0,
            by_steps: collections > 1,
            agent: false,
            resident: 100,
            seen,
            forced: 0,
            peak: 0,
        };
        (Control::new(levers, 0.05), serial)
    }

    fn eden(&self) -> u64 {
        self.young.capacity / 10 * 8
    }

    fn uses(&self) -> u64 {
        (self.seen.native
            + Bytes(self.old.touched)
            + Bytes(self.young.touched * self.resident / 100))
        .0
    }

    /// The program works for a tenth of a second.
    fn work(&mut self) {
        self.young.used += self.rates.0 / 10;
        while self.young.used >= self.eden() {
            let eden = self.eden();
            self.young.used -= eden;
            self.young.touched = self.young.touched.max(eden + SURVIVORS);
            let young = &mut self.seen.heap.work[0];
            young.invocations += 1;
            young.time += PAUSE;
            self.seen.heap.allocated_last = Bytes(eden);
            self.old.used += (eden as f64 * self.rates.1 as f64 / self.rates.0 as f64) as u64;
            self.old.capacity = self.old.capacity.max(self.old.used);
            self.old.touched = self.old.touched.max(self.old.used);
            if self.agent {
                self.old.touched = self.old.used;
            }
            if self.old.used > MAX.1 {
                self.collect();
            }
        }
        self.young.touched = self.young.touched.max(self.young.used);
    }

    /// A collection of the whole heap, by `TenuredGeneration::compute_new_size`.
    fn collect(&mut self) {
        self.seen.heap.work[1].invocations += 1;
        (self.old.used, self.young.used) = (self.live, 0);
        let sized = |percent: u64| self.live * 100 / (100 - percent.min(99));
        let factor = std::mem::take(&mut self.factor);
        let capacity = self.old.capacity;
        if capacity < sized(self.min) {
            self.old.resize(sized(self.min).min(MAX.1));
        } else if self.max < 100 && capacity > sized(self.max) {
            let next = if factor == 0 { 10 } else { 100.min(factor * 4) };
            self.factor = if self.by_steps { next } else { 100 };
            let factor = if self.by_steps { factor } else { 100 };
            self.old
                .resize(capacity - (capacity - sized(self.max)) / 100 * factor);
        }
        self.young.resize((self.old.capacity / 2).min(MAX.0));
        if self.agent {
            self.old.touched = self.old.used;
            self.young.touched = 0;
        }
    }

    fn act(&mut self, control: &mut Control, action: Action) {
        match action {
            Action::Set("MinHeapFreeRatio", v) => self.min = v,
            Action::Set("MaxHeapFreeRatio", v) => self.max = v,
            Action::Collect | Action::CollectWhole => {
                self.forced += 1;
                self.seen.asked += COLLECTION;
                control.collected(COLLECTION, Bytes(self.old.used), false);
                self.collect();
            }
            _ => {}
        }
    }

    fn look(&mut self, limit: u64) {
        (self.seen.limit, self.seen.uses) = (Bytes::mib(limit), Bytes(self.uses()));
        self.seen.empties = self.agent;
        let heap = &mut self.seen.heap;
        heap.young = Generation {
            capacity: Bytes(self.young.capacity),
            max: Bytes(MAX.0),
            used: Bytes(self.young.used),
            first_capacity: Bytes(self.young.capacity / 10 * 8),
            first_max: Bytes(MAX.0 / 10 * 8),
        };
        heap.old = Generation {
            capacity: Bytes(self.old.capacity),
            max: Bytes(MAX.1),
            used: Bytes(self.old.used),
            ..Generation::default()
        };
    }

    /// Runs the controller for some seconds at a limit of this many MiB, ten times per second.
    fn run(&mut self, control: &mut Control, limit: u64, seconds: u64) {
        self.peak = 0;
        for tenth in 0..seconds * 10 {
            self.seen.now += LOOK;
            self.work();
            for _ in 0..8 {
                self.look(limit);
                let actions = control.tick(&self.seen);
                for &action in &actions {
                    self.act(control, action);
                }
                if !actions.contains(&Action::Collect) {
                    break;
                }
            }
            if tenth >= 20 {
                self.peak = self.peak.max(self.uses());
            }
        }
    }
}

/// The gap between the program's size and its smaller use is counted once, and again only after a resizing.
#[test]
fn a_gap_that_no_resizing_has_answered_is_not_counted_again_and_again() {
    for resident in [40, 60, 80] {
        let (mut control, mut serial) = Serial::new(60, (200, 1));
        serial.run(&mut control, 600, 6);
        serial.resident = resident;
        serial.run(&mut control, 190, 3);
        let (mut raised, mut before) = (0, (serial.forced, control.describe()));
        for _ in 0..25 {
            serial.run(&mut control, 190, 1);
            let now = (serial.forced, control.describe());
            raised += u32::from(now.0 == before.0 && now.1 != before.1);
            before = now;
        }
        // The second time when garbage that has become old makes the aim smaller.
        assert!(raised <= 2, "{resident}: {raised} times");
        // All of it is filled again. The program, which grew because of the gap, is not much above
        // its limit.
        serial.resident = 100;
        serial.run(&mut control, 190, 1);
        let young = serial.young.capacity / MIB;
        assert!(young <= 200, "{resident}: {young}");
        serial.run(&mut control, 190, 8);
        let most = 190 * MIB + 190 * MIB / 7;
        assert!(serial.peak <= most, "{resident}: {}", serial.peak / MIB);
    }
}

#[test]
fn garbage_that_becomes_old_does_not_take_it_far_beyond_its_limit() {
    for (live, rate) in [(60, 1), (60, 4), (40, 8), (90, 4)] {
        let (mut control, mut serial) = Serial::new(live, (200, rate));
        serial.run(&mut control, 600, 6);
        serial.run(&mut control, 190, 30);
        let (peak, forced) = (serial.peak / MIB, serial.forced);
        assert!(peak <= 190 + 190 / 7, "{live}, {rate}: {peak}");
        assert!(forced < 100, "{live}, {rate}: {forced} collections");
    }
}

/// One collection frees what is garbage, and the program goes on with the same size.
#[test]
fn with_an_agent_the_heap_is_not_made_small_to_get_rid_of_garbage() {
    for (live, rate) in [(60, 1), (60, 4), (40, 8), (90, 4)] {
        let (mut control, mut serial) = Serial::with_steps(live, (200, rate), 1);
        serial.agent = true;
        serial.run(&mut control, 600, 6);
        serial.run(&mut control, 190, 15);
        let (forced, least) = (serial.forced, serial.young.capacity * 9 / 10);
        for _ in 0..30 {
            serial.run(&mut control, 190, 1);
            let young = serial.young.capacity;
            assert!(
                young >= least,
                "{live}, {rate}: {} of {}",
                young / MIB,
                least / MIB
            );
        }
        serial.run(&mut control, 190, 30);
        let (peak, forced) = (serial.peak / MIB, serial.forced - forced);
        assert!(peak <= 190 + 190 / 20, "{live}, {rate}: {peak}");
        assert!(
            forced <= 20,
            "{live}, {rate}: {forced} collections in a minute"
        );
    }
}
