//! Circles of modules inside rooms: modules that import one another in a ring, so that none of them can be
//! understood, tested or moved without the others.

use super::{is_of_tests, rust, shipped_lines};
use std::collections::{BTreeMap, BTreeSet};

/// How many modules the largest circle of a room may have; 1 where a room is not named. No number here grows.
const LARGEST: &[(&str, usize)] = &[
    ("agents/jvm", 3),
    ("agents/tracer", 3),
    ("bench", 3),
    ("crates/cli", 2),
    ("crates/collector", 2),
    ("crates/client", 2),
    ("crates/decide", 3),
    ("crates/kernel", 5),
    ("crates/map", 5),
    ("crates/mmtk", 2),
    ("crates/pin", 3),
    ("crates/testbed", 3),
    ("crates/trace", 3),
];

/// A room's modules by their paths in the room, and for each the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn circles_inside_rooms_do_not_grow() {
    let mut rooms: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (name, text) in rust() {
        let Some((room, path)) = name.split_once("/src/") else {
            continue;
        };
        if !is_of_tests(&name) && !name.starts_with("fuzz") {
            let files = rooms.entry(room.to_owned()).or_default();
            files.push((path.to_owned(), text));
        }
    }
    let mut faults = Vec::new();
    for (room, files) in rooms {
        let imports = imports(&files);
        let circle = largest(&imports);
        let found = circle.len().max(1);
        let allowed = LARGEST.iter().find(|(named, _)| *named == room);
        let allowed = allowed.map_or(1, |(_, number)| *number);
        if found > allowed {
            faults.push(format!(
                "{room}: its largest circle has {found} modules, {allowed} in tidy/circles.rs: {}",
                circle.join(", ")
            ));
        }
    }
    super::report(&faults);
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `a::b`. The crate's own file is the empty path.
pub(super) fn module(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path
        .strip_suffix("mod")
        .unwrap_or(path)
        .trim_end_matches('/');
    match path {
        "lib" | "main" => String::new(),
        path => path.replace('/', "::"),
    }
}

fn imports(files: &[(String, String)]) -> Imports {
    let names: BTreeSet<String> = files.iter().map(|(file, _)| module(file)).collect();
    let of = |(file, text): &(String, String)| {
        let own = module(file);
        let code: Vec<&str> = shipped_lines(text).map(|(_, line)| line).collect();
        let mut found = BTreeSet::new();
        for path in paths(&code.join("\n"), &own, &names) {
            // The longest beginning of a path that is a module. Items that a parent re-exports count as the
            // parent's.
            let mut path = path.as_str();
            while !names.contains(path) {
                path = path.rsplit_once("::").map_or("", |(before, _)| before);
            }
            if path != own {
                found.insert(path.to_owned());
            }
        }
        (own, found)
    };
    // The crate's own file names its modules for those outside; nothing inside is meant to import it.
    files
        .iter()
        .map(of)
        .filter(|(own, _)| !own.is_empty())
        .collect()
}

/// The paths in a module's text that begin with `crate`, `super`, `self` or a child of the module, seen from
/// the crate's root.
pub(super) fn paths(code: &str, own: &str, names: &BTreeSet<String>) -> Vec<String> {
    let (mut found, rest) = uses(code);
    let is_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let words = rest.split(|letter| !is_path(letter));
    found.extend(words.filter(|word| word.contains("::")).map(str::to_owned));
    found
        .iter()
        .filter_map(|path| from_root(path, own, names))
        .collect()
}

/// The paths of the `use` items of a text, and the text without these items. A module's re-export of its
/// children (`pub use`) is no import.
fn uses(code: &str) -> (Vec<String>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let split = line.split_once("use ");
        let is_use =
            |visible: &str| matches!(visible.trim(), "" | "pub" | "pub(crate)" | "pub(super)");
        let Some((visible, first)) = split.filter(|(visible, _)| is_use(visible)) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut item = first.to_owned();
        while !item.contains(';') {
            let Some(more) = lines.next() else { break };
            item.push_str(more);
        }
        item.retain(|letter| !letter.is_whitespace());
        let shows = !visible.trim().is_empty();
        let above = ["crate::", "super::"];
        if !shows || above.iter().any(|start| item.starts_with(start)) {
            found.extend(leaves(item.split(';').next().unwrap_or_default()));
        }
    }
    (found, rest)
}

/// The paths of a `use`, with braces written out.
pub(super) fn leaves(declared: &str) -> Vec<String> {
    let Some((before, inside)) = declared.split_once('{') else {
        return vec![declared.to_owned()];
    };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let (mut depth, mut one, mut all) = (0, String::new(), Vec::new());
    for letter in inside.chars().chain([',']) {
        match letter {
            ',' if depth == 0 => all.append(&mut leaves(&std::mem::take(&mut one))),
            letter => {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                one.push(letter);
            }
        }
    }
    all.iter().map(|leaf| format!("{before}{leaf}")).collect()
}

/// A path as seen from the crate's root; `None` for one of another crate.
fn from_root(path: &str, own: &str, names: &BTreeSet<String>) -> Option<String> {
    let mut base: Vec<&str> = own.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").peekable();
    match parts.next()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop();
            while parts.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        child => {
            base.push(child);
            if !names.contains(&base.join("::")) {
                return None;
            }
        }
    }
    base.extend(parts);
    Some(base.join("::"))
}

/// The largest set of modules each of which reaches each other one.
fn largest(imports: &Imports) -> Vec<&str> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|from| (from.as_str(), reach(imports, from)))
        .collect();
    let circle = |from: &str| -> Vec<&str> {
        let mutual = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
        reached[from].iter().filter(mutual).copied().collect()
    };
    reached
        .keys()
        .map(|from| circle(from))
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// All that a module imports, and what these import in turn. Itself too, where the way leads back to it.
fn reach<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in imports.get(module).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

#[test]
fn a_circle_is_found_by_its_use_lines() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("lib.rs", "mod a;\nmod b;\npub use a::A;"),
        file("a.rs", "use crate::b::{self, c::{C, D}};\n"),
        file("b/mod.rs", "mod c;\nmod d;\n"),
        file("b/c.rs", "use std::fmt;\nuse super::d::E;\n"),
        file(
            "b/d.rs",
            "fn d() { crate::a::f() }\n#[cfg(test)]\nmod tests {\nuse super::super::b;\n}",
        ),
        file("e.rs", "use crate::a;\n"),
    ];
    let imports = imports(&files);
    assert_eq!(largest(&imports), ["a", "b::c", "b::d"]);
}
