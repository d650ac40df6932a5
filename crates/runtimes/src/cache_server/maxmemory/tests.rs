use super::*;
use proptest::prelude::*;

fn mib(number: u64) -> Bytes {
    Bytes::mib(number)
}

/// A server with 10 MiB beside its data.
fn look(used: u64, maxmemory: u64) -> Look {
    Look {
        uses: mib(used + 10),
        used: mib(used),
        maxmemory: mib(maxmemory),
        keys: 1000,
        has_slices: true,
        ..Look::default()
    }
}

fn aim(limit: u64, given: u64) -> Aim {
    Aim {
        limit: mib(limit),
        given: mib(given),
    }
}

fn once(look: &Look, aim: &Aim) -> Step {
    Control::default().next(look, aim)
}

#[test]
fn the_limit_is_of_the_whole_process() {
    // No maximum so far: it may grow until the process has its limit.
    assert_eq!(once(&look(50, 0), &aim(200, 0)), Step::Set(mib(190)));
    assert_eq!(once(&look(50, 190), &aim(200, 0)), Step::Stay);
    assert_eq!(once(&look(50, 90), &aim(200, 0)), Step::Set(mib(190)));
    // Near enough.
    assert_eq!(once(&look(50, 188), &aim(200, 0)), Step::Stay);
    assert_eq!(once(&look(50, 192), &aim(200, 0)), Step::Stay);
}

#[test]
fn the_users_own_maximum_is_never_exceeded_and_comes_back_without_a_limit() {
    assert_eq!(once(&look(50, 100), &aim(200, 100)), Step::Stay);
    assert_eq!(once(&look(50, 80), &aim(200, 100)), Step::Set(mib(100)));
    assert_eq!(once(&look(50, 80), &aim(0, 100)), Step::Set(mib(100)));
    assert_eq!(once(&look(50, 80), &aim(0, 0)), Step::Set(Bytes::ZERO));
    assert_eq!(once(&look(50, 0), &aim(0, 0)), Step::Stay);
}

#[test]
fn a_lower_limit_is_come_to_in_steps() {
    let mut control = Control::default();
    let aim = aim(110, 0);
    let mut server = look(400, 0);
    let mut steps = Vec::new();
    for _ in 0..40 {
        match control.next(&server, &aim) {
            Step::Set(to) => {
                let whole = to.0 >> 20;
                steps.push(whole);
                server = look(whole, whole);
            }
            Step::Purge => {}
            step => {
                assert_eq!(step, Step::Stay);
                break;
            }
        }
    }
    assert_eq!(steps[..3], [350, 306, 267]);
    assert_eq!(steps.last(), Some(&100));
    assert!(steps.is_sorted_by(|one, next| one > next) && !control.is_vain());
}

#[test]
fn a_server_that_evicts_all_at_once_is_asked_for_few_keys() {
    let server = Look {
        keys: 400_000,
        has_slices: false,
        ..look(400, 0)
    };
    let key = server.used.0 / 400_000;
    let to = server.used - Bytes(key * FEW_KEYS);
    assert_eq!(once(&server, &aim(110, 0)), Step::Set(to));
    let large = Look { keys: 4, ..server };
    assert_eq!(once(&large, &aim(110, 0)), Step::Set(mib(350)));
}

#[test]
fn the_next_step_waits_for_the_last_and_a_server_that_cannot_go_on_is_let_write() {
    let mut control = Control::default();
    let (server, aim) = (look(400, 350), aim(110, 0));
    for _ in 0..PATIENT {
        assert_eq!(control.next(&server, &aim), Step::Wait);
    }
    let less = look(380, 350);
    assert_eq!(control.next(&less, &aim), Step::Wait);
    for _ in 1..PATIENT {
        assert_eq!(control.next(&less, &aim), Step::Wait);
    }
    let more = less.used + less.used / STEP;
    assert_eq!(control.next(&less, &aim), Step::Set(more));
    let let_go = Look {
        maxmemory: more,
        ..less
    };
    assert_eq!(control.next(&let_go, &aim), Step::Stay);
    assert!(control.is_vain());
}

#[test]
fn free_memory_is_given_back_before_more_is_evicted_and_once() {
    let mut control = Control::default();
    let aim = aim(110, 0);
    let mut server = Look {
        idle: mib(30),
        ..look(110, 110)
    };
    assert_eq!(control.next(&server, &aim), Step::Purge);
    // The server tells its counters late.
    assert_eq!(control.next(&server, &aim), Step::Set(mib(100)));
    server = Look {
        idle: mib(5),
        ..look(105, 100)
    };
    assert_eq!(control.next(&server, &aim), Step::Wait);
    server = Look {
        idle: mib(6),
        ..look(100, 100)
    };
    assert_eq!(control.next(&server, &aim), Step::Stay);
    server.uses = mib(112);
    assert_eq!(control.next(&server, &aim), Step::Set(mib(98)));
    server.idle = mib(8);
    assert_eq!(control.next(&server, &aim), Step::Purge);
}

#[test]
fn what_does_not_come_back_is_not_evicted_on_and_on() {
    let mut control = Control::default();
    let mut server = look(400, 0);
    server.uses = mib(420);
    let mut last = Step::Wait;
    for _ in 0..40 {
        last = control.next(&server, &aim(110, 0));
        match last {
            Step::Set(to) => (server.used, server.maxmemory) = (to, to),
            Step::Purge => {}
            _ => break,
        }
    }
    assert_eq!(last, Step::Stay);
    assert!(control.is_vain() && server.used == mib(350), "{server:?}");
    // A limit that is another is tried again.
    assert_eq!(
        control.next(&server, &aim(90, 0)),
        Step::Set(server.used - server.used / STEP)
    );
}

#[test]
fn a_server_that_saves_neither_grows_nor_evicts() {
    let saving = |used, maxmemory, copied| Look {
        saves: true,
        copied: mib(copied),
        ..look(used, maxmemory)
    };
    // It would have to evict: it stays at what it uses.
    assert_eq!(once(&saving(400, 0, 0), &aim(110, 0)), Step::Set(mib(400)));
    assert_eq!(once(&saving(400, 400, 0), &aim(110, 0)), Step::Stay);
    assert_eq!(once(&saving(410, 400, 0), &aim(110, 0)), Step::Stay);
    // It could grow, but leaves the copies their room.
    assert_eq!(once(&saving(50, 0, 40), &aim(200, 0)), Step::Set(mib(150)));
    assert_eq!(once(&saving(50, 100, 0), &aim(200, 0)), Step::Stay);
    assert_eq!(once(&saving(50, 0, 0), &aim(200, 60)), Step::Set(mib(60)));
}

proptest! {
    #[test]
    fn no_step_exceeds_what_the_user_gave_or_lifts_the_bound(
        uses in any::<u64>(), used in any::<u64>(), maxmemory in any::<u64>(), idle in any::<u64>(),
        limit in 1..u64::MAX, given in any::<u64>(), keys in any::<u64>(), bits in 0..8u8,
    ) {
        let look = Look {
            uses: Bytes(uses), used: Bytes(used), idle: Bytes(idle), maxmemory: Bytes(maxmemory),
            saves: bits & 1 > 0, copied: Bytes(idle), frees: bits & 2 > 0, keys, has_slices: bits & 4 > 0,
        };
        let aim = Aim { limit: Bytes(limit), given: Bytes(given) };
        let mut control = Control::default();
        for _ in 0..PATIENT + 3 {
            if let Step::Set(to) = control.next(&look, &aim) {
                prop_assert!(to > Bytes::ZERO);
                prop_assert!(given == 0 || to.0 <= given);
            }
        }
    }

    /// A made-up server gives back a part of what it drops.
    #[test]
    fn a_server_that_gives_back_comes_to_its_limit(limit in 40..400u64, parts in 3..8u64) {
        let mut control = Control::default();
        let mut server = look(400, 0);
        let aim = aim(limit, 0);
        for _ in 0..200 {
            match control.next(&server, &aim) {
                Step::Set(to) => {
                    let dropped = server.used - to;
                    server.used = server.used.min(to);
                    server.uses -= dropped * parts / 8;
                    server.maxmemory = to;
                }
                Step::Stay => break,
                _ => {}
            }
        }
        // The made-up server rounds.
        prop_assert!(server.uses <= aim.limit + LEAST || server.used <= LEAST, "{server:?}");
    }
}
