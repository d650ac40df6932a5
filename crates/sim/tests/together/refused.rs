//! Setups that make no sense.

use crate::churn::{Churn, setup};
use plimsoll_sim::threads::{Program, SimError};
use plimsoll_sim::together::{Error, Hog, Policy, Setup, simulate};
use plimsoll_unit::{Bytes, MIB, Nanos};
use plimsoll_wire::messages::{Priority, Weight};

/// Why a setup of one program is refused.
fn refusal(change: impl Fn(&mut Setup)) -> String {
    let mut setup = setup(Policy::Shares, 64 * MIB, &[100]);
    change(&mut setup);
    let mut program = Churn::new(10, 1);
    let error = simulate(&setup, &mut [&mut program]).expect_err("it is refused");
    error.to_string()
}

#[test]
fn a_setup_that_makes_no_sense_is_refused_with_a_reason() {
    let none = simulate(&setup(Policy::Shares, 64 * MIB, &[]), &mut []);
    let said = none.expect_err("no programs").to_string();
    assert_eq!(said, "there is no program: give at least one trace");
    let live = refusal(|it| it.entrants[0].largest_live = Bytes::mib(65));
    assert_eq!(
        live,
        "weight 100 has up to 68157440 bytes alive at once, more than the memory of 67108864 bytes: \
         give more memory"
    );
    assert!(
        refusal(|it| it.memory = Bytes(MIB - 1)).starts_with("a memory of 1048575 bytes is not")
    );
    assert!(refusal(|it| it.memory = Bytes::MAX).contains("from 1 MiB to 1 PiB"));
    assert!(refusal(|it| it.entrants[0].settings.heap = Bytes::ZERO).contains("at least 1 byte"));
    assert!(refusal(|it| it.entrants[0].settings.heap = Bytes::MAX).contains("at most 16 times"));
    let backwards =
        refusal(|it| (it.entrants[0].start, it.entrants[0].stop) = (Nanos(5), Some(Nanos(5))));
    assert_eq!(
        backwards,
        "weight 100 is to stop before it starts: give a later time"
    );
    let hog = Hog {
        size: Bytes::mib(1),
        from: Nanos(1),
        until: Nanos(2),
        rate: MIB,
    };
    for (hog, why) in [
        (
            Hog {
                size: Bytes::mib(65),
                ..hog
            },
            "larger than the memory",
        ),
        (Hog { rate: 0, ..hog }, "a rate above 0"),
        (
            Hog {
                until: Nanos(1),
                ..hog
            },
            "a later end",
        ),
    ] {
        let said = refusal(|it| it.hogs = vec![hog]);
        assert!(said.contains(why), "{said}");
    }
    let many = setup(Policy::Shares, 64 * MIB, &[1; 257]);
    let mut programs = vec![Churn::new(1, 1); 257];
    let mut programs: Vec<&mut dyn Program> = programs
        .iter_mut()
        .map(|it| it as &mut dyn Program)
        .collect();
    let said = simulate(&many, &mut programs)
        .expect_err("too many")
        .to_string();
    assert!(said.contains("257 programs are more than 256"), "{said}");
    let three = setup(Policy::Shares, 64 * MIB, &[1, 2, 3]);
    let said = simulate(&three, &mut [&mut Churn::new(1, 1)]).expect_err("two are missing");
    assert_eq!(
        said.to_string(),
        "there are 3 entrants and 1 programs: give one for each"
    );
}

#[test]
fn weights_and_priorities_are_in_range_by_their_types() {
    assert!(Weight::new(0).is_err() && Weight::new(10_001).is_err());
    assert!(Priority::new(-101).is_err() && Priority::new(101).is_err());
}

#[test]
fn a_program_that_fails_is_named() {
    let mut setup = setup(Policy::Fixed, 64 * MIB, &[100, 7]);
    setup.entrants[1].settings.heap = Bytes::mib(1);
    let (mut one, mut other) = (Churn::new(1000, 10), Churn::new(1000, 30));
    match simulate(&setup, &mut [&mut one, &mut other]) {
        Err(Error::Program { name, source }) => {
            assert_eq!(name, "weight 7");
            assert!(matches!(source, SimError::HeapTooSmall { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
}
