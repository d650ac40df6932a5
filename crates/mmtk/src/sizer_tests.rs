use super::*;
use plimsoll_kernel::stalls::Tier;
use plimsoll_unit::MIB;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A heap of 100 MiB that nobody else steers.
fn sizer(give_back: GiveBack) -> Sizer<sizing::Mmtk> {
    let builder = Builder::new().max(Bytes::mib(100)).broker(false);
    let sizer = builder.give_back(give_back).open().unwrap();
    sizer.control().ready();
    sizer
}

fn after(reserved: u64, full: bool) -> After {
    After {
        reserved: Bytes::mib(reserved),
        used: Bytes::mib(reserved),
        headroom: Bytes::ZERO,
        full,
        beside: false,
    }
}

/// A collection of a heap with `before` MiB in use, after which `reserved` are.
fn collects(sizer: &Sizer<sizing::Mmtk>, before: u64, reserved: u64, full: bool) -> Decision {
    sizer.began(Bytes::mib(before), Bytes::mib(before));
    sizer.pause_began();
    let decision = sizer.ended(&after(reserved, full));
    sizer.pause_ended();
    decision
}

#[test]
fn a_maximum_that_no_heap_can_have_is_refused_or_bounded() {
    let small = Builder::new().broker(false).max(SMALLEST - Bytes(1)).open();
    assert!(matches!(small, Err(Error::TooSmall { bytes }) if bytes == SMALLEST - Bytes(1)));
    let large = Builder::new().broker(false).max(Bytes::MAX).open().unwrap();
    assert_eq!(large.max(), machine().unwrap());
    let usual = Builder::default().broker(false).open().unwrap();
    assert_eq!(usual.max(), tightest().unwrap());
    // The least limit is 8 MiB, whatever was asked for, and never above the maximum.
    let sizer = Builder::new()
        .broker(false)
        .max(Bytes::mib(20))
        .min(Bytes::ZERO)
        .open();
    let sizer = sizer.unwrap();
    sizer.control().bound(Bytes::ZERO);
    assert!(sizer.limit() > SMALLEST, "MMTk cannot collect yet");
    sizer.control().ready();
    assert_eq!(sizer.limit(), SMALLEST);
    let most = Builder::new()
        .broker(false)
        .max(Bytes::mib(20))
        .min(Bytes::MAX);
    let most = most.open().unwrap();
    most.control().bound(Bytes::ZERO);
    most.control().ready();
    assert_eq!(most.limit(), Bytes::mib(20));
}

#[test]
fn who_never_says_that_mmtk_can_collect_is_told_once() {
    let silent = Builder::new()
        .max(Bytes::mib(100))
        .broker(false)
        .open()
        .unwrap();
    silent.control().bound(Bytes::mib(20));
    assert_eq!(silent.limit(), Bytes::mib(100), "it does not count yet");
    let told = silent.advice().unwrap();
    assert!(told.contains("Control::ready"), "{told}");
    assert_eq!(silent.limit(), Bytes::mib(20), "from here on it does");
    assert_eq!(silent.advice(), None, "once");
    assert_eq!(sizer(GiveBack::Never).advice(), None, "it was said");
}

#[test]
fn a_heap_is_full_above_its_limit_and_polls_tell_how_far_it_went() {
    let sizer = sizer(GiveBack::Never);
    let limit = sizer.limit();
    assert!(!sizer.is_full(limit) && sizer.is_full(limit + Bytes(1)));
    assert!(!sizer.is_full(Bytes::ZERO));
    let touched = sizer.shared.told.touched.load(Relaxed);
    assert_eq!(Bytes(touched), limit + Bytes(1), "the most");
    sizer.control().bound(Bytes::mib(30));
    assert_eq!(sizer.limit(), Bytes::mib(30), "it holds at the next poll");
    assert!(sizer.is_full(Bytes::mib(31)) && sizer.can_grow());
}

#[test]
fn collections_are_counted_and_waiting_requests_let_in() {
    let sizer = sizer(GiveBack::Never);
    sizer.control().bound(Bytes::ZERO);
    let plain = collects(&sizer, 60, 40, true);
    sizer.pending(Bytes::ZERO);
    sizer.pending(Bytes::mib(7));
    let waited = collects(&sizer, 60, 40, true);
    assert_eq!(waited.limit, plain.limit + Bytes::mib(7));
    let again = collects(&sizer, 60, 40, true);
    assert_eq!(again.limit, plain.limit, "nobody waits any more");
    collects(&sizer, 55, 50, false);
    let figures = sizer.control().figures();
    assert_eq!(
        (figures.collections, figures.full, figures.let_in),
        (4, 3, 1)
    );
    assert_eq!(
        figures.live,
        Bytes::mib(40),
        "what the last whole collection left"
    );
    assert_eq!(
        (figures.limit, figures.max),
        (sizer.limit(), Bytes::mib(100))
    );
    assert_eq!(figures.given_back, Bytes::ZERO);
    let told = &sizer.shared.told;
    assert_eq!(told.allocated.load(Relaxed), (60 + 20 + 20 + 15) * MIB);
    assert_eq!(told.needs.load(Relaxed), 40 * MIB);
}

#[test]
fn numbers_without_sense_do_no_harm() {
    let sizer = sizer(GiveBack::WhenShort);
    // A pause that nobody began; MarkCompact's numbers that wrapped.
    sizer.pause_ended();
    sizer.pending(Bytes::MAX);
    sizer.pending(Bytes::MAX);
    sizer.began(Bytes::MAX, Bytes::MAX);
    let wild = After {
        reserved: Bytes::MAX,
        used: Bytes::MAX,
        headroom: Bytes::MAX,
        full: true,
        beside: false,
    };
    assert_eq!(sizer.ended(&wild).limit, sizer.max());
    sizer.pause_ended();
    sizer.giving_back(|| {});
    assert!(collects(&sizer, 0, 0, true).limit <= sizer.max());
}

#[test]
fn memory_is_given_back_when_it_was_asked_for() {
    let never = sizer(GiveBack::Never);
    assert_eq!(collects(&never, 90, 10, true).give_back, Free::Nothing);
    let whole = sizer(GiveBack::AfterFull);
    assert_eq!(collects(&whole, 90, 10, true).give_back, Free::Pages);
    assert_eq!(collects(&whole, 90, 10, false).give_back, Free::Nothing);
    // More than an eighth above the limit may be resident.
    let short = sizer(GiveBack::WhenShort);
    short.control().bound(Bytes::mib(80));
    let _ = short.is_full(Bytes::mib(80));
    let at_its_limit = collects(&short, 80, 10, true).give_back;
    short.control().bound(Bytes::mib(40));
    assert_eq!(collects(&short, 80, 10, true).give_back, Free::Pages);
    // A collection of a nursery has looked at none of the old objects.
    assert_eq!(collects(&short, 80, 10, false).give_back, Free::Spaces);
    // Memory that is owed to a broker goes back, however little it is.
    let owing = sizer(GiveBack::WhenShort);
    owing.shared.follow_bound(Bytes::mib(80));
    owing.shared.owes(true);
    let _ = owing.is_full(Bytes::mib(80));
    assert_eq!(collects(&owing, 80, 10, true).give_back, Free::Pages);
    owing.shared.lift_bound();
    assert!(!owing.shared.is_owing(), "the broker is gone");
    // The kernel may have made this process wait meanwhile.
    let stalled = short.control().figures().stalled > 0;
    assert!(at_its_limit == Free::Nothing || stalled);
}

#[test]
fn a_child_after_a_fork_has_a_signal_of_its_own_and_no_bound_of_a_broker() {
    let sizer = sizer(GiveBack::Never);
    sizer.shared.follow_bound(Bytes::mib(20));
    sizer.began(Bytes::ZERO, Bytes::ZERO);
    assert_eq!(sizer.limit(), Bytes::mib(20), "nobody forked");
    // As it is in a child: opened by another process.
    sizer.state().signal.pretend_forked();
    sizer.began(Bytes::ZERO, Bytes::ZERO);
    assert!(sizer.state().signal.is_own());
    assert_eq!(sizer.limit(), Bytes::mib(100));
    // The runtime's own bound holds in the child, too.
    sizer.control().bound(Bytes::mib(20));
    sizer.state().signal.pretend_forked();
    sizer.began(Bytes::ZERO, Bytes::ZERO);
    assert_eq!(sizer.limit(), Bytes::mib(20));
}

#[test]
fn the_handle_names_the_signal_that_is_read_now() {
    let sizer = sizer(GiveBack::Never);
    let (control, early) = (sizer.control(), sizer.control());
    let best = Signal::open().tier();
    let name = |tier: Option<Tier>| tier.map_or("none", Tier::name);
    assert_eq!(control.tier(), name(best));
    // As if the one before could not be read any more.
    sizer.state().signal = Signal::by(Tier::MajorFaults);
    collects(&sizer, 60, 40, true);
    assert_eq!(control.tier(), "major faults");
    assert_eq!(early.tier(), "major faults");
    // The child of a fork opens its own.
    sizer.state().signal.pretend_forked();
    sizer.began(Bytes::ZERO, Bytes::ZERO);
    assert_eq!(control.tier(), name(best));
}

#[test]
fn what_was_given_back_is_counted_and_is_not_touched_any_more() {
    let sizer = sizer(GiveBack::WhenShort);
    let size = 32 * MIB as usize;
    let mut block = vec![1u8; size];
    let _ = sizer.is_full(Bytes::mib(200));
    sizer.giving_back(|| {
        let start = block.as_mut_ptr().addr().next_multiple_of(1 << 16);
        let length = (block.as_ptr().addr() + size - start) >> 16 << 16;
        // SAFETY: whole pages of our own block; they are expected to be zero from here on.
        let code = unsafe { libc::madvise(start as *mut _, length, libc::MADV_DONTNEED) };
        assert_eq!(code, 0);
    });
    let given_back = sizer.control().figures().given_back;
    // Other tests of this process may touch memory meanwhile.
    assert!(given_back <= Bytes::mib(33), "{given_back}");
    let touched = sizer.shared.told.touched.load(Relaxed);
    assert_eq!(Bytes(touched), Bytes::mib(200) - given_back);
    assert_eq!(block[size / 2], 0);
}

#[test]
fn what_gives_memory_back_may_call_any_hook() {
    let sizer = sizer(GiveBack::WhenShort);
    sizer.giving_back(|| {
        sizer.pending(Bytes::mib(1));
        let _ = sizer.is_full(Bytes::mib(300));
    });
    assert_eq!(sizer.state().now.pending, Bytes::mib(1));
    let touched = sizer.shared.told.touched.load(Relaxed);
    let given_back = sizer.control().figures().given_back;
    assert_eq!(
        Bytes(touched),
        Bytes::mib(300) - given_back,
        "the poll is not forgotten"
    );
}

#[test]
fn a_hook_that_panicked_leaves_the_others_working() {
    let sizer = sizer(GiveBack::WhenShort);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        sizer.giving_back(|| std::panic::resume_unwind(Box::new(())));
    }));
    assert!(panicked.is_err());
    sizer.pending(Bytes::mib(1));
    let decision = collects(&sizer, 60, 40, true);
    assert!(decision.limit <= sizer.max());
    assert_eq!(sizer.control().figures().collections, 1);
}

#[test]
fn a_plan_that_never_collects_has_its_maximum() {
    let sizer = sizer(GiveBack::Never);
    sizer.control().bound(Bytes::mib(10));
    sizer.never_collects();
    assert_eq!(sizer.limit(), Bytes::mib(100));
    sizer.control().collect();
    assert!(!sizer.take_wanted(), "MMTk would panic, or wait for ever");
    sizer.let_through();
}

#[test]
fn pauses_of_a_concurrent_collection_do_not_tell_its_cost() {
    let sizer = sizer(GiveBack::Never);
    let whole = || sizer.shared.told.whole.load(Acquire);
    collects(&sizer, 30, 20, true);
    assert!(whole() > 0);
    sizer.began(Bytes::mib(30), Bytes::mib(30));
    sizer.pause_began();
    sizer.ended(&After {
        beside: true,
        ..after(20, true)
    });
    sizer.pause_ended();
    assert_eq!(whole(), 0);
}
