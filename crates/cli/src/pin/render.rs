//! The output of `plimsoll pin`.
//!
//! # The JSON contract
//! A line whenever what is held changes: the fields of [`Report`], `ranges`, a list of [`Held`], `left_out`,
//! how many ranges are not in it, and `passed`, a list of [`Passed`]. Sizes are bytes.

use crate::progress::Line;
use crate::rows::shown;
use crate::size::Human;
use plimsoll_kernel::process::page_size;
use plimsoll_pin::allowance::Bound;
use plimsoll_pin::report::{Group, Held, MORE_LOCKS, Passed, State};
use plimsoll_pin::{Pinner, Report};
use plimsoll_wire::checks::is_printable;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The most ranges in one line of JSON.
pub(super) const MAX_RANGES: usize = 4096;

/// Ranges, or files, that are listed for people.
const MAX_LINES: usize = 40;
/// Groups that are named in which nothing may be held.
const MAX_GROUPS: usize = 8;
/// Columns of a terminal.
const WIDTH: usize = 80;

/// One line of JSON.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    report: Report,
    ranges: Vec<Held>,
    left_out: usize,
    passed: Vec<Passed>,
}

impl Document {
    pub(super) fn of(report: &Report, pinner: &Pinner, max: usize) -> Document {
        let mut ranges = pinner.held(usize::MAX);
        let left_out = ranges.len().saturating_sub(max);
        ranges.truncate(max);
        Document {
            report: report.clone(),
            ranges,
            left_out,
            passed: pinner.passed(),
        }
    }
}

/// Text of others, safe to print.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_printable(c) { c } else { '?' })
        .collect()
}

/// The things that are passed over, without the limits, which are told by themselves.
pub(super) fn not_limits<'a>(
    passed: &'a [Passed],
    report: &Report,
) -> impl Iterator<Item = &'a Passed> {
    let is_limit = |passed: &Passed| report.limits.iter().any(|of| of.reason == passed.reason);
    passed.iter().filter(move |passed| !is_limit(passed))
}

/// Why nothing may be held.
pub(super) fn refusal(report: &Report) -> String {
    let group = report.bounded(Bound::NoSwap);
    let place = match (report.bound, group) {
        (Some(Bound::NoSwap), _) | (_, None) => "here".to_owned(),
        (_, Some(group)) => format!("in {}", clean(&group.path)),
    };
    format!(
        "nothing is pinned: no memory {place} can go to swap (no swap space, none left, or swappiness \
         0). Pinned files would turn a shortage, in which programs read files again, into one in \
         which the kernel kills a program. Add swap or zram, or give --without-swap"
    )
}

/// Why nothing may ever be held of the programs, where it cannot be known whether memory is short in their
/// groups.
pub(super) fn unreadable(report: &Report) -> Option<String> {
    let barred = report.state == State::Short && report.allowance > 0;
    // A group that is short of memory may have more later.
    let for_good = |group: &Group| matches!(group.bound, Bound::Unreadable | Bound::NoSwap);
    let group = report.bounded(Bound::Unreadable)?;
    let ends = barred && report.groups.iter().all(for_good);
    ends.then(|| format!("nothing is pinned: {}", clean(&group.not_read())))
}

/// From this part of the faults on, what is held saves nothing that a program would notice.
const MOST_ELSEWHERE: f64 = 0.99;
/// From this many major faults a second on, it is worth a word of what they are.
const MANY_FAULTS: f64 = 1.0;

/// That the programs wait for what is not held, where they do.
pub(super) fn elsewhere(report: &Report) -> Option<String> {
    let part = report.other_faults.filter(|part| *part >= MOST_ELSEWHERE)?;
    let faults = report.major_faults_per_second;
    (faults >= MANY_FAULTS).then(|| {
        // Not more than is known: 100 % would be all of them.
        let percent = (part * 1000.0).floor() / 10.0;
        format!(
            "{percent:.1} % of the {} major faults a second are not of file pages that were lost, but of \
             memory in swap (or of files that are read for the first time), which pin cannot help: give the \
             programs more memory, or make their heaps smaller",
            number(faults)
        )
    })
}

/// The last words: what was held, or why nothing was.
pub(super) fn end(report: &Report, most: u64, had_decided: bool) -> String {
    let why = match (most, report.state) {
        (1.., _) => return format!("at most {} were held", Human(most)),
        _ if report.budget < page_size() => "the budget is less than a page".into(),
        (0, State::Refused | State::Short) => clean(&report.barred()),
        _ if !had_decided => "it ended before the first choice (--window)".into(),
        _ => elsewhere(report).unwrap_or_else(|| {
            if report.refaults_per_second < 0.01 {
                "no file page was lost and read again".into()
            } else {
                "what was lost and read again had no value yet".into()
            }
        }),
    };
    format!("nothing was held: {why}")
}

/// The reasons why less is held than was asked for, as known from the start.
pub(super) fn limited(report: &Report) -> Vec<String> {
    let (allowed, budget) = (Human(report.allowance), Human(report.budget));
    let own = match report.bound {
        _ if report.budget < page_size() => Some(format!(
            "nothing can be held: the budget of {budget} is less than a page"
        )),
        Some(Bound::LockLimit) => Some(format!(
            "this user may lock {allowed} in all, less than the budget of {budget}: raise it with \
             {MORE_LOCKS}"
        )),
        Some(Bound::Short) => Some(format!(
            "memory is short: {allowed} of the budget of {budget} may be held now"
        )),
        Some(Bound::Budget | Bound::NoSwap | Bound::Unwatched | Bound::Unreadable) | None => None,
    };
    let mut groups: Vec<String> = report.groups.iter().filter_map(barred_group).collect();
    let more = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    let more = (more > 0).then(|| format!("nor in {more} more groups; --json lists them"));
    own.into_iter().chain(groups).chain(more).collect()
}

/// Why nothing may be held in a group, but for a shortage, which may end.
fn barred_group(group: &Group) -> Option<String> {
    let why = match group.bound {
        Bound::Unreadable => group.not_read(),
        Bound::NoSwap => group.not_swapped(),
        // That there are more groups than are watched is told as a limit.
        Bound::Budget | Bound::Short | Bound::LockLimit | Bound::Unwatched => return None,
    };
    Some(format!("nothing is held there: {}", clean(&why)))
}

/// The memory that is held now, for people.
pub(super) fn text(report: &Report, pinner: &Pinner, explain: bool) -> String {
    let ranges = pinner.held(usize::MAX);
    let mut text = head(report, &ranges);
    if !ranges.is_empty() {
        text.push_str(&if explain {
            by_range(&ranges)
        } else {
            by_file(&ranges)
        });
    }
    if explain {
        for reached in &report.limits {
            let _ = writeln!(text, "  limit: {}", clean(&reached.reason));
        }
        for passed in not_limits(&pinner.passed(), report) {
            let _ = writeln!(text, "  passed over: {}", clean(&passed.reason));
        }
    }
    text
}

fn head(report: &Report, ranges: &[Held]) -> String {
    // Where not all refaults are seen, the rest is estimated; it cannot be more than all faults.
    let most = report
        .major_faults_before
        .unwrap_or(0.0)
        .max(report.major_faults_per_second);
    let reads: f64 = ranges.iter().map(|range| range.reads_per_second).sum();
    let reads = reads.min(most);
    let held = Human(report.held);
    match report.state {
        State::Watching if elsewhere(report).is_some() => {
            format!(
                "nothing is held: {}\n",
                elsewhere(report).unwrap_or_default()
            )
        }
        State::Watching if report.refaults_per_second < 0.01 => format!(
            "nothing to hold: {} {} lost no file page and read it again\n",
            report.processes,
            if report.processes == 1 {
                "process"
            } else {
                "processes"
            }
        ),
        State::Watching => "nothing is held: what is lost and read again has no value yet\n".into(),
        State::Refused => refusal(report) + "\n",
        State::Short => format!("nothing is held: {}\n", clean(&report.barred())),
        State::Holding => format!(
            "{held} of at most {}: saves about {} reads a second\n",
            Human(report.allowance),
            number(reads)
        ),
    }
}

/// A rate in at most six characters.
fn number(rate: f64) -> String {
    match rate {
        r if r < 9.95 => format!("{r:.1}"),
        r if r < 99_999.5 => format!("{r:.0}"),
        r if r < 99_999_500.0 => format!("{:.0}k", r / 1e3),
        _ => "many".into(),
    }
}

fn by_file(ranges: &[Held]) -> String {
    let mut files: BTreeMap<(&str, u64), (u64, usize, f64, f64)> = BTreeMap::new();
    for range in ranges {
        let sum = files.entry((&range.path, range.inode)).or_default();
        *sum = (
            sum.0 + range.bytes,
            sum.1 + 1,
            sum.2 + range.reads_per_second,
            sum.3 + range.bytes_per_second,
        );
    }
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by(|a, b| b.1.2.total_cmp(&a.1.2));
    let mut text = format!(
        "{:>6} {:>6} {:>7} {:>8}  FILE\n",
        "HELD", "RANGES", "READS/S", "BYTES/S"
    );
    for ((path, _), (bytes, count, reads, saved)) in files.iter().take(MAX_LINES) {
        let _ = writeln!(
            text,
            "{:>6} {count:>6} {:>7} {:>8}  {}",
            Human(*bytes),
            number(*reads),
            Human(*saved as u64),
            tail(path, WIDTH - 32)
        );
    }
    more(&mut text, files.len(), "files", ranges.len());
    text
}

fn by_range(ranges: &[Held]) -> String {
    let mut text = format!(
        "{:>6} {:>7} {:>8} {:>9} {:>4}  FILE\n",
        "HELD", "READS/S", "FAULTS/S", "OFFSET", "PIDS"
    );
    for range in ranges.iter().take(MAX_LINES) {
        let deleted = if range.deleted { " (deleted)" } else { "" };
        let _ = writeln!(
            text,
            "{:>6} {:>7} {:>8} {:>9x} {:>4}  {}{deleted}",
            Human(range.bytes),
            number(range.reads_per_second),
            number(range.refaults_per_second),
            range.offset,
            range.processes,
            tail(&range.path, WIDTH - 40 - deleted.len())
        );
    }
    more(&mut text, ranges.len(), "ranges", ranges.len());
    text
}

fn more(text: &mut String, count: usize, what: &str, ranges: usize) {
    if count > MAX_LINES {
        let more = count - MAX_LINES;
        let _ = if ranges > MAX_RANGES {
            writeln!(
                text,
                "and {more} more {what}; --json lists the {MAX_RANGES} ranges that save most"
            )
        } else {
            writeln!(text, "and {more} more {what}; --json lists them")
        };
    }
}

/// The end of a path, which says more than its beginning.
fn tail(path: &str, width: usize) -> String {
    let count = path.chars().count();
    if count <= width {
        return shown(path, width);
    }
    let rest: String = path.chars().skip(count + 1 - width).collect();
    format!("~{}", shown(&rest, width))
}

/// Where a window stands, on a terminal.
pub(super) struct Progress {
    line: Line,
    window: Duration,
    started: Instant,
}

impl Progress {
    pub(super) fn new(window: Duration) -> Progress {
        Progress {
            line: Line::on_terminal(false),
            window,
            started: Instant::now(),
        }
    }

    /// Shows where it stands, twice a second.
    pub(super) fn show(&mut self, report: &Report) {
        let left = self.window.saturating_sub(self.started.elapsed()).as_secs();
        let phase = match left {
            0 => format!("{} held", Human(report.held)),
            seconds => format!("{seconds} s to the first choice"),
        };
        self.line.show(|| {
            format!(
                "{phase}: {} processes, {} files, {} refaults/s, {} major faults/s",
                report.processes,
                report.files,
                number(report.refaults_per_second),
                number(report.major_faults_per_second)
            )
        });
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pin::limits::{Limit, Reached};

    fn range(path: &str, offset: u64, bytes: u64, reads: f64) -> Held {
        Held {
            path: path.into(),
            device: "254:0".into(),
            inode: 7,
            offset,
            bytes,
            refaults_per_second: reads * 2.0,
            reads_per_second: reads,
            bytes_per_second: reads * 8192.0,
            read_ns: 150_000,
            processes: 2,
            pids: vec![1, 2],
            deleted: path.ends_with('x'),
        }
    }

    fn sample() -> Vec<Held> {
        vec![
            range("/usr/lib/libjvm.so", 0x1000, 4 << 20, 123.4),
            range(
                &format!("/opt/{}/x", "a\u{9b}".repeat(60)),
                1 << 35,
                4096,
                3.25,
            ),
            range("/usr/lib/libjvm.so", 0x900_0000, 8 << 20, 1.0),
        ]
    }

    #[test]
    fn tables_fit_a_terminal() {
        for text in [by_range(&sample()), by_file(&sample())] {
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line:?}");
                assert!(line.chars().all(is_printable), "{line:?}");
            }
        }
        let files = by_file(&sample());
        assert!(
            files
                .lines()
                .nth(1)
                .is_some_and(|l| l.starts_with(" 12.0M      2     124")),
            "{files}"
        );
        let ranges = by_range(&vec![range("/a", 0, 4096, 1.0); 45]);
        assert!(ranges.ends_with("and 5 more ranges; --json lists them\n"));
        let very_many = vec![range("/a", 0, 4096, 1.0); MAX_RANGES + 1];
        let told = "and 4057 more ranges; --json lists the 4096 ranges that save most\n";
        assert!(by_range(&very_many).ends_with(told));
        assert!(!by_file(&very_many).contains("more"), "it is one file");
    }

    #[test]
    fn a_limit_is_not_told_twice() {
        let passed = |reason: &str| Passed {
            pid: None,
            reason: reason.into(),
        };
        let all = [passed("too many"), passed("/x: on tmpfs")];
        let mut report = Report::default();
        assert_eq!(not_limits(&all, &report).count(), 2);
        report.limits.push(Reached {
            limit: Limit::Processes,
            reason: "too many".into(),
        });
        let left: Vec<&Passed> = not_limits(&all, &report).collect();
        assert_eq!(left, [&all[1]]);
    }

    #[test]
    fn the_last_words_say_what_was_held_or_why_nothing_was() {
        let mut report = Report {
            budget: 1 << 20,
            major_faults_per_second: 9690.0,
            other_faults: Some(0.9996),
            ..Report::default()
        };
        assert_eq!(end(&report, 8 << 20, true), "at most 8.00M were held");
        assert!(end(&report, 0, false).contains("before the first choice"));
        let swap = end(&report, 0, true);
        assert!(
            swap.starts_with("nothing was held: 99.9 % of the 9690 major faults"),
            "{swap}"
        );
        assert!(head(&report, &[]).contains("which pin cannot help"));
        report.other_faults = Some(0.98);
        assert_eq!(
            end(&report, 0, true),
            "nothing was held: no file page was lost and read again"
        );
        (report.other_faults, report.major_faults_per_second) = (Some(1.0), 0.2);
        assert_eq!(elsewhere(&report), None, "few faults are not worth a word");
        (report.state, report.budget) = (State::Short, 0);
        assert_eq!(
            end(&report, 0, true),
            "nothing was held: the budget is less than a page"
        );
        assert!(limited(&report)[0].contains("less than a page"));
    }

    #[test]
    fn a_refusal_says_where_and_what_to_do() {
        let mut report = Report {
            state: State::Refused,
            bound: Some(Bound::NoSwap),
            ..Report::default()
        };
        assert!(refusal(&report).contains("no memory here can go to swap"));
        report.bound = Some(Bound::Budget);
        report.groups = vec![Group {
            path: "/sys/fs/cgroup/x".into(),
            allowance: 0,
            bound: Bound::NoSwap,
            reason: None,
            held: 0,
        }];
        let text = refusal(&report);
        assert!(
            text.contains("in /sys/fs/cgroup/x") && text.contains("--without-swap"),
            "{text}"
        );
    }

    #[test]
    fn the_reason_is_that_of_the_group() {
        let group = |path: &str, bound| Group {
            path: path.into(),
            allowance: 0,
            bound,
            reason: (bound == Bound::Unreadable).then(|| "memory.stat is\u{9b} not ours".into()),
            held: 0,
        };
        let mut report = Report {
            budget: 1 << 20,
            state: State::Short,
            bound: Some(Bound::Budget),
            allowance: 1 << 20,
            groups: vec![group("/a", Bound::Short)],
            ..Report::default()
        };
        assert_eq!(
            head(&report, &[]),
            "nothing is held: memory is too short in /a\n"
        );
        assert!(unreadable(&report).is_none() && limited(&report).is_empty());
        report.groups.push(group("/b", Bound::Unreadable));
        let why = "how much memory /b has left cannot be read: memory.stat is? not ours";
        assert_eq!(head(&report, &[]), format!("nothing is held: {why}\n"));
        // That of /a may change.
        assert!(unreadable(&report).is_none());
        report.groups[0].bound = Bound::NoSwap;
        let ended = unreadable(&report);
        assert_eq!(ended.unwrap(), format!("nothing is pinned: {why}"));
        report.groups.remove(0);
        assert!(unreadable(&report).is_some());
        assert_eq!(limited(&report), [format!("nothing is held there: {why}")]);
        // Others may be held.
        report.state = State::Watching;
        assert!(unreadable(&report).is_none() && limited(&report).len() == 1);
        report.groups = vec![group("/a", Bound::NoSwap); 10];
        let told = limited(&report);
        assert_eq!(told.len(), MAX_GROUPS + 1, "{told:?}");
        assert_eq!(
            told[0],
            "nothing is held there: no memory in /a can go to swap"
        );
        assert!(told[MAX_GROUPS].contains("2 more groups"), "{told:?}");
        (report.state, report.groups) = (State::Short, vec![group("/c", Bound::Unwatched)]);
        assert!(head(&report, &[]).contains("more cgroups than are watched"));
        report.allowance = 0;
        assert_eq!(head(&report, &[]), "nothing is held: memory is too short\n");
        report.bound = Some(Bound::LockLimit);
        assert!(head(&report, &[]).contains("ulimit -l"));
    }

    #[test]
    fn json_keeps_its_contract() {
        let document = Document {
            report: Report {
                limits: vec![Reached {
                    limit: Limit::HeldFiles,
                    reason: "many".into(),
                }],
                ..Report::default()
            },
            ranges: sample(),
            left_out: 3,
            passed: vec![Passed {
                pid: Some(3),
                reason: "why".into(),
            }],
        };
        let line = crate::json::line(&document);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        for field in [
            "state",
            "capacity",
            "budget",
            "allowance",
            "bound",
            "held",
            "processes",
            "files",
            "present",
            "rounds",
            "refaults_per_second",
            "major_faults_per_second",
            "major_faults_before",
            "processor",
            "groups",
            "truncated",
            "limits",
            "ranges",
            "left_out",
            "passed",
        ] {
            assert!(value.get(field).is_some(), "{field}");
        }
        assert_eq!(value["state"], "watching");
        assert_eq!(value["ranges"][0]["offset"], 0x1000);
        assert_eq!(value["ranges"][0]["reads_per_second"], 123.4);
        assert_eq!(value["passed"][0]["pid"], 3);
        assert_eq!(value["left_out"], 3);
        assert_eq!(
            (&value["limits"][0]["limit"], &value["limits"][0]["reason"]),
            (&"held-files".into(), &"many".into())
        );
    }
}
