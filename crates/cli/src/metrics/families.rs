//! The families, and how their samples follow from a listing.

use super::exposition::{Exposition, Family, Format, Kind};
use super::paths::Paths;
use crate::rows::{Faults, Order, rows};
use plimsoll_broker::config::name_of;
use plimsoll_wire::messages::{Kind as PrincipalKind, Listing, Principal};
use plimsoll_wire::page::Level;
use std::collections::{HashMap, HashSet};

const fn bytes(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind: Kind::Gauge,
        unit: "bytes",
        help,
    }
}

const fn plain(name: &'static str, kind: Kind, help: &'static str) -> Family {
    Family {
        name,
        kind,
        unit: "",
        help,
    }
}

const UP: Family = plain(
    "plimsoll_up",
    Kind::Gauge,
    "Whether the broker answers. If not, only this and the build are told.",
);
const BUILD: Family = plain(
    "plimsoll_build",
    Kind::Info,
    "Versions of this program and of the broker.",
);
const LEFT_OUT: Family = plain(
    "plimsoll_principals_left_out",
    Kind::Gauge,
    "Principals that are not told because there are too many.",
);
const REVOCATIONS: Family = plain(
    "plimsoll_revocations",
    Kind::Counter,
    "How often memory was asked back, or ordered to be taken, by rung of the ladder.",
);
const MISSED: Family = plain(
    "plimsoll_deadlines_missed",
    Kind::Counter,
    "Deadlines that passed before the memory was given back.",
);
const REFAULTS: Family = plain(
    "plimsoll_refaults",
    Kind::Counter,
    "Pages of programs that were read again after they were reclaimed, as far as that is measured.",
);
const LEVEL: Family = plain(
    "plimsoll_principal_level",
    Kind::StateSet,
    "How urgent the numbers of the principal are.",
);

/// The levels, as labels.
const LEVELS: [(Level, &str); 3] = [
    (Level::Normal, "normal"),
    (Level::Warning, "warning"),
    (Level::Critical, "critical"),
];

type OfBroker = (Family, fn(&Listing) -> u64);
type OfPrincipal = (Family, fn(&Principal) -> Option<String>);

/// How the memory is divided.
const DIVISION: [OfBroker; 4] = [
    (
        bytes("plimsoll_capacity_bytes", "Memory of the domain."),
        |listing| listing.capacity,
    ),
    (
        bytes(
            "plimsoll_outsiders_bytes",
            "Used by programs that are no principals, without what can be dropped for free.",
        ),
        |listing| listing.outsiders,
    ),
    (
        bytes(
            "plimsoll_reserve_bytes",
            "Held back so that warnings come early enough.",
        ),
        |listing| listing.reserve,
    ),
    (
        bytes("plimsoll_budget_bytes", "Memory that is shared out."),
        |listing| listing.budget,
    ),
];

/// The numbers of a principal, where it has them.
const PRINCIPAL: [OfPrincipal; 9] = [
    (
        bytes(
            "plimsoll_principal_uses_bytes",
            "Accounted to the principal; for a group, to all below it.",
        ),
        |principal| Some(principal.uses.to_string()),
    ),
    (
        bytes("plimsoll_principal_limit_bytes", "It may use this now."),
        |principal| Some(principal.limit.to_string()),
    ),
    (
        bytes(
            "plimsoll_principal_available_bytes",
            "It could have this if it alone wanted more.",
        ),
        |principal| Some(principal.available.to_string()),
    ),
    (
        bytes(
            "plimsoll_principal_share_bytes",
            "Its guaranteed weighted share.",
        ),
        |principal| Some(principal.share.to_string()),
    ),
    (
        bytes("plimsoll_principal_owed_bytes", "It must give this back."),
        |principal| Some(principal.owed.to_string()),
    ),
    (
        bytes("plimsoll_principal_swapped_bytes", "In swap."),
        |principal| Some(principal.swapped.to_string()),
    ),
    (
        plain(
            "plimsoll_principal_major_faults",
            Kind::Counter,
            "Waits for a page that had to be read from a disk.",
        ),
        |principal| Some(principal.major_faults.to_string()),
    ),
    (
        plain(
            "plimsoll_principal_collections",
            Kind::Counter,
            "Collections of its heap, as its adapter reports.",
        ),
        |principal| principal.collections.map(|number| number.to_string()),
    ),
    (
        Family {
            name: "plimsoll_principal_collection_seconds",
            kind: Kind::Counter,
            unit: "seconds",
            help: "Time in collections of its heap, as its adapter reports.",
        },
        |principal| principal.collection_ms.map(seconds),
    ),
];

/// Milliseconds as seconds, exactly.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// All families, in the order in which they are written.
#[cfg(test)]
pub(super) fn all() -> Vec<&'static Family> {
    const ALONE: [Family; 7] = [UP, BUILD, LEFT_OUT, REVOCATIONS, MISSED, REFAULTS, LEVEL];
    let division = DIVISION.iter().map(|(family, _)| family);
    let principal = PRINCIPAL.iter().map(|(family, _)| family);
    ALONE.iter().chain(division).chain(principal).collect()
}

/// Writes what a broker told; `None` while none answers.
pub(super) fn write(listing: Option<&Listing>, paths: &mut Paths, format: Format) -> String {
    let mut text = Exposition::new(format);
    text.begin(&UP);
    text.sample(&UP, &[], u8::from(listing.is_some()));
    let broker = listing.map_or("", |listing| listing.version.as_str());
    let versions = [("version", env!("CARGO_PKG_VERSION")), ("broker", broker)];
    text.begin(&BUILD);
    text.sample(&BUILD, &versions, 1);
    if let Some(listing) = listing {
        write_broker(&mut text, listing);
        write_principals(&mut text, listing, paths);
    }
    text.end()
}

fn write_broker(text: &mut Exposition, listing: &Listing) {
    for (family, number) in &DIVISION {
        text.begin(family);
        text.sample(family, &[], number(listing));
    }
    text.begin(&LEFT_OUT);
    text.sample(&LEFT_OUT, &[], listing.left_out);
    let counts = listing.revocations;
    text.begin(&REVOCATIONS);
    for (rung, count) in [
        ("ask", counts.asked),
        ("page-out", counts.paged_out),
        ("take", counts.taken),
        ("bound", counts.bound),
    ] {
        text.sample(&REVOCATIONS, &[("rung", rung)], count);
    }
    text.begin(&MISSED);
    text.sample(&MISSED, &[], counts.missed);
    text.begin(&REFAULTS);
    let pages = listing.refaulted;
    for (kind, count) in [("file", pages.file), ("anon", pages.anon)] {
        text.sample(&REFAULTS, &[("kind", kind)], count);
    }
}

/// A principal with the values of its labels.
struct Labelled<'a> {
    principal: &'a Principal,
    path: String,
    user: String,
    kind: &'static str,
}

impl Labelled<'_> {
    fn labels(&self) -> [(&str, &str); 5] {
        [
            ("path", &self.path),
            ("name", &self.principal.name),
            ("user", &self.user),
            ("adapter", self.principal.adapter.as_deref().unwrap_or("")),
            ("kind", self.kind),
        ]
    }
}

fn write_principals(text: &mut Exposition, listing: &Listing, paths: &mut Paths) {
    let all = labelled(listing, paths);
    for (family, number) in &PRINCIPAL {
        text.begin(family);
        for one in &all {
            if let Some(value) = number(one.principal) {
                text.sample(family, &one.labels(), value);
            }
        }
    }
    text.begin(&LEVEL);
    for one in &all {
        let [path, name, user, adapter, kind] = one.labels();
        for (level, word) in LEVELS {
            let state = (LEVEL.name, word);
            let is_it = u8::from(one.principal.level == level);
            text.sample(&LEVEL, &[path, name, user, adapter, kind, state], is_it);
        }
    }
}

fn labelled<'a>(listing: &'a Listing, paths: &mut Paths) -> Vec<Labelled<'a>> {
    let rows = rows(listing, Order::Arrival, &Faults::new());
    let there: HashSet<u64> = rows.iter().map(|row| row.principal.id).collect();
    paths.keep(|id| there.contains(&id));
    let mut users: HashMap<u32, String> = HashMap::new();
    let mut above: Vec<String> = Vec::new();
    let one = |row: crate::rows::Row<'a>| {
        let principal = row.principal;
        above.truncate(row.depth);
        let parent = above.last().map_or("", String::as_str);
        let path = paths.of(principal.id, parent, &principal.name);
        above.push(path.clone());
        let named = |uid: u32| name_of(uid).unwrap_or_else(|| uid.to_string());
        let user = principal
            .uid
            .map(|uid| users.entry(uid).or_insert_with(|| named(uid)).clone());
        Labelled {
            principal,
            path,
            user: user.unwrap_or_default(),
            kind: match principal.kind {
                PrincipalKind::Process => "process",
                PrincipalKind::Group => "group",
            },
        }
    };
    rows.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;
    use plimsoll_wire::messages::Revocations;

    #[test]
    fn without_a_broker_only_that_is_told() {
        let text = write(None, &mut Paths::default(), Format::Prometheus);
        assert!(text.contains("\nplimsoll_up 0\n"), "{text}");
        assert!(!text.contains("plimsoll_budget"), "{text}");
    }

    #[test]
    fn every_number_is_told_with_its_labels() {
        let mut listing = sample();
        listing.revocations = Revocations {
            asked: 5,
            paged_out: 4,
            taken: 3,
            bound: 2,
            missed: 1,
        };
        listing.principals[0].uid = Some(0);
        listing.principals[0].collection_ms = Some(12_005);
        let text = write(Some(&listing), &mut Paths::default(), Format::OpenMetrics);
        for line in [
            "plimsoll_up 1",
            "plimsoll_capacity_bytes 4294967296",
            "plimsoll_revocations_total{rung=\"ask\"} 5",
            "plimsoll_revocations_total{rung=\"bound\"} 2",
            "plimsoll_deadlines_missed_total 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
        let editor = "path=\"an editor with a rather long name\",\
                      name=\"an editor with a rather long name\",user=\"root\",adapter=\"\",kind=\"process\"";
        for line in [
            format!("plimsoll_principal_uses_bytes{{{editor}}} 67108864"),
            format!("plimsoll_principal_collection_seconds_total{{{editor}}} 12.005"),
            format!(
                "plimsoll_principal_level{{{editor},plimsoll_principal_level=\"normal\"}} 1\n\
                 plimsoll_principal_level{{{editor},plimsoll_principal_level=\"warning\"}} 0"
            ),
        ] {
            assert!(text.contains(&line), "{line}: {text}");
        }
        assert!(
            text.contains("path=\"demo/search\",name=\"search\""),
            "{text}"
        );
        for family in all() {
            assert!(text.contains(&format!("# TYPE {} ", family.name)));
        }
    }

    #[test]
    fn no_sample_is_told_twice() {
        let mut listing = sample();
        let twin = listing.principals[1].clone();
        listing.principals.push(Principal { id: 99, ..twin });
        let text = write(Some(&listing), &mut Paths::default(), Format::Prometheus);
        let keys = text.lines().filter_map(|line| line.rsplit_once(' '));
        let keys: Vec<&str> = keys.map(|(key, _)| key).collect();
        let distinct: HashSet<&str> = keys.iter().copied().collect();
        // Lines of two families may say the same before their last word, as comments only.
        let repeated = keys.iter().filter(|key| !key.starts_with('#')).count();
        let samples = distinct.iter().filter(|key| !key.starts_with('#')).count();
        assert_eq!(repeated, samples, "{text}");
    }
}
