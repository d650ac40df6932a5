//! The order of modules in rooms that state one: each module imports only from those before it.

use super::circles::{leaves, module, paths};
use super::{is_of_tests, report, rust, shipped_lines};
use std::collections::{BTreeMap, BTreeSet};

/// The statement in the head of a `lib.rs`, "each imports only from those before it" or the like. The list of
/// modules follows it.
const STATEMENT: &str = "imports only from";

#[test]
fn modules_import_only_from_those_before_them() {
    let all = rust();
    let mut faults = Vec::new();
    for (name, text) in &all {
        let Some(room) = name.strip_suffix("lib.rs") else {
            continue;
        };
        let order = order(text);
        if order.is_empty() || room.starts_with("bench") {
            continue;
        }
        let files = all.iter().filter(|(name, _)| !is_of_tests(name));
        let files: Vec<(String, String)> = files
            .filter_map(|(name, text)| Some((name.strip_prefix(room)?.to_owned(), text.clone())))
            .collect();
        for (from, to) in against(&order, &files) {
            faults.push(format!(
                "{name}: `{from}` imports `{to}`, which is after it"
            ));
        }
    }
    report(&faults);
}

/// The modules that a head lists after the statement, in their order; none without the statement.
fn order(text: &str) -> Vec<&str> {
    let head: Vec<&str> = text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .collect();
    let said = head.iter().position(|line| line.contains(STATEMENT));
    let list = said.map_or(&[][..], |said| &head[said..]);
    let quoted = list
        .iter()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let modules: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'))
        .collect();
    let mut order: Vec<&str> = Vec::new();
    for name in quoted {
        if modules.contains(name) && !order.contains(&name) {
            order.push(name);
        }
    }
    order
}

/// The imports of later modules: the module that imports, and the imported one. Names that the crate's own
/// file shows (`pub use`) count as their module's.
fn against(order: &[&str], files: &[(String, String)]) -> BTreeSet<(String, String)> {
    let names: BTreeSet<String> = files.iter().map(|(file, _)| module(file)).collect();
    let code = |text: &str| -> String {
        let lines: Vec<&str> = shipped_lines(text).map(|(_, line)| line).collect();
        lines.join("\n")
    };
    let root = files.iter().find(|(file, _)| file == "lib.rs");
    let shown = root.map(|(_, text)| shown(&code(text))).unwrap_or_default();
    let position = |module: &str| order.iter().position(|listed| *listed == module);
    let mut found = BTreeSet::new();
    for (file, text) in files {
        let own = module(file);
        let from = own.split("::").next().unwrap_or_default();
        let Some(here) = position(from) else {
            continue;
        };
        for path in paths(&code(text), &own, &names) {
            let first = path.split("::").next().unwrap_or_default();
            let to = shown.get(first).map_or(first, String::as_str);
            if position(to).is_some_and(|there| there > here) {
                found.insert((from.to_owned(), to.to_owned()));
            }
        }
    }
    found
}

/// The module of each name that a crate's own file shows.
fn shown(code: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for piece in code.split("pub use ").skip(1) {
        let item = piece.split(';').next().unwrap_or_default();
        let item: String = item.split_whitespace().collect();
        for leaf in leaves(&item) {
            if let (Some((module, _)), Some((_, name))) =
                (leaf.split_once("::"), leaf.rsplit_once("::"))
            {
                found.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    found
}

#[test]
fn an_import_against_the_order_is_found() {
    let head = "//! Each imports only from those before it:\n//! - [`a`], `b` (not `a`)\n//! - [`c`]\n\n\
        pub mod a;\nmod b;\npub mod c;\npub use c::{C, D};\n";
    assert_eq!(order(head), ["a", "b", "c"]);
    assert!(order("//! - [`a`]\n\nmod a;\n").is_empty());
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("lib.rs", head),
        file("a.rs", "use crate::b::B;\n"),
        file("b/mod.rs", "use crate::D;\n"),
        file("b/inner.rs", "use super::super::a;\n"),
        file("c.rs", "use crate::{a, b};\n"),
    ];
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let expected = BTreeSet::from([pair("a", "b"), pair("b", "c")]);
    assert_eq!(against(&["a", "b", "c"], &files), expected);
}
