//! `plimsoll ps`: principals and their memory, as a table or as JSON.
//!
//! # The JSON contract
//! One object: `version`, `pid` (the broker's), `domain`, `unseen` (whether a limit may bind the broker
//! that it does not see), `capacity`, `outsiders`, `reserve`, `budget`, `principals` (a list of trees),
//! `left_out` (the number of principals that are not in the list), `pinned` (null, or which file pages are
//! held: `state`, `held`, `allowance`, `budget`, `why`), `revocations` (counts since the broker's start:
//! `asked`, `paged_out`, `taken`, `bound`, `missed`), and `refaulted` (pages read again since then: `file`,
//! `anon`). Each principal has `id`, `name`, `pid` (null for groups), `uid` (null where the caller may not
//! know), `revocations` (counts of its own), `kind`, `adapter` (null for passive ones), `weight`,
//! `priority`, `uses`, `limit`, `available`, `owed`, `share`, `max`, `working_set`, `swapped`,
//! `major_faults`, `refaults` (null, or pages per second that were read again: `file`, `anon`; their costs:
//! `file_ns`, `anon_ns`; and `swappiness`), `level`, `live`, `collections`, `collection_ms`, `stall_rate`
//! (allocation stalls per second within its limit, or null), `doubted` (whether these keep the limit from
//! rising), `demand` (what it can make use of), `target` (what it should have at rest), `lacks` (what it
//! lacks of that while it is near its limit), `at_least` (whether it cannot go lower), `collector` (null,
//! or what a collector reports of itself) and `children`. All sizes are bytes.
//! Fields may be added, but none is removed or changes its meaning.

use crate::json;
use crate::rows::{Faults, Order, Row, adapter, level, remarks, rows, shown, standing};
use crate::size::Human;
use plimsoll_wire::messages::{Kind, Listing};
use std::fmt::Write as _;

/// Number of columns for a name, indentation included.
const NAME_WIDTH: usize = 24;

/// The message where the broker's own group is not visible to it.
const UNSEEN: &str = "\
the broker's own memory cgroup is not visible to it: if it has a limit, programs have less than this;
  make /sys/fs/cgroup visible, or give `budget` in the broker's configuration
";

/// The listing in the form of the JSON contract.
pub fn to_json(listing: &Listing) -> String {
    json::pretty(listing)
}

/// The listing as a table for people.
pub fn table(listing: &Listing) -> String {
    let mut text = format!(
        "{}: capacity {}, outsiders {}, reserve {}, budget {}\n",
        shown(&listing.domain, 200),
        Human(listing.capacity),
        Human(listing.outsiders),
        Human(listing.reserve),
        Human(listing.budget),
    );
    if listing.unseen {
        text.push_str(UNSEEN);
    }
    if let Some(pinned) = &listing.pinned {
        let _ = match &pinned.why {
            None => writeln!(
                text,
                "file pages held {} of at most {}",
                Human(pinned.held),
                Human(pinned.budget)
            ),
            Some(why) => writeln!(text, "no file pages are held: {}", shown(why, 400)),
        };
    }
    if listing.principals.is_empty() {
        text.push_str("no principals: start a program with `plimsoll run PROGRAM`\n");
        return text;
    }
    let _ = writeln!(
        text,
        "{:>4} {:<NAME_WIDTH$} {:>7} {:<7} {:>9} {:>6} {:>6} {:>6} {:>6} LEVEL",
        "ID", "NAME", "PID", "ADAPTER", "WT(PRIO)", "USES", "LIMIT", "COULD", "OWES"
    );
    for row in rows(listing, Order::Arrival, &Faults::new()) {
        add_line(&mut text, row);
    }
    if listing.left_out > 0 {
        let _ = writeln!(
            text,
            "and {} more, which do not fit into a listing",
            listing.left_out
        );
    }
    text
}

fn add_line(text: &mut String, row: Row<'_>) {
    let p = row.principal;
    let indent = (row.depth * 2).min(NAME_WIDTH / 2);
    let name = shown(&p.name, NAME_WIDTH - indent);
    let pid = p.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let adapter = match (p.kind, adapter(p)) {
        (Kind::Group, _) => "group".to_owned(),
        (Kind::Process, Some(adapter)) => shown(adapter, 7),
        (Kind::Process, None) => "-".to_owned(),
    };
    let level = level(p);
    let remarks = match remarks(p) {
        none if none.is_empty() => none,
        some => format!(", {some}"),
    };
    let _ = writeln!(
        text,
        "{:>4} {:indent$}{:<width$} {:>7} {:<7} {:>9} {:>6} {:>6} {:>6} {:>6} {level}{remarks}",
        p.id,
        "",
        name,
        pid,
        adapter,
        standing(p),
        Human(p.uses),
        Human(p.limit),
        Human(p.available),
        Human(p.owed),
        width = NAME_WIDTH - indent,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;
    use plimsoll_wire::messages::Pinned;

    #[test]
    fn the_table_is_a_tree() {
        let expected = "\
machine: capacity 4.00G, outsiders 700M, reserve 82.0M, budget 3.24G
  ID NAME                         PID ADAPTER  WT(PRIO)   USES  LIMIT  COULD   OWES LEVEL
   1 an editor with a rather~      99 -             100  64.0M  90.0M  9.00G      0 normal
   2 demo                           - group         100  1.09G  1.05G  1.13G  43.0M warning
   4   search                    4712 hotspot    40(+2)   900M   857M   857M  43.0M critical
   3   index                     4711 hotspot        10   212M   214M   300M      0 normal
";
        assert_eq!(table(&sample()), expected);
    }

    #[test]
    fn a_principal_that_cannot_go_lower_has_a_word_of_its_own() {
        let mut listing = sample();
        for principal in [0, 1] {
            listing.principals[principal].at_least = true;
        }
        let table = table(&listing);
        assert_eq!(table.matches(" floor\n").count(), 1, "{table}");
        assert_eq!(table.matches(" warning\n").count(), 1, "{table}");
        let value: serde_json::Value = serde_json::from_str(&to_json(&listing)).unwrap();
        assert_eq!(value["principals"][0]["at_least"], true);
        assert_eq!(value["principals"][0]["level"], "normal");
    }

    #[test]
    fn a_group_that_the_broker_does_not_see_is_told() {
        let mut listing = sample();
        for unseen in [false, true] {
            listing.unseen = unseen;
            assert_eq!(table(&listing).contains(UNSEEN), unseen);
        }
    }

    #[test]
    fn a_principal_that_stalls_within_its_limit_is_told() {
        let mut listing = sample();
        for (rate, told) in [(None, false), (Some(0), false), (Some(12), true)] {
            listing.principals[0].stall_rate = rate;
            assert_eq!(table(&listing).contains("normal, 12 stalls/s\n"), told);
            let value: serde_json::Value = serde_json::from_str(&to_json(&listing)).unwrap();
            assert_eq!(value["principals"][0]["stall_rate"].as_u64(), rate);
            assert_eq!(value["principals"][0]["doubted"], false);
        }
        listing.principals[0].doubted = true;
        assert!(table(&listing).contains("normal, 12 stalls/s, limit held\n"));
        let value: serde_json::Value = serde_json::from_str(&to_json(&listing)).unwrap();
        assert_eq!(value["principals"][0]["doubted"], true);
    }

    #[test]
    fn that_the_agent_is_in_a_program_is_told() {
        let mut listing = sample();
        listing.principals[0].adapter = Some("hotspot-agent".into());
        let row = |listing: &Listing| {
            let table = table(listing);
            table.lines().nth(2).unwrap().to_owned()
        };
        assert!(row(&listing).contains(" hotspot "), "{}", row(&listing));
        assert!(
            row(&listing).ends_with("normal, agent"),
            "{}",
            row(&listing)
        );
        listing.principals[0].stall_rate = Some(3);
        assert!(row(&listing).ends_with("normal, agent, 3 stalls/s"));
        let value: serde_json::Value = serde_json::from_str(&to_json(&listing)).unwrap();
        assert_eq!(value["principals"][0]["adapter"], "hotspot-agent");
    }

    #[test]
    fn what_is_left_out_is_told() {
        assert!(!table(&sample()).contains("more"));
        let listing = Listing {
            left_out: 7,
            ..sample()
        };
        assert!(table(&listing).ends_with("\nand 7 more, which do not fit into a listing\n"));
        let value: serde_json::Value = serde_json::from_str(&to_json(&listing)).unwrap();
        assert_eq!(value["left_out"], 7);
    }

    #[test]
    fn what_is_pinned_is_told_and_why_nothing_is() {
        let pinned = |why: Option<&str>| {
            let pinned = Pinned {
                state: "holding".into(),
                held: 60 << 20,
                allowance: 64 << 20,
                budget: 64 << 20,
                why: why.map(str::to_owned),
            };
            table(&Listing {
                pinned: Some(pinned),
                ..sample()
            })
        };
        assert!(pinned(None).contains("\nfile pages held 60.0M of at most 64.0M\n"));
        assert!(pinned(Some("no swap")).contains("\nno file pages are held: no swap\n"));
    }

    #[test]
    fn no_name_steers_the_terminal() {
        let mut listing = sample();
        listing.domain = "\u{9b}2J\u{202e}".into();
        listing.principals[0].name = "\u{9b}31m\u{2066}x\u{85}".into();
        listing.principals[0].adapter = Some("\u{feff}\u{202e}".into());
        for text in [table(&listing), to_json(&listing)] {
            let harmless = |c| plimsoll_wire::checks::is_printable(c) || c == '\n';
            assert!(text.chars().all(harmless), "{text:?}");
        }
    }

    #[test]
    fn an_empty_broker_says_what_to_do() {
        assert!(table(&Listing::default()).contains("plimsoll run"));
    }

    #[test]
    fn json_keeps_its_contract() {
        let value: serde_json::Value = serde_json::from_str(&to_json(&sample())).unwrap();
        for field in [
            "version",
            "pid",
            "domain",
            "unseen",
            "capacity",
            "outsiders",
            "reserve",
            "budget",
            "left_out",
            "pinned",
            "revocations",
            "refaulted",
        ] {
            assert!(value.get(field).is_some(), "{field}");
        }
        let demo = &value["principals"][1];
        assert_eq!(demo["name"], "demo");
        assert_eq!(demo["pid"], serde_json::Value::Null);
        let search = &demo["children"][0];
        for (field, number) in [
            ("pid", 4712),
            ("weight", 40),
            ("priority", 2),
            ("uses", 900 << 20),
            ("limit", 857 << 20),
            ("available", 857 << 20),
            ("owed", 43 << 20),
            ("major_faults", 12),
            ("max", 1 << 30),
        ] {
            assert_eq!(search[field], number, "{field}");
        }
        assert_eq!(search["level"], "critical");
        assert!(search["children"].as_array().unwrap().is_empty());
    }
}
