//! Registration, changes, removal, and refusals.

use super::*;
use plimsoll_wire::messages::Set;

#[test]
fn a_principal_that_makes_no_sense_is_refused() {
    let mut core = Core::new(Config::default());
    assert_eq!(
        core.register(
            &NewPrincipal {
                parent: Some(9),
                ..new("a")
            },
            Nanos::ZERO
        ),
        Err(Refusal::NoSuchPrincipal(9))
    );
    assert_eq!(core.remove(99), Err(Refusal::NoSuchPrincipal(99)));
}

#[test]
fn a_change_that_makes_no_sense_is_refused_and_changes_nothing() {
    let mut core = Core::new(Config::default());
    let top = core.register(&group(None), Nanos::ZERO).expect("registers");
    let below = core
        .register(&group(Some(top)), Nanos::ZERO)
        .expect("registers");
    let cycle = Set {
        id: top,
        parent: Some(below),
        weight: Some(weight(7)),
        ..Set::default()
    };
    assert_eq!(
        core.set(&cycle),
        Err(Refusal::Cycle {
            child: top,
            parent: below
        })
    );
    let itself = Set {
        id: top,
        parent: Some(top),
        ..Set::default()
    };
    assert_eq!(
        core.set(&itself),
        Err(Refusal::Cycle {
            child: top,
            parent: top
        })
    );
    assert_eq!(
        core.figures(top).map(|one| one.settings.weight),
        Some(weight(100))
    );
}

#[test]
fn no_more_principals_than_may_be() {
    let mut core = Core::new(Config {
        max_principals: 2,
        ..Config::default()
    });
    for name in ["a", "b"] {
        core.register(&new(name), Nanos::ZERO).expect("registers");
    }
    assert_eq!(
        core.register(&new("c"), Nanos::ZERO),
        Err(Refusal::TooMany(2))
    );
}

#[test]
fn a_tree_is_at_most_eight_deep() {
    let mut core = Core::new(Config::default());
    let mut parent = None;
    for _ in 0..MAX_DEPTH {
        parent = Some(
            core.register(&group(parent), Nanos::ZERO)
                .expect("registers"),
        );
    }
    assert_eq!(
        core.register(&group(parent), Nanos::ZERO),
        Err(Refusal::TooDeep(MAX_DEPTH + 1))
    );
    let other = core.register(&group(None), Nanos::ZERO).expect("registers");
    core.register(&group(Some(other)), Nanos::ZERO)
        .expect("registers");
    let deep = Set {
        id: other,
        parent: Some(7),
        ..Set::default()
    };
    assert_eq!(core.set(&deep), Err(Refusal::TooDeep(MAX_DEPTH + 1)));
}

#[test]
fn orphans_go_to_their_grandparent() {
    let mut bench = Bench::new(1000 * MIB);
    let top = bench.add(&group(None), 0);
    let middle = bench.add(&group(Some(top)), 0);
    let leaf = bench.add(
        &NewPrincipal {
            parent: Some(middle),
            weight: weight(7),
            ..new("leaf")
        },
        10 * MIB,
    );
    bench.tick(Nanos::millis(50));
    bench.core.remove(middle).expect("was registered");
    bench.tick(Nanos::millis(50));
    let leaf = bench.core.figures(leaf).expect("lives on");
    assert_eq!((leaf.parent, leaf.settings.weight), (Some(top), weight(7)));
    assert_eq!(
        bench.core.figures(top).map(|one| one.subtree.uses),
        Some(10 * MIB)
    );
}

#[test]
fn numbers_are_never_reused() {
    let mut core = Core::new(Config {
        first_id: 41,
        ..Config::default()
    });
    let first = core.register(&new("a"), Nanos::ZERO).expect("registers");
    core.remove(first).expect("was registered");
    let second = core.register(&new("a"), Nanos::ZERO).expect("registers");
    assert_eq!((first, second), (41, 42));
}

#[test]
fn settings_outlive_a_crash() {
    let mut core = Core::new(Config::default());
    let id = core.register(&new("p"), Nanos::ZERO).expect("registers");
    core.set(&Set {
        id,
        weight: Some(weight(7)),
        priority: Priority::new(-3).ok(),
        max: Some(max(MIB)),
        ..Set::default()
    })
    .expect("is valid");
    let kept = core.snapshot();
    let mut again = Core::new(Config {
        first_id: core.next_id(),
        ..Config::default()
    });
    let rejoined = again.register(&new("p"), Nanos::ZERO).expect("registers");
    assert!(rejoined > id);
    again.restore(rejoined, None, &kept[0]).expect("is valid");
    let one = again.figures(rejoined).expect("is registered");
    assert_eq!(
        (one.settings.weight.get(), one.settings.priority.get()),
        (7, -3)
    );
    assert_eq!(one.settings.max.bytes(), Some(Bytes::mib(1)));
}
