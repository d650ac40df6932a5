//! The tree of principals, flattened into rows for tables.

use plimsoll_wire::checks::is_printable;
use plimsoll_wire::messages::{Id, Kind, Listing, Principal};
use plimsoll_wire::page::Level;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Levels below this depth are not shown. The broker allows 8 levels.
const DEEPEST: usize = 32;

/// One principal and how deep it stands.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// 0 at the top.
    pub depth: usize,
    /// The principal.
    pub principal: &'a Principal,
}

/// The order of siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they came.
    #[default]
    Arrival,
    /// By name.
    Name,
    /// Most memory first.
    Uses,
    /// Most owed first.
    Owed,
    /// Most major faults first.
    Faults,
}

impl Order {
    /// The next one, round and round.
    pub fn next(self) -> Order {
        match self {
            Order::Arrival => Order::Name,
            Order::Name => Order::Uses,
            Order::Uses => Order::Owed,
            Order::Owed => Order::Faults,
            Order::Faults => Order::Arrival,
        }
    }

    /// Shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Order::Arrival => "arrival",
            Order::Name => "name",
            Order::Uses => "uses",
            Order::Owed => "owes",
            Order::Faults => "faults",
        }
    }
}

/// Major faults per second of each principal between two moments.
pub type Faults = HashMap<Id, f64>;

/// Parents before their children, siblings in `order`.
pub fn rows<'a>(listing: &'a Listing, order: Order, faults: &Faults) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    add(&listing.principals, 0, order, faults, &mut rows);
    rows
}

fn add<'a>(
    siblings: &'a [Principal],
    depth: usize,
    order: Order,
    faults: &Faults,
    rows: &mut Vec<Row<'a>>,
) {
    if depth > DEEPEST {
        return;
    }
    let mut sorted: Vec<&Principal> = siblings.iter().collect();
    let rate = |p: &Principal| (faults.get(&p.id).copied().unwrap_or(0.0) * 1000.0) as u64;
    match order {
        Order::Arrival => {}
        Order::Name => sorted.sort_by_cached_key(|p| (p.name.clone(), p.id)),
        Order::Uses => sorted.sort_by_key(|p| (Reverse(p.uses), p.id)),
        Order::Owed => sorted.sort_by_key(|p| (Reverse(p.owed), Reverse(p.uses), p.id)),
        Order::Faults => sorted.sort_by_key(|p| (Reverse(rate(p)), Reverse(p.uses), p.id)),
    }
    for principal in sorted {
        rows.push(Row { depth, principal });
        add(&principal.children, depth + 1, order, faults, rows);
    }
}

/// Finds a principal by number, anywhere in the tree.
pub fn find(listing: &Listing, id: Id) -> Option<&Principal> {
    rows(listing, Order::Arrival, &Faults::new())
        .into_iter()
        .map(|row| row.principal)
        .find(|principal| principal.id == id)
}

/// Sums a number over the top-level principals; their numbers hold their children's.
pub fn total(listing: &Listing, number: impl Fn(&Principal) -> u64) -> u64 {
    fn sum(principals: &[Principal], number: &impl Fn(&Principal) -> u64) -> u64 {
        let each = principals.iter().map(|p| {
            let own = match p.kind {
                Kind::Process => number(p),
                Kind::Group => 0,
            };
            own.saturating_add(sum(&p.children, number))
        });
        each.fold(0, u64::saturating_add)
    }
    sum(&listing.principals, &number)
}

/// A name that is safe to print. Control characters (which move cursors and colour screens) and
/// marks that reverse a line are replaced, and so is what exceeds `width` characters.
pub fn shown(name: &str, width: usize) -> String {
    let clean = |c: char| if is_printable(c) { c } else { '?' };
    let count = name.chars().count();
    if count <= width {
        return name.chars().map(clean).collect();
    }
    let kept = name.chars().take(width.saturating_sub(1)).map(clean);
    kept.chain(std::iter::once('~')).collect()
}

/// As [`shown`], but the front is what is cut: of paths, whose ends tell them apart.
pub fn ending(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return shown(name, width);
    }
    let kept: String = name.chars().skip(count - width.saturating_sub(1)).collect();
    format!("~{}", shown(&kept, width))
}

/// How the name of an adapter ends that has an agent of ours in the program.
const WITH_AGENT: &str = "-agent";

/// The adapter of a principal, without the agent that it may have in the program.
pub fn adapter(principal: &Principal) -> Option<&str> {
    let name = principal.adapter.as_deref()?;
    Some(name.strip_suffix(WITH_AGENT).unwrap_or(name))
}

/// Remarks on a principal in a few words: that it has an agent of ours in it, its allocation stalls within
/// its limit, and that these keep the limit from rising. Empty if there are none.
pub fn remarks(principal: &Principal) -> String {
    let name = principal.adapter.as_deref().unwrap_or("");
    let agent = name.ends_with(WITH_AGENT).then(|| "agent".to_owned());
    let rate = principal.stall_rate.filter(|&rate| rate > 0);
    let stalls = rate.map(|rate| format!("{rate} stalls/s"));
    let held = principal.doubted.then(|| "limit held".to_owned());
    let all: Vec<String> = [agent, stalls, held].into_iter().flatten().collect();
    all.join(", ")
}

/// The level of a principal, in a word. One that cannot go lower has a word of its own.
pub fn level(principal: &Principal) -> &'static str {
    match principal.level {
        Level::Normal if principal.at_least => "floor",
        Level::Normal => "normal",
        Level::Warning => "warning",
        Level::Critical => "critical",
    }
}

/// A weight and a priority in one column: `40` or `40(+2)`.
pub fn standing(principal: &Principal) -> String {
    match principal.priority {
        0 => principal.weight.to_string(),
        priority => format!("{}({priority:+})", principal.weight),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use plimsoll_unit::MIB;

    /// A listing with a bit of everything.
    pub(crate) fn sample() -> Listing {
        let index = Principal {
            id: 3,
            name: "index".into(),
            pid: Some(4711),
            adapter: Some("hotspot".into()),
            weight: 10,
            uses: 212 * MIB,
            limit: 214 * MIB,
            available: 300 * MIB,
            share: 214 * MIB,
            working_set: Some(150 * MIB),
            ..Principal::default()
        };
        let search = Principal {
            id: 4,
            name: "search".into(),
            pid: Some(4712),
            adapter: Some("hotspot".into()),
            weight: 40,
            priority: 2,
            uses: 900 * MIB,
            limit: 857 * MIB,
            available: 857 * MIB,
            owed: 43 * MIB,
            share: 857 * MIB,
            max: Some(1 << 30),
            major_faults: 12,
            level: Level::Critical,
            ..Principal::default()
        };
        let demo = Principal {
            id: 2,
            name: "demo".into(),
            kind: Kind::Group,
            weight: 100,
            uses: 1112 * MIB,
            limit: 1071 * MIB,
            available: 1157 * MIB,
            owed: 43 * MIB,
            share: 1500 * MIB,
            level: Level::Warning,
            children: vec![search, index],
            ..Principal::default()
        };
        let editor = Principal {
            id: 1,
            name: "an editor with a rather long name".into(),
            pid: Some(99),
            weight: 100,
            uses: 64 * MIB,
            limit: 90 * MIB,
            available: 9 << 30,
            share: 1 << 30,
            ..Principal::default()
        };
        Listing {
            version: "0.1.0".into(),
            pid: 321,
            capacity: 4 << 30,
            outsiders: 700 * MIB,
            reserve: 82 * MIB,
            budget: 3314 * MIB,
            domain: "machine".into(),
            unseen: false,
            principals: vec![editor, demo],
            left_out: 0,
            ..Listing::default()
        }
    }

    fn names(order: Order, faults: &Faults) -> Vec<(usize, String)> {
        rows(&sample(), order, faults)
            .iter()
            .map(|row| (row.depth, shown(&row.principal.name, 9)))
            .collect()
    }

    fn named(names: &[(usize, &str)]) -> Vec<(usize, String)> {
        names
            .iter()
            .map(|&(depth, name)| (depth, name.to_owned()))
            .collect()
    }

    #[test]
    fn siblings_are_ordered_and_stay_below_their_parent() {
        let arrival = [(0, "an edito~"), (0, "demo"), (1, "search"), (1, "index")];
        let by_name = [(0, "an edito~"), (0, "demo"), (1, "index"), (1, "search")];
        let by_uses = [(0, "demo"), (1, "search"), (1, "index"), (0, "an edito~")];
        let by_faults = [(0, "demo"), (1, "index"), (1, "search"), (0, "an edito~")];
        assert_eq!(names(Order::Arrival, &Faults::new()), named(&arrival));
        assert_eq!(names(Order::Name, &Faults::new()), named(&by_name));
        assert_eq!(names(Order::Uses, &Faults::new()), named(&by_uses));
        assert_eq!(names(Order::Owed, &Faults::new()), named(&by_uses));
        assert_eq!(
            names(Order::Faults, &Faults::from([(3, 2.5)])),
            named(&by_faults)
        );
    }

    #[test]
    fn orders_go_round() {
        let mut order = Order::Arrival;
        for _ in 0..5 {
            order = order.next();
        }
        assert_eq!(order, Order::Arrival);
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(shown("a\x1b[2Jb\n", 20), "a?[2Jb?");
        assert_eq!(shown("a\u{9b}2J\u{202e}b\u{2028}", 20), "a?2J?b?");
        assert_eq!(shown("abcdef", 4), "abc~");
        assert_eq!(shown("äöü", 3), "äöü");
        assert_eq!(ending("/sys/fs/a\x1bb", 4), "~a?b");
        assert_eq!(ending("/a", 4), "/a");
    }

    #[test]
    fn a_tree_without_end_is_cut() {
        let mut deep = Principal::default();
        for _ in 0..100 {
            deep = Principal {
                children: vec![deep],
                ..Principal::default()
            };
        }
        let listing = Listing {
            principals: vec![deep],
            ..Listing::default()
        };
        assert_eq!(
            rows(&listing, Order::Arrival, &Faults::new()).len(),
            DEEPEST + 1
        );
    }
}
