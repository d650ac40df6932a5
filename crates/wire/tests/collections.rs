//! The page of collections: its layout, what readers see, also during writes, and any bytes.

use plimsoll_unit::{Bytes, Nanos};
use plimsoll_wire::collections::{
    About, Bound, Collector, Kind, MAX_TEXT, PAUSES, Pause, Process, SIZE, Signal, Totals, View,
    ViewError, WISH_LASTS, Wish, Words, Writer, offset, wish,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Page = [AtomicU64; SIZE / 8];

fn blank() -> Box<Page> {
    Box::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

fn about() -> About {
    About {
        pid: 42,
        collector: Collector::Parallel,
        signal: Signal::Reclaim,
        loaded_ns: 7,
        signal_text: "by the tracepoint, because there is no delay accounting".to_owned(),
    }
}

/// A pause and sums whose fields are all functions of `n`, so that a torn set is detected.
fn woven(n: u64) -> (Pause, Totals) {
    let pause = Pause {
        number: n,
        kind: Kind::from_number(n % 4),
        start_ns: n * 3,
        end_ns: n * 5,
        stalls: n ^ 0x5555,
        stall_ns: !n,
        major_faults: n + 17,
        given_back: n.rotate_left(9),
    };
    let totals = Totals {
        pauses: n,
        young: n + 1,
        full: n + 2,
        pause_ns: n * 7,
        stalls: n ^ 0xaaaa,
        stall_ns: !n,
        major_faults: n + 3,
        given_back: n.rotate_left(5),
        used: n + 9,
        free: n + 4,
        kept: n + 5,
        agent_ns: n + 6,
        missed: n + 8,
        unread: n + 9,
        asked: n + 10,
    };
    (pause, totals)
}

fn process(n: u64) -> Process {
    Process {
        at_ns: n,
        stalls: n * 3,
        stall_ns: !n,
        major_faults: n ^ 0x3333,
    }
}

#[test]
fn a_new_page_tells_of_its_machine_and_of_no_pause() {
    let page = blank();
    let words = Words::of(&page);
    assert_eq!(View::new(words).err(), Some(ViewError::Magic));
    let (mut writer, _) = Writer::new(words, &about());
    let view = View::new(words).unwrap();
    assert_eq!(view.about(), about());
    assert_eq!((view.totals(), view.process()), (None, None));
    assert_eq!(view.pauses_after(0).count(), 0);
    assert_eq!(view.refusal(), None);
    writer.refuse("the heap has large pages");
    assert_eq!(view.refusal().unwrap(), "the heap has large pages");
    writer.refuse("");
    assert_eq!(view.refusal(), None);
}

#[test]
fn the_layout_is_the_documented_one() {
    let page = blank();
    let (mut writer, mut process_writer) = Writer::new(Words::of(&page), &about());
    let (pause, totals) = woven(PAUSES + 2);
    writer.ended(&pause, &totals);
    process_writer.read(&process(9));
    let word = |at: usize| page[at / 8].load(Ordering::Relaxed);
    assert_eq!(&word(0).to_le_bytes(), b"PLIMSGCS");
    assert_eq!(word(8), 3 | 4096 << 32);
    assert_eq!([word(16), word(24), word(32), word(40)], [42, 2, 2, 7]);
    assert_eq!([word(64), word(72), word(80)], [2, 9, 27]);
    assert_eq!([word(128), word(136), word(144)], [2, 34, 35]);
    assert_eq!(word(2048 + 2 * 64), 34, "number 34 is in slot 2");
    assert_eq!(word(248), 44, "collections that were asked for");
    let bound = Some(Bound {
        above: Bytes(5),
        times: 6,
    });
    let resident = Bytes(4);
    wish(Words::of(&page), Some(Wish { resident, bound }), Nanos(7));
    assert_eq!([1024, 1032, 1040, 1048].map(word), [4, 7, 5, 6]);
    assert_eq!(
        [word(200), word(208), word(216)],
        [43, 38, 39],
        "used, free, kept"
    );
    assert_eq!(word(256), about().signal_text.len() as u64);
}

#[test]
fn the_signal_may_become_worse() {
    let page = blank();
    let words = Words::of(&page);
    let (_, mut process_writer) = Writer::new(words, &about());
    process_writer.signal(Signal::MajorFaults, "the program closed it");
    let told = View::new(words).unwrap().about();
    assert_eq!(told.signal, Signal::MajorFaults);
    assert_eq!(told.signal_text, "the program closed it");
    assert_eq!(told.loaded_ns, about().loaded_ns, "nothing else changed");
}

#[test]
fn the_last_pauses_are_remembered_in_order() {
    let page = blank();
    let (mut writer, _) = Writer::new(Words::of(&page), &about());
    for n in 1..=100 {
        let (pause, totals) = woven(n);
        writer.ended(&pause, &totals);
    }
    let view = View::new(Words::of(&page)).unwrap();
    assert_eq!(view.totals(), Some(woven(100).1));
    let numbers = |seen| {
        view.pauses_after(seen)
            .map(|p| p.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(97), [98, 99, 100]);
    assert_eq!(numbers(0), (69..=100).collect::<Vec<_>>());
    assert!(numbers(100).is_empty() && numbers(u64::MAX).is_empty());
    assert_eq!(view.pause(80), Some(woven(80).0));
    assert_eq!(
        (view.pause(68), view.pause(101), view.pause(0)),
        (None, None, None)
    );
}

#[test]
fn a_wish_ends_with_its_adapter() {
    let page = blank();
    let words = Words::of(&page);
    let (writer, _) = Writer::new(words, &about());
    assert_eq!(writer.wish(Nanos(5)), None, "no adapter was there");
    wish(words, Some(Wish::stay(Bytes::mib(1))), Nanos(1000));
    let wished = Some(Wish::stay(Bytes::mib(1)));
    assert_eq!(writer.wish(Nanos(1000)), wished);
    assert_eq!(
        writer.wish(Nanos::ZERO),
        wished,
        "another clock is no reason"
    );
    assert_eq!(writer.wish(Nanos(1000) + WISH_LASTS), wished);
    assert_eq!(writer.wish(Nanos(1001) + WISH_LASTS), None);
    wish(words, Some(Wish::stay(Bytes::ZERO)), Nanos::ZERO);
    assert_eq!(writer.wish(Nanos::ZERO), Some(Wish::stay(Bytes::ZERO)));
    wish(words, None, Nanos(2000));
    assert_eq!(writer.wish(Nanos(2000)), None);
}

#[test]
fn a_writer_that_died_half_way_is_waited_for_no_longer_than_bounded() {
    let page = blank();
    let (mut writer, _) = Writer::new(Words::of(&page), &about());
    let (pause, totals) = woven(1);
    writer.ended(&pause, &totals);
    page[offset::SEQUENCE / 8].store(3, Ordering::Relaxed);
    let view = View::new(Words::of(&page)).unwrap();
    assert_eq!(
        (view.totals(), view.pause(1), view.refusal()),
        (None, None, None)
    );
    writer.ended(&pause, &totals);
    assert_eq!(view.totals(), Some(totals), "its successor mends it");
}

#[test]
fn foreign_pages_are_named_and_their_texts_are_harmless() {
    let page = blank();
    let words = Words::of(&page);
    let text = format!("{}\u{e9}", "x".repeat(MAX_TEXT - 1));
    let about = About {
        signal_text: text,
        ..about()
    };
    Writer::new(words, &about);
    let cut = View::new(words).unwrap().about().signal_text;
    assert_eq!(cut, "x".repeat(MAX_TEXT - 1), "cut between characters");
    page[offset::SIGNAL_TEXT / 8 + 1]
        .store(u64::from_ne_bytes(*b"\x1b[2J\xff\n\0x"), Ordering::Relaxed);
    page[offset::SIGNAL_TEXT / 8].store(u64::MAX, Ordering::Relaxed);
    let harmless = View::new(words).unwrap().about().signal_text;
    assert!(
        harmless.starts_with("\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}x"),
        "{harmless:?}"
    );
    page[1].store(4 | 4096 << 32, Ordering::Relaxed);
    assert_eq!(View::new(words).err(), Some(ViewError::Version(4)));
    page[1].store(3 | 8192 << 32, Ordering::Relaxed);
    assert_eq!(View::new(words).err(), Some(ViewError::Size(8192)));
}

#[test]
fn readers_never_see_a_torn_set() {
    const COUNT: u64 = 200_000;
    let page = blank();
    let words = Words::of(&page);
    let (mut writer, mut process_writer) = Writer::new(words, &about());
    let (done, reading) = (AtomicBool::new(false), AtomicU64::new(0));
    let look = || {
        let view = View::new(words).unwrap();
        let Some(totals) = view.totals() else {
            return 0;
        };
        assert_eq!(totals, woven(totals.pauses).1, "torn sums");
        for pause in view.pauses_after(totals.pauses.saturating_sub(3)) {
            assert_eq!(pause, woven(pause.number).0, "a torn pause");
        }
        if let Some(read) = view.process() {
            assert_eq!(read, process(read.at_ns), "a torn reading");
        }
        totals.pauses
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut last, mut looks) = (0, 0);
                while !done.load(Ordering::Acquire) {
                    let n = look();
                    assert!(n >= last || n == 0, "numbers never go back");
                    reading.fetch_add(u64::from(looks == 0 && n > 0), Ordering::Relaxed);
                    looks += u64::from(n > 0);
                    last = last.max(n);
                }
            });
        }
        scope.spawn(|| {
            for n in 1..=COUNT {
                process_writer.read(&process(n));
            }
        });
        for n in 1..=COUNT {
            let (pause, totals) = woven(n);
            writer.ended(&pause, &totals);
        }
        // A reader that was not scheduled yet sees at least the last set.
        let end = Instant::now() + Duration::from_secs(60);
        while reading.load(Ordering::Relaxed) < 2 && Instant::now() < end {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(look(), COUNT);
    assert_eq!(reading.into_inner(), 2, "not all readers saw something");
}

/// A step of the model: what a side does.
#[derive(Clone, Debug)]
enum Step {
    Pause(Pause),
    Read(Process),
    Refuse(String),
    Wish(Option<Wish>),
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let above = (0..u64::MAX).prop_map(Bytes);
    let bound = (above, any::<u64>()).prop_map(|(above, times)| Bound { above, times });
    let parts = (any::<u64>().prop_map(Bytes), prop::option::of(bound));
    parts.prop_map(|(resident, bound)| Wish { resident, bound })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = any::<[u64; 6]>().prop_map(|[kind, start_ns, end_ns, stalls, stall_ns, faults]| {
        Step::Pause(Pause {
            number: 0,
            kind: Kind::from_number(kind % 4),
            start_ns,
            end_ns,
            stalls,
            stall_ns,
            major_faults: faults,
            given_back: stalls ^ faults,
        })
    });
    let read = any::<[u64; 4]>().prop_map(|[at_ns, stalls, stall_ns, major_faults]| {
        Step::Read(Process {
            at_ns,
            stalls,
            stall_ns,
            major_faults,
        })
    });
    let step = prop_oneof![
        4 => pause,
        2 => read,
        1 => "[ -~]{0,300}".prop_map(Step::Refuse),
        1 => prop::option::of(any_wish()).prop_map(Step::Wish),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    /// After any steps, both sides see what a plain model of the page holds.
    #[test]
    fn both_sides_agree_with_a_model(steps in steps(), collector in 0u64..8, signal in 0u64..6) {
        let page = blank();
        let words = Words::of(&page);
        let about = About {
            collector: Collector::from_number(collector),
            signal: Signal::from_number(signal),
            ..about()
        };
        let (mut writer, mut process_writer) = Writer::new(words, &about);
        let view = View::new(words).unwrap();
        let mut pauses: Vec<Pause> = Vec::new();
        let (mut last, mut refusal, mut wished) = (None, String::new(), None);
        let mut totals = Totals::default();
        for step in steps {
            match step {
                Step::Pause(pause) => {
                    let pause = Pause { number: pauses.len() as u64 + 1, ..pause };
                    totals.pauses = pause.number;
                    totals.stalls = totals.stalls.wrapping_add(pause.stalls);
                    writer.ended(&pause, &totals);
                    pauses.push(pause);
                }
                Step::Read(read) => {
                    process_writer.read(&read);
                    last = Some(read);
                }
                Step::Refuse(why) => {
                    writer.refuse(&why);
                    refusal = why.chars().take(MAX_TEXT).collect();
                }
                Step::Wish(next) => {
                    wished = next;
                    wish(words, wished, Nanos(77));
                }
            }
            prop_assert_eq!(view.process(), last);
            prop_assert_eq!(view.refusal().unwrap_or_default(), refusal.as_str());
            prop_assert_eq!(writer.wish(Nanos(77)), wished);
            let remembered = pauses.len().saturating_sub(PAUSES as usize);
            let seen: Vec<Pause> = view.pauses_after(0).collect();
            prop_assert_eq!(&seen[..], &pauses[remembered..]);
            if !pauses.is_empty() {
                prop_assert_eq!(view.totals(), Some(totals));
            }
        }
        prop_assert_eq!(view.about(), about);
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..SIZE),
        is_page in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if is_page && bytes.len() > 16 {
            bytes[..8].copy_from_slice(b"PLIMSGCS");
            bytes[8..16].copy_from_slice(&(1u64 | 4096 << 32).to_le_bytes());
        }
        plimsoll_wire::fuzz::fuzz_collections(&bytes);
    }
}
