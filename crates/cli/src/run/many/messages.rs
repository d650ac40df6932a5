//! The messages to people on the way, one line each: what started, under which budget, how each program
//! ended, and how all did.

use crate::size::Human;
use std::fmt::Write as _;
use std::time::Duration;

/// Ends that are named one by one in the last line. More are only counted.
const NAMED: usize = 8;

/// The budget of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Bytes.
    pub(super) bytes: u64,
    /// Whether no cgroup binds the programs to it.
    pub(super) advisory: bool,
}

/// The programs of a file when the first of them have been started.
#[derive(Clone, Debug, Default)]
pub(super) struct Begin {
    /// How many run, outsiders included.
    pub(super) running: usize,
    /// Those that start later, and when.
    pub(super) later: Vec<(String, Duration)>,
    pub(super) share: Option<Share>,
    /// Whether a broker knows them.
    pub(super) known: bool,
}

impl Begin {
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} started", programs(self.running));
        if let Some(share) = self.share {
            let _ = write!(line, " under {}", Human(share.bytes));
            line.push_str(if share.advisory { " (advisory)" } else { "" });
        }
        if self.known {
            line.push_str("; `plimsoll top` shows them");
        } else {
            line.push_str(", without a broker");
        }
        let mut later: Vec<_> = self.later.iter().collect();
        later.sort_by_key(|(_, start)| *start);
        if let Some((name, start)) = later.first() {
            let _ = write!(line, "; `{name}` starts after {}", span(*start));
            if later.len() > 1 {
                let _ = write!(line, ", {} more later", later.len() - 1);
            }
        }
        line
    }
}

/// One program's end: with which status, after which time.
pub(super) fn end(name: &str, status: u8, after: Duration) -> String {
    format!("{name} ended with status {status} after {}", span(after))
}

/// How all programs ended. Empty for one program alone, whose end was told.
pub(super) fn summary(ends: &[(String, u8)], unstarted: usize, after: Duration) -> Option<String> {
    if ends.len() + unstarted < 2 {
        return None;
    }
    let well = ends.iter().filter(|end| end.1 == 0).count();
    let ill: Vec<_> = ends.iter().filter(|end| end.1 != 0).collect();
    let mut line = format!("all have ended after {}: ", span(after));
    match (well, ill.len()) {
        (well, 0) => {
            let _ = write!(line, "{} with status 0", programs(well));
        }
        (_, many) if many > NAMED => {
            let _ = write!(line, "{well} with status 0, {many} with another");
        }
        _ => {
            let _ = write!(line, "{well} with status 0");
            for (name, status) in ill {
                let _ = write!(line, ", {name} with {status}");
            }
        }
    }
    if unstarted > 0 {
        let _ = write!(line, "; {unstarted} never started");
    }
    Some(line)
}

/// `1 program`, `7 programs`.
pub(super) fn programs(count: usize) -> String {
    format!("{count} program{}", if count == 1 { "" } else { "s" })
}

/// A time as people say it: `0.4 s`, `35 s`, `12 min 5 s`, `3 h 2 min`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_one_line() {
        let begin = Begin {
            running: 7,
            share: Some(Share {
                bytes: 1200 << 20,
                advisory: true,
            }),
            known: true,
            ..Begin::default()
        };
        assert_eq!(
            begin.line(),
            "7 programs started under 1.17G (advisory); `plimsoll top` shows them"
        );
        let staged = Begin {
            running: 1,
            later: vec![
                ("late".into(), Duration::from_secs(125)),
                ("soon".into(), Duration::from_secs(20)),
            ],
            ..Begin::default()
        };
        assert_eq!(
            staged.line(),
            "1 program started, without a broker; `soon` starts after 20 s, 1 more later"
        );
    }

    #[test]
    fn the_end_says_how_each_and_all_ended() {
        let after = Duration::from_secs(725);
        assert_eq!(
            end("h2", 143, after),
            "h2 ended with status 143 after 12 min 5 s"
        );
        let ends = |statuses: &[u8]| -> Vec<(String, u8)> {
            let named = statuses.iter().enumerate();
            named
                .map(|(n, &status)| (format!("p{n}"), status))
                .collect()
        };
        assert_eq!(summary(&ends(&[1]), 0, after), None);
        let told = |statuses: &[u8], unstarted| summary(&ends(statuses), unstarted, after).unwrap();
        let all = "all have ended after 12 min 5 s: ";
        assert_eq!(told(&[0, 0], 0), format!("{all}2 programs with status 0"));
        assert_eq!(
            told(&[0, 143, 1], 2),
            format!("{all}1 with status 0, p1 with 143, p2 with 1; 2 never started")
        );
        assert_eq!(
            told(&[9; 20], 0),
            format!("{all}0 with status 0, 20 with another")
        );
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        for (ms, said) in [
            (400, "0.4 s"),
            (35_000, "35 s"),
            (120_000, "2 min"),
            (11_000_000, "3 h 3 min"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), said);
        }
    }
}
