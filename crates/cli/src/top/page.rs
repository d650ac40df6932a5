//! The page of one principal: what its collector tells of itself, and which of its pages are read
//! again after they were reclaimed.

use crate::explain::explain;
use crate::rows::shown;
use crate::size::Human;
use crate::terminal_text::wrap;
use plimsoll_wire::messages::{Listing, Order, Principal, Refaults};

/// Columns of the names of values.
const NAMES: usize = 12;
/// Columns of a line of sentences.
const SENTENCE: usize = 78;

/// The heading with the principal, `width` columns wide.
pub(super) fn head(principal: &Principal, width: usize) -> String {
    let process = principal
        .pid
        .map_or_else(String::new, |pid| format!("  process {pid}"));
    let steered = principal.adapter.as_deref().unwrap_or("passive");
    let rest = format!("{process}  {}", shown(steered, 16));
    let room = width.saturating_sub(rest.chars().count() + 1);
    let line = format!(" {}{rest}", shown(&principal.name, room));
    format!("{line:<width$}")
}

/// Its memory, the reason of its limit, and the values of the collector and of the refaults. Unknown values
/// are left out.
pub(super) fn lines(principal: &Principal, listing: &Listing) -> Vec<String> {
    let mut lines = share_lines(principal);
    lines.push(String::new());
    if let Some(explained) = explain(listing, principal.id) {
        // The first sentence says the numbers above.
        let mut text = String::new();
        for sentence in explained.sentences.iter().skip(1) {
            wrap(&mut text, " ", sentence, 1, SENTENCE);
        }
        lines.extend(text.lines().map(str::to_owned));
        lines.push(String::new());
    }
    lines.extend(collector_lines(principal));
    if let Some(order) = principal.collector.and_then(|told| told.order) {
        lines.push(order_line(order));
    }
    if let Some(rate) = principal.stall_rate {
        let told = "a second: it waited for memory within the limit";
        lines.push(line("STALLS", rate.to_string(), told));
    }
    if principal.doubted {
        let told = "at what it has: such stalls say that more is not there";
        lines.push(line("HELD", Human(principal.limit).to_string(), told));
    }
    if let Some(refaults) = &principal.refaults {
        lines.push(String::new());
        lines.extend(refault_lines(refaults));
    }
    lines
}

fn line(name: &str, value: String, what: &str) -> String {
    format!(" {name:<NAMES$}{value:>10}  {what}")
        .trim_end()
        .to_owned()
}

/// In what order the program's threads run.
fn order_line(order: Order) -> String {
    let (value, what) = match order {
        Order::Larf => (
            "larf",
            "of its threads: the one that allocates least is first",
        ),
        Order::Mqrr => ("mqrr", "of its threads: in turn, by bytes allocated"),
        Order::Nothing => ("nothing", "to order yet: no thread waited for a processor"),
        Order::Withdrawn => ("withdrawn", "of its threads: it got less done with one"),
        Order::Unknown => ("unknown", "of its threads: a newer one"),
    };
    line("ORDER", value.to_owned(), what)
}

/// Lines about pages that were reclaimed and read again.
fn refault_lines(refaults: &Refaults) -> Vec<String> {
    let rate = |pages: u64| format!("{}/s", count(pages));
    let cost = |ns: Option<u64>| match ns {
        None => String::new(),
        Some(ns) => format!(", {} each", pause(ns.div_ceil(1000))),
    };
    let mut lines = vec![
        line(
            "FILES AGAIN",
            rate(refaults.file),
            &format!("file pages read again{}", cost(refaults.file_ns)),
        ),
        line(
            "SWAP AGAIN",
            rate(refaults.anon),
            &format!("pages read back from swap{}", cost(refaults.anon_ns)),
        ),
    ];
    if let Some(swappiness) = refaults.swappiness {
        lines.push(line(
            "SWAPPINESS",
            count(swappiness.into()),
            "0 takes file pages only, 200 anonymous ones only",
        ));
    }
    lines
}

fn collector_lines(principal: &Principal) -> Vec<String> {
    if principal.collections.is_none() && principal.collector.is_none() {
        return vec![
            " Nothing is known of a collector here. Adapters tell of it, and our libgc.so.1;"
                .into(),
            " `plimsoll run PROGRAM` puts them in place.".into(),
        ];
    }
    let told = principal.collector.unwrap_or_default();
    let bytes = |value: u64| Human(value).to_string();
    let since = "since its start";
    // A runtime tells some of these. The others are not shown.
    [
        ("COLLECTIONS", principal.collections.map(count), since),
        (
            "TIME",
            principal.collection_ms.map(milliseconds),
            "spent in them",
        ),
        (
            "LAST PAUSE",
            told.last_pause_us.map(pause),
            "the program stood still for the last one",
        ),
        (
            "LONGEST",
            told.longest_pause_us.map(pause),
            "and for the longest",
        ),
        (
            "FAULTS",
            told.faults.map(count),
            "major faults in collections: what they read from swap",
        ),
        (
            "HEAP",
            told.heap.map(bytes),
            "live or free, without what was given back",
        ),
        (
            "LIVE",
            principal.live.map(bytes),
            "after the last collection",
        ),
        (
            "EVICTED",
            told.absent.map(count),
            "superpages of the heap in swap, wholly or partly",
        ),
        (
            "SUMMARIES",
            told.summaries.map(count),
            "of these are passed over: their references are known",
        ),
        (
            "RETAINED",
            told.retained.map(bytes),
            "may be dead, and is kept by summaries",
        ),
    ]
    .into_iter()
    .filter_map(|(name, value, what)| Some(line(name, value?, what)))
    .collect()
}

/// Lines about the memory that the broker gives it, and the memory that it takes.
fn share_lines(principal: &Principal) -> Vec<String> {
    let bytes = |value: u64| Human(value).to_string();
    let max = principal
        .max
        .map(|max| line("MAX", bytes(max), "its user allows it no more"));
    let swapped = (principal.swapped > 0)
        .then(|| line("SWAPPED", bytes(principal.swapped), "of it is in swap"));
    [
        Some(line("USES", bytes(principal.uses), "accounted to it")),
        swapped,
        Some(line("LIMIT", bytes(principal.limit), "it may use now")),
        Some(line(
            "SHARE",
            bytes(principal.share),
            "it is sure to get if it wants it",
        )),
        max,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn count(value: u64) -> String {
    match value {
        0..=9_999_999 => value.to_string(),
        _ => format!("{:.3e}", value as f64),
    }
}

fn milliseconds(ms: u64) -> String {
    match ms {
        0..=99_999 => format!("{ms} ms"),
        _ => format!("{} s", count(ms / 1000)),
    }
}

/// Microseconds, as milliseconds.
fn pause(us: u64) -> String {
    match us {
        0..=99_999 => format!("{:.2} ms", us as f64 / 1000.0),
        _ => milliseconds(us / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::messages::Statistics;

    fn principal(collector: Statistics) -> Principal {
        Principal {
            id: 3,
            name: "report".into(),
            pid: Some(7641),
            adapter: Some("libgc".into()),
            live: Some(98 << 20),
            collections: Some(20),
            collection_ms: Some(112),
            collector: Some(collector),
            ..Principal::default()
        }
    }

    fn shown_of(principal: &Principal) -> Vec<String> {
        lines(principal, &Listing::default())
    }

    #[test]
    fn says_why_its_limit_is_as_it_is() {
        let principal = Principal {
            limit: 300 << 20,
            ..principal(Statistics::default())
        };
        let listing = Listing {
            principals: vec![principal.clone()],
            ..Listing::default()
        };
        let sentences = explain(&listing, principal.id)
            .expect("it is there")
            .sentences;
        let page = lines(&principal, &listing).join(" ");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&page).contains(&words(&sentences[1])), "{page}");
    }

    #[test]
    fn tells_all_that_is_known() {
        let report = principal(Statistics {
            heap: Some(112 << 20),
            last_pause_us: Some(4_210),
            longest_pause_us: Some(1_250_000),
            faults: Some(17),
            absent: Some(1024),
            summaries: Some(1000),
            retained: Some(3 << 19),
            order: None,
        });
        let expected = "
 COLLECTIONS         20  since its start
 TIME            112 ms  spent in them
 LAST PAUSE     4.21 ms  the program stood still for the last one
 LONGEST        1250 ms  and for the longest
 FAULTS              17  major faults in collections: what they read from swap
 HEAP              112M  live or free, without what was given back
 LIVE             98.0M  after the last collection
 EVICTED           1024  superpages of the heap in swap, wholly or partly
 SUMMARIES         1000  of these are passed over: their references are known
 RETAINED         1.50M  may be dead, and is kept by summaries";
        assert_eq!(collector_lines(&report).join("\n"), expected[1..]);
        assert_eq!(
            head(&report, 40),
            format!("{:<40}", " report  process 7641  libgc")
        );
    }

    #[test]
    fn tells_of_stalls_where_they_are_counted_and_that_they_hold_the_limit() {
        let stalls = |stall_rate| {
            let told = shown_of(&Principal {
                stall_rate,
                ..principal(Statistics::default())
            });
            told.into_iter().find(|line| line.starts_with(" STALLS"))
        };
        assert_eq!(stalls(None), None);
        let told = " STALLS              12  a second: it waited for memory within the limit";
        assert_eq!(stalls(Some(12)).as_deref(), Some(told));
        let held = |doubted| {
            let told = shown_of(&Principal {
                doubted,
                ..principal(Statistics::default())
            });
            told.into_iter().find(|line| line.starts_with(" HELD"))
        };
        assert_eq!(held(false), None);
        let told =
            " HELD                 0  at what it has: such stalls say that more is not there";
        assert_eq!(held(true).as_deref(), Some(told));
    }

    #[test]
    fn tells_the_order_of_threads_where_there_is_one() {
        let told = |order| {
            let lines = shown_of(&principal(Statistics {
                order,
                ..Statistics::default()
            }));
            lines.into_iter().find(|line| line.starts_with(" ORDER"))
        };
        assert_eq!(told(None), None);
        let larf = " ORDER             larf  of its threads: the one that allocates least is first";
        assert_eq!(told(Some(Order::Larf)).as_deref(), Some(larf));
        let off = " ORDER        withdrawn  of its threads: it got less done with one";
        assert_eq!(told(Some(Order::Withdrawn)).as_deref(), Some(off));
    }

    #[test]
    fn tells_what_is_read_again() {
        let refaults = Refaults {
            file: 853,
            anon: 0,
            file_ns: Some(61_200),
            anon_ns: None,
            swappiness: Some(140),
        };
        let expected = "
 FILES AGAIN      853/s  file pages read again, 0.06 ms each
 SWAP AGAIN         0/s  pages read back from swap
 SWAPPINESS         140  0 takes file pages only, 200 anonymous ones only";
        assert_eq!(refault_lines(&refaults).join("\n"), expected[1..]);
        let principal = Principal {
            refaults: Some(refaults),
            ..Principal::default()
        };
        assert!(shown_of(&principal).join("\n").ends_with(expected));
    }

    #[test]
    fn tells_what_is_not_known_and_where_it_would_come_from() {
        let passive = collector_lines(&Principal::default());
        assert!(passive[0].contains("Nothing is known") && passive[1].contains("plimsoll run"));
    }

    #[test]
    fn what_a_runtime_does_not_tell_is_not_shown() {
        let mut java = principal(Statistics::default());
        java.adapter = Some("hotspot".into());
        java.collector = None;
        (java.uses, java.limit, java.share) = (300 << 20, 512 << 20, 400 << 20);
        java.max = Some(1 << 30);
        let expected = "
 USES              300M  accounted to it
 LIMIT             512M  it may use now
 SHARE             400M  it is sure to get if it wants it
 MAX              1.00G  its user allows it no more

 COLLECTIONS         20  since its start
 TIME            112 ms  spent in them
 LIVE             98.0M  after the last collection";
        assert_eq!(shown_of(&java).join("\n"), expected[1..]);
    }

    #[test]
    fn absurd_numbers_fit_into_eighty_columns() {
        let most = Some(u64::MAX);
        let mut absurd = principal(Statistics {
            heap: most,
            last_pause_us: most,
            longest_pause_us: most,
            faults: most,
            absent: most,
            summaries: most,
            retained: most,
            order: Some(Order::Withdrawn),
        });
        absurd.name = "x".repeat(64);
        absurd.adapter = Some("\x1b[2J".repeat(20));
        (absurd.live, absurd.collections, absurd.collection_ms) = (most, most, most);
        absurd.refaults = Some(Refaults {
            file: u64::MAX,
            anon: u64::MAX,
            file_ns: most,
            anon_ns: most,
            swappiness: Some(u32::MAX),
        });
        let all = shown_of(&absurd).into_iter().chain([head(&absurd, 80)]);
        for line in all.chain(shown_of(&Principal::default())) {
            assert!(
                line.chars().count() <= 80 && !line.contains('\x1b'),
                "{line}"
            );
        }
        for width in [0, 1, 5, 20] {
            head(&absurd, width);
        }
    }
}
