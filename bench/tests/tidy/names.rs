//! The documentation of modules and constants.

use super::{report, rust};
use std::collections::BTreeMap;

/// A folder with this number of modules or more has a map; one of tests needs none. A crate always has one.
const ROOM: usize = 5;

#[test]
fn maps_name_every_module() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        let head: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("//!"))
            .collect();
        let head = head.join("\n");
        let modules = modules(&text);
        let mapped = head.contains("# Map") || head.contains("Rooms inside");
        let is_room = modules.len() >= ROOM && !name.contains("/tests");
        if !mapped && !name.ends_with("/src/lib.rs") && !is_room {
            continue;
        }
        for module in modules {
            // A list of plug-ins is a map of them.
            let listed = text.contains(&format!("\n    &{module}::"));
            let said = ["`", "::"].map(|end| head.contains(&format!("`{module}{end}")));
            if !listed && !said.contains(&true) {
                faults.push(format!("{name}: the head does not say what `{module}` is"));
            }
        }
    }
    report(&faults);
}

/// The modules that a file declares, but for those of tests and of features.
fn modules(text: &str) -> Vec<&str> {
    let mut modules = Vec::new();
    let mut conditional = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            conditional |= line.starts_with("#[cfg(");
            continue;
        }
        let declared = line.split_once("mod ").filter(|(before, _)| {
            before.is_empty() || before.starts_with("pub ") || before.starts_with("pub(")
        });
        let module = declared.and_then(|(_, rest)| rest.strip_suffix(';'));
        modules.extend(module.filter(|_| !conditional));
        conditional = false;
    }
    modules
}

/// Units that only `crates/unit` defines.
const UNITS: [&str; 8] = [
    "KIB",
    "MIB",
    "GIB",
    "MB",
    "MICROSECOND",
    "MILLISECOND",
    "SECOND",
    "PAGE",
];

#[test]
fn a_unit_stands_once() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        for (index, line) in text.lines().enumerate() {
            let declared = line
                .split_once("const ")
                .and_then(|(_, rest)| rest.split_once(": "));
            let is_number = |kind: &str| kind.starts_with(['u', 'i', 'f']);
            if declared.is_some_and(|(constant, kind)| UNITS.contains(&constant) && is_number(kind))
                && !name.starts_with("crates/unit/")
            {
                faults.push(format!(
                    "{name}:{}: take the unit from `plimsoll_unit`",
                    index + 1
                ));
            }
        }
    }
    report(&faults);
}

/// A number with a name.
struct Constant<'a> {
    at: String,
    /// Its type and its value.
    means: (&'a str, &'a str),
    /// A comment stands above it, above the constants that it stands among, or above their module.
    said: bool,
}

#[test]
fn constants_of_one_name_say_what_each_is() {
    let files = rust();
    let mut by_name: BTreeMap<&str, Vec<Constant>> = BTreeMap::new();
    for (name, text) in &files {
        let tests = name.contains("/tests/") || name.ends_with("/tests.rs");
        if !tests && !name.contains("/examples/") {
            for (constant, found) in constants(name, text) {
                by_name.entry(constant).or_default().push(found);
            }
        }
    }
    let mut faults = Vec::new();
    for (name, all) in by_name {
        if all.iter().all(|constant| constant.means == all[0].means) {
            continue;
        }
        for constant in all.iter().filter(|constant| !constant.said) {
            let at = &constant.at;
            faults.push(format!(
                "{at}: another {name} is something else: say above this one what it is, in which unit"
            ));
        }
    }
    report(&faults);
}

/// The numbers with names of a file, but for those of its tests.
fn constants<'a>(file: &str, text: &'a str) -> Vec<(&'a str, Constant<'a>)> {
    const NUMBERS: [&str; 16] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64", "Duration", "Nanos",
    ];
    let mut found = Vec::new();
    let mut said = false;
    // The column of a module that a comment stands above, while we are in it.
    let mut said_of_all = None;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, whole)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| next.trim());
        if whole == "#[cfg(test)]" && next.ends_with('{') {
            break;
        }
        let line = whole.trim();
        let column = whole.len() - whole.trim_start().len();
        if line.starts_with("//") || line.is_empty() {
            said = !line.is_empty();
            continue;
        }
        if line == "}" && said_of_all == Some(column) {
            said_of_all = None;
        }
        let declared = line
            .split_once("const ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
            .and_then(|(_, rest)| rest.split_once(": "));
        if declared.is_none() && line.ends_with('{') {
            if said && is_module(line) {
                said_of_all = said_of_all.or(Some(column));
            }
            // A comment on a function does not count for the constants in it.
            said = false;
        }
        let Some((name, (kind, value))) =
            declared.and_then(|(name, rest)| Some((name, rest.split_once(" =")?)))
        else {
            continue;
        };
        if NUMBERS.contains(&kind) || kind.ends_with("c_int") {
            let value = if value.is_empty() { next } else { value.trim() };
            let constant = Constant {
                at: format!("{file}:{}", index + 1),
                means: (kind, value),
                said: said || said_of_all.is_some(),
            };
            found.push((name, constant));
        }
    }
    found
}

/// Whether a module begins on a line.
fn is_module(line: &str) -> bool {
    line.split_whitespace()
        .find(|word| !word.starts_with("pub"))
        == Some("mod")
}

#[test]
fn constants_are_found_at_every_level() {
    let text = "/// Of a stick, metres.\nconst LONG: u64 = 1;\nconst WIDE: u64 = 2;\n\nconst BARE: u64 = 3;\n\
                /// Numbers of commands.\npub mod command {\n    pub const OPEN: u8 = 4;\n\n    \
                const SHUT: u8 = 5;\n}\n/// Does it.\nfn work() {\n    const TIMES: u32 =\n        6;\n    \
                // Seconds.\n    const LATE: u32 = 7;\n}\n";
    let found: Vec<_> = constants("a.rs", text)
        .into_iter()
        .map(|(name, constant)| (name, constant.means.1, constant.said))
        .collect();
    let wanted = [
        ("LONG", "1;", true),
        ("WIDE", "2;", true),
        ("BARE", "3;", false),
        ("OPEN", "4;", true),
        ("SHUT", "5;", true),
        ("TIMES", "6;", false),
        ("LATE", "7;", true),
    ];
    assert_eq!(found, wanted);
}
