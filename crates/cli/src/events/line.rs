//! An event as a line: for people, or JSON.

use super::changes::{Event, Rung, What};
use crate::json;
use crate::rows::shown;
use crate::size::Human;
use serde::Serialize;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Columns of a line for people.
const WIDTH: usize = 80;
/// Columns of a name in it.
const NAME: usize = 16;

/// Something that is told.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum News<'a> {
    /// It is about a principal.
    Event(&'a Event),
    /// It is about the broker.
    Broker {
        /// `away` or `back`.
        event: &'static str,
    },
}

#[derive(Serialize)]
struct Timed<'a> {
    time: &'a str,
    #[serde(flatten)]
    news: &'a News<'a>,
}

/// The time, as RFC 3339 has it, in UTC.
pub(super) fn now() -> String {
    let mut time = String::new();
    // Writing into a text does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// One line, with its end.
pub(super) fn line(time: &str, news: &News<'_>, as_json: bool) -> String {
    let line = if as_json {
        json::line(&Timed { time, news })
    } else {
        shown(&words(time, news), WIDTH)
    };
    line + "\n"
}

fn words(time: &str, news: &News<'_>) -> String {
    // Whole seconds are enough for people.
    let time = time.split('.').next().unwrap_or(time);
    let event = match news {
        News::Event(event) => event,
        News::Broker { event } => return format!("{time}Z the broker is {event}"),
    };
    let (uses, limit, owed) = (Human(event.uses), Human(event.limit), Human(event.owed));
    let (word, numbers) = match event.what {
        What::Joined => ("joined", format!("uses {uses} of {limit}")),
        What::Limited { was } => ("limited", format!("to {limit}, was {}", Human(was))),
        What::Owes => ("owes", format!("{owed}: uses {uses} of {limit}")),
        What::Paid => ("paid", format!("uses {uses} of {limit}")),
        What::Taken { rung, times } => {
            let means = match rung {
                Rung::PageOut => "paged out",
                Rung::Take => "reclaimed",
                Rung::Bound => "bound",
            };
            ("taken", format!("{means} {times} x, owes {owed}"))
        }
        What::Stalled { rate } => ("stalled", format!("{rate} stalls/s below its limit")),
        What::Left => ("left", format!("used {uses} of {limit}")),
    };
    let name = shown(&event.name, NAME);
    format!("{time}Z {word:<7} {:>4} {name:<NAME$} {numbers}", event.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::MIB;

    const TIME: &str = "2026-11-30T05:08:39.123456Z";

    fn event(what: What) -> Event {
        Event {
            what,
            id: 1234,
            name: "a\u{9b}31m rather long name".into(),
            uses: 1500 * MIB,
            limit: 1400 * MIB,
            owed: 100 * MIB,
            share: 1,
            available: 2,
        }
    }

    #[test]
    fn a_line_for_people_fits_and_steers_no_terminal() {
        let taken = |rung| What::Taken { rung, times: 12 };
        for what in [
            What::Joined,
            What::Limited { was: 1500 * MIB },
            What::Owes,
            What::Paid,
            taken(Rung::PageOut),
            taken(Rung::Take),
            taken(Rung::Bound),
            What::Stalled { rate: 1_000 },
            What::Left,
        ] {
            let line = line(TIME, &News::Event(&event(what)), false);
            assert!(line.chars().count() <= WIDTH + 1, "{line}");
            assert!(line.starts_with("2026-11-30T05:08:39Z "), "{line}");
            assert!(!line.contains('\u{9b}') && !line.contains("~\n"), "{line}");
        }
        let owes = line(TIME, &News::Event(&event(What::Owes)), false);
        assert!(owes.ends_with(" 100M: uses 1.46G of 1.37G\n"), "{owes}");
    }

    #[test]
    fn a_line_of_json_has_all_numbers() {
        let taken = What::Taken {
            rung: Rung::PageOut,
            times: 2,
        };
        let line = line(TIME, &News::Event(&event(taken)), true);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["time"], TIME);
        assert_eq!(value["event"], "taken");
        assert_eq!(
            (&value["rung"], &value["times"]),
            (&"page-out".into(), &2.into())
        );
        assert_eq!(value["owed"], 100 * MIB);
        assert_eq!(value["id"], 1234);
    }

    #[test]
    fn the_broker_has_lines_of_its_own() {
        let away = News::Broker { event: "away" };
        assert_eq!(
            line(TIME, &away, false),
            "2026-11-30T05:08:39Z the broker is away\n"
        );
        let value: serde_json::Value = serde_json::from_str(&line(TIME, &away, true)).unwrap();
        assert_eq!(value, serde_json::json!({"time": TIME, "event": "away"}));
    }

    #[test]
    fn the_time_is_of_rfc_3339() {
        let now = now();
        assert_eq!(now.len(), TIME.len(), "{now}");
        assert!(now.ends_with('Z') && now.as_bytes()[10] == b'T', "{now}");
    }
}
