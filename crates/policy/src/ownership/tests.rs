use super::*;
use plimsoll_unit::{MILLISECOND, Pages};
use proptest::prelude::*;

/// xorshift64*: the same sequence everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Number of `pages` that are hit when each one is hit with probability `p`.
    fn hits(&mut self, pages: Pages, p: f64) -> Pages {
        Pages((0..pages.0).filter(|_| self.part() < p).count() as u64)
    }
}

const PAGES: Pages = Pages(1024);
const SIZE: Bytes = PAGES.bytes();

fn settings(wait: Nanos) -> Settings {
    Settings {
        shortest: wait,
        longest: wait,
        ..Settings::default()
    }
}

/// Runs honest programs that touch pages at random with these rates.
fn honest(rates: &[f64], epochs: usize, wait: Nanos, seed: u64) -> (Ownership, Vec<usize>) {
    let (mut books, mut random) = (Ownership::new(settings(wait)), Random(seed | 1));
    let mut paid = vec![0; rates.len()];
    for _ in 0..epochs {
        let waited = books.next_epoch(random.next()).wait;
        let sample = |(i, rate): (usize, &f64)| {
            let p = 1.0 - (-rate * waited.0 as f64 / 1e9).exp();
            Sample {
                principal: i as u64,
                referenced: random.hits(PAGES, p).bytes(),
                waited,
            }
        };
        let samples: Vec<Sample> = rates.iter().enumerate().map(sample).collect();
        paid[books.measured(7, SIZE, &samples, random.next()).unwrap() as usize] += 1;
    }
    (books, paid)
}

#[test]
fn portions_are_the_true_ones() {
    for rates in [[1.0, 2.0, 4.0], [0.5, 1.0, 5.0]] {
        let (books, _) = honest(&rates, 40, Nanos::millis(200), 42);
        for (portion, rate) in books.portions(7).iter().zip(rates) {
            let truth = rate / rates.iter().sum::<f64>();
            assert!(
                (portion.fraction - truth).abs() < 0.02,
                "{portion:?}, true {truth}"
            );
        }
    }
}

#[test]
fn each_pays_as_often_as_its_portion_says() {
    let (_, paid) = honest(&[1.0, 2.0, 4.0], 2000, Nanos::millis(200), 5);
    for (paid, truth) in paid.iter().zip([1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]) {
        assert!(
            (*paid as f64 / 2000.0 - truth).abs() < 0.04,
            "{paid} of 2000, true {truth}"
        );
    }
}

/// Fraction of the epochs paid by a program that touches half of the pages once per nominal cycle,
/// at `phase` (0 to 1) of it, beside an honest program with the same true rate.
fn rider(phase: f64, seed: u64, drawn: bool) -> f64 {
    let wait = Nanos::millis(100);
    let (mut books, mut random) = (Ownership::new(settings(wait)), Random(seed | 1));
    let cycle = wait * (1 + u64::from(Settings::default().rest));
    let (mut now, mut paid, epochs) = (Nanos::ZERO, 0, 3000);
    let rate = 0.5 / (cycle.0 as f64 / 1e9);
    for _ in 0..epochs {
        let middle = (1 << 63) | (1 << 31);
        let epoch = books.next_epoch(if drawn { random.next() } else { middle });
        let bursts = |t: Nanos| ((t.0 as f64 / cycle.0 as f64) - phase).floor();
        let hit = bursts(now + epoch.wait) > bursts(now);
        let honest = random.hits(PAGES, 1.0 - (-rate * epoch.wait.0 as f64 / 1e9).exp());
        let samples = [
            Sample {
                principal: 0,
                referenced: honest.bytes(),
                waited: epoch.wait,
            },
            Sample {
                principal: 1,
                referenced: if hit { SIZE / 2 } else { Bytes::ZERO },
                waited: epoch.wait,
            },
        ];
        paid += u32::from(books.measured(1, SIZE, &samples, random.next()) == Some(1));
        now += epoch.wait + epoch.pause;
    }
    f64::from(paid) / f64::from(epochs)
}

#[test]
fn fixed_epochs_would_let_a_rider_go_free() {
    assert!(rider(0.5, 9, false) < 0.05);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nobody_rides_free_by_timing_its_accesses(phase in 0.0..1.0f64, seed in any::<u64>()) {
        let part = rider(phase, seed, true);
        prop_assert!((0.4..0.65).contains(&part), "pays {} of a true 0.5", part);
    }
}

proptest! {
    #[test]
    fn whatever_is_measured_the_books_stay_sound(
        epochs in prop::collection::vec((0..6u64, any::<u64>(), prop::collection::vec(
            (0..5u64, any::<u64>(), prop_oneof![Just(0), any::<u64>()]), 0..8), any::<u64>()), 1..40),
    ) {
        let mut books = Ownership::new(Settings { segments: 4, mappers: 3, ..Settings::default() });
        for (segment, size, samples, draw) in epochs {
            let samples: Vec<Sample> = samples.into_iter()
                .map(|(principal, referenced, waited)| Sample {
                    principal,
                    referenced: Bytes(referenced),
                    waited: Nanos(waited),
                })
                .collect();
            let owner = books.measured(segment, Bytes(size), &samples, draw);
            let portions = books.portions(segment);
            prop_assert_eq!(owner.is_some(), !portions.is_empty());
            prop_assert!(owner.is_none_or(|o| portions.iter().any(|p| p.principal == o)));
            prop_assert!(portions.iter().all(|p| p.rate.is_finite() && (0.0..=1.0).contains(&p.fraction)));
            if owner.is_some() {
                let sum: f64 = portions.iter().map(|p| p.fraction).sum();
                prop_assert!((sum - 1.0).abs() < 1e-9);
            }
            let epoch = books.next_epoch(draw);
            prop_assert!((37_500_000..=2_500_000_000).contains(&epoch.wait.0));
        }
    }
}

#[test]
fn saturation_shortens_the_epoch_and_quiet_lengthens_it() {
    let mut books = Ownership::new(Settings::default());
    let sample = |referenced| {
        [Sample {
            principal: 1,
            referenced,
            waited: Nanos::millis(200),
        }]
    };
    for _ in 0..20 {
        books.measured(1, SIZE, &sample(SIZE), 0);
    }
    assert_eq!(
        books
            .next_epoch(u64::from(u32::MAX / 2) << 32)
            .wait
            .0
            .div_ceil(MILLISECOND),
        50
    );
    for _ in 0..40 {
        books.measured(1, SIZE, &sample(Bytes::ZERO), 0);
    }
    assert!(books.next_epoch(0).wait == Nanos::millis(1500));
}

#[test]
fn who_joins_pays_and_who_leaves_does_not() {
    let mut books = Ownership::new(Settings::default());
    let sample = |principal| Sample {
        principal,
        referenced: SIZE / 2,
        waited: Nanos::millis(200),
    };
    assert_eq!(books.measured(1, SIZE, &[sample(1)], u64::MAX), Some(1));
    assert_eq!(books.charged(1), SIZE);
    books.measured(1, SIZE, &[sample(1), sample(2)], 0);
    assert!(
        books
            .portions(1)
            .iter()
            .all(|p| (p.fraction - 0.5).abs() < 1e-12)
    );
    assert_eq!(books.measured(1, SIZE, &[sample(2)], 0), Some(2));
    assert_eq!((books.charged(1), books.charged(2)), (Bytes::ZERO, SIZE));
}

#[test]
fn a_segment_that_nobody_touches_is_still_paid_for() {
    let mut books = Ownership::new(Settings::default());
    let idle = [1, 2].map(|principal| Sample {
        principal,
        referenced: Bytes::ZERO,
        waited: Nanos::millis(200),
    });
    assert_eq!(books.measured(1, SIZE, &idle, 0), Some(1));
    assert_eq!(books.measured(1, SIZE, &idle, u64::MAX), Some(2));
}

#[test]
fn full_books_refuse_instead_of_growing() {
    let mut books = Ownership::new(Settings {
        segments: 1,
        mappers: 1,
        ..Settings::default()
    });
    let sample = |principal| Sample {
        principal,
        referenced: Pages(1).bytes(),
        waited: Nanos::millis(1),
    };
    assert_eq!(
        books.measured(1, SIZE, &[sample(1), sample(2)], u64::MAX),
        Some(1)
    );
    assert_eq!(books.measured(2, SIZE, &[sample(1)], 0), None);
    books.remove_segment(1);
    assert_eq!(books.measured(2, SIZE, &[sample(1)], 0), Some(1));
}
