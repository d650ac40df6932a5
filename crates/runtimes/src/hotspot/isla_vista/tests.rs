use super::*;
use plimsoll_kernel::stalls::Stalled;
use plimsoll_unit::{MIB, Nanos};

/// A moment 100 ms after the last one; `stalled_ms` of that time were spent in stalls.
fn moment(collections: u64, heap: u64, stalled_ms: u64) -> Moment {
    Moment {
        collections,
        heap: Bytes::mib(heap),
        used: Bytes::mib(100),
        whole: collections,
        most: Bytes::mib(1000),
        reach: Bytes::mib(1000),
        span: span(100, stalled_ms),
        keeps: true,
        ..Moment::default()
    }
}

fn span(ms: u64, stalled_ms: u64) -> Span {
    let stalled = Stalled {
        count: stalled_ms,
        time: Nanos::millis(stalled_ms),
    };
    Span {
        stalled,
        in_pauses: None,
        length: Nanos::millis(ms),
    }
}

#[test]
fn what_is_free_bounds_a_heap_until_a_collection_stalls_and_after_the_spike() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(3, 400, 0));
    assert!(!feedback.is_stalled());
    assert_eq!(feedback.size(), Bytes::mib(1000));
    assert_eq!(feedback.look(&moment(4, 500, 90)), Some(Turn::Begun));
    let size = feedback.size();
    assert_eq!(size, Bytes::mib(300), "half of what is not live is lost");
    assert_eq!(feedback.look(&moment(4, 500, 0)), None, "no collection");
    assert_eq!(feedback.size(), size);
    assert_eq!(feedback.look(&moment(5, 200, 0)), None);
    assert_eq!(feedback.size(), size, "the limit was not filled");
    let mut collections = 5;
    let over = (0..400).find(|_| {
        collections += 1;
        let heap = feedback.size() / MIB;
        feedback.look(&moment(collections, heap.0, 0)) == Some(Turn::Over)
    });
    assert!(over.is_some() && !feedback.is_stalled());
    feedback.look(&Moment {
        reach: Bytes::mib(700),
        ..moment(collections, 600, 0)
    });
    assert_eq!(feedback.size(), Bytes::mib(700));
}

/// Others take and return a little all the time, and each new limit would be waited for.
#[test]
fn a_bound_by_what_is_free_stays_until_that_changes_by_a_sixteenth() {
    let mut feedback = Feedback::default();
    let mut size = |reach: u64| {
        feedback.look(&Moment {
            reach: Bytes::mib(reach),
            ..moment(1, 100, 0)
        });
        feedback.size().0 / MIB
    };
    assert_eq!([320, 301, 340, 299].map(&mut size), [320, 320, 320, 299]);
    assert_eq!(
        [5000, 1000, 0].map(&mut size),
        [1000, 1000, 32],
        "at most the maximum"
    );
}

/// Where the limit of the group, or what the policy says, is less than what lives.
#[test]
fn a_limit_is_between_what_lives_and_twice_that_where_all_stalls() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(0, 110, 0));
    for collections in 1..50 {
        feedback.look(&moment(collections, 110, 60));
    }
    let size = feedback.size();
    assert!(
        (Bytes::mib(100)..=Bytes::mib(200)).contains(&size),
        "{size}"
    );
}

/// The sizes after a collection in each of these spans, of `ms` and with `stalled_ms` of stalls.
fn sizes(spans: &[(u64, u64)], pieces: u64) -> Vec<u64> {
    let mut feedback = Feedback::default();
    feedback.look(&Moment {
        span: Span::default(),
        ..moment(0, 500, 0)
    });
    let mut sizes = Vec::new();
    for (collections, (ms, stalled_ms)) in (1..).zip(spans) {
        let heap = if feedback.is_stalled() {
            feedback.size().0 / MIB
        } else {
            500
        };
        let piece = span(ms / pieces, stalled_ms / pieces);
        for part in 1..=pieces {
            // The collection ends with the last piece.
            let ended = collections - u64::from(part < pieces);
            feedback.look(&Moment {
                span: piece,
                ..moment(ended, heap, 0)
            });
        }
        sizes.push(feedback.size().0);
    }
    sizes
}

/// The agent tells once a pause, the kernel whenever it is asked.
#[test]
fn what_counts_is_the_part_of_the_time_in_stalls_whoever_tells() {
    let spans = [
        (400, 0),
        (4000, 400),
        (400, 16),
        (800, 0),
        (4000, 4),
        (400, 96),
    ];
    let once = sizes(&spans, 1);
    assert_eq!(once, sizes(&spans, 4), "in one piece or in four");
    let longer = spans.map(|(ms, stalled_ms)| (8 * ms, 8 * stalled_ms));
    assert_eq!(once, sizes(&longer, 1), "only the part matters");
    let (calm, begun) = (once[0], once[1]);
    assert!(calm == 1000 * MIB && begun < 500 * MIB, "{once:?}");
    assert!(once[2] < begun, "16 of 400 ms is more than 1/32: {once:?}");
    assert!(once[4] > once[3], "1 of 1000 ms is nothing: {once:?}");
    assert!(once[5] < once[4], "{once:?}");
}

#[test]
fn stalls_that_took_hardly_any_time_are_not_told_of() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(1, 500, 0));
    for (collections, stalled_ms, felt) in [(2, 1, 0), (3, 2, 2), (3, 50, 2), (4, 1, 53)] {
        feedback.look(&moment(collections, 500, stalled_ms));
        assert_eq!(feedback.within(), felt, "{collections}, {stalled_ms}");
    }
}

/// The broker takes memory from who is above its limit, which makes it stall.
#[test]
fn stalls_count_if_the_limit_was_kept_to_from_collection_to_collection() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(1, 500, 0));
    let mut after = |collections, keeps| {
        feedback.look(&Moment {
            keeps,
            ..moment(collections, 500, 50)
        });
        feedback.within()
    };
    assert_eq!(after(2, true), 0, "nobody knows when it began");
    assert_eq!(after(3, true), 50);
    after(3, false);
    assert_eq!(after(4, true), 50, "it was above its limit in between");
    assert_eq!(after(5, true), 100);
    assert_eq!(after(6, false), 100, "it is above its limit");
    assert_eq!(after(7, true), 100, "it gave memory back");
    assert_eq!(after(8, true), 150);
}

/// So many milliseconds of a second were spent in stalls, within pauses and in all.
#[test]
fn stalls_in_pauses_count_whole_unless_they_took_hardly_any_time() {
    let after = |in_pauses_ms: u64, stalled_ms: u64| {
        let mut feedback = Feedback::default();
        feedback.look(&moment(1, 500, 0));
        feedback.look(&moment(2, 500, 90));
        let before = feedback.size();
        feedback.look(&Moment {
            span: Span {
                in_pauses: Some(span(1000, in_pauses_ms).stalled),
                ..span(1000, stalled_ms)
            },
            ..moment(3, before.0 / MIB, 0)
        });
        (before.0 / MIB, feedback.size().0 / MIB)
    };
    assert_eq!(after(20, 20), (300, 200), "half of what is not live");
    assert_eq!(after(20, 20), after(900, 900));
    let by_time = after(0, 60);
    assert!(by_time.1 > 240 && by_time.1 < 300, "{by_time:?}");
    assert_eq!(after(15, 60), by_time, "15 ms are less than a 64th");
}

#[test]
fn the_printed_rule_begins_at_the_first_heap_and_hears_pauses_only() {
    let mut feedback = Feedback::printed();
    let mut after = |collections, heap, in_pauses: u64| {
        feedback.look(&Moment {
            span: Span {
                in_pauses: Some(Stalled {
                    count: in_pauses,
                    time: Nanos(in_pauses),
                }),
                ..span(100, 90)
            },
            ..moment(collections, heap, 0)
        });
        feedback.size().0 / MIB
    };
    assert_eq!(after(1, 100, 0), 100, "not what is free");
    assert_eq!(after(2, 100, 0), 118, "a fiftieth of what it may grow by");
    assert_eq!(after(3, 118, 0), 136);
    assert_eq!(after(4, 136, 1), 100, "a single stall of a nanosecond");
}

#[test]
fn more_stalls_than_time_count_as_all_of_it() {
    // Eight threads that wait all the time.
    let sizes = [1, 8].map(|threads| sizes(&[(400, 400 * threads)], 1));
    assert_eq!(sizes[0], sizes[1]);
    assert!(sizes[0][0] < 500 * MIB);
}

#[test]
fn a_collection_whose_stalls_are_not_told_yet_is_looked_at_with_the_next() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(1, 500, 0));
    feedback.look(&moment(2, 500, 0));
    let early = Moment {
        span: Span::default(),
        ..moment(3, 500, 0)
    };
    assert_eq!(feedback.look(&early), None);
    assert_eq!(feedback.look(&moment(3, 500, 90)), Some(Turn::Begun));
}

/// The size after a stall that mattered, and many collections of a heap that stays small.
fn size_of_small_heap(stalled_ms: u64, close: impl Fn(u64) -> bool) -> u64 {
    let mut feedback = Feedback::default();
    feedback.look(&moment(1, 200, 0));
    feedback.look(&moment(2, 200, 90));
    for collections in 3..400 {
        let size = feedback.size() / MIB;
        feedback.look(&Moment {
            close: close(size.0),
            ..moment(collections, 120, stalled_ms)
        });
    }
    (feedback.size() / MIB).0
}

#[test]
fn a_limit_that_is_not_filled_stays_however_little_stalls() {
    assert_eq!(size_of_small_heap(0, |_| false), 150);
    assert_eq!(size_of_small_heap(1, |_| false), 150, "1 of 100 ms");
    assert_eq!(size_of_small_heap(2, |_| false), 150, "2 of 100 ms");
}

/// A heap is not enlarged by a few megabytes.
#[test]
fn a_limit_grows_until_it_is_worth_while_to_enlarge_the_heap() {
    let size = size_of_small_heap(0, |size| size < 180);
    assert!((180..220).contains(&size), "{size}");
}

#[test]
fn counters_that_go_backwards_begin_anew() {
    let mut feedback = Feedback::default();
    feedback.look(&moment(u64::MAX, 500, 0));
    assert_eq!(feedback.look(&moment(7, 500, 90)), None, "none has ended");
    assert_eq!(feedback.look(&moment(8, 500, 90)), Some(Turn::Begun));
    let wild = Moment {
        heap: Bytes::ZERO,
        used: Bytes::MAX,
        whole: 0,
        most: Bytes(1),
        span: Span {
            stalled: Stalled {
                count: u64::MAX,
                time: Nanos(u64::MAX),
            },
            in_pauses: None,
            length: Nanos(u64::MAX),
        },
        ..moment(9, 0, 0)
    };
    for _ in 0..3 {
        feedback.look(&wild);
    }
    assert!(feedback.size() >= LEAST);
}

#[test]
fn few_faults_tell_nothing() {
    let few = |faults| {
        let mut feedback = Feedback::default();
        feedback.look(&moment(1, 500, 0));
        let stalled = Stalled {
            count: faults,
            time: Nanos::ZERO,
        };
        feedback.look(&Moment {
            few: 10,
            span: Span {
                stalled,
                length: Nanos::millis(100),
                ..Span::default()
            },
            ..moment(2, 500, 0)
        })
    };
    assert_eq!((few(9), few(10)), (None, Some(Turn::Begun)));
}
