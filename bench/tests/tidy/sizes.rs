//! Sizes of files, lines and functions.

use super::{report, root, rust, tracked};

/// The most lines of a source file. A longer one has two subjects.
const LONGEST_FILE: usize = 600;
/// The most lines of a function. A longer one does two things.
const LONGEST_FUNCTION: usize = 70;
/// The most characters of a line, because files are read side by side and in terminals.
const WIDEST: usize = 110;
/// The first number of lines that is too many for README.md, which is read in a few minutes.
const README_ENDS: usize = 120;
/// How the names of files end whose lines and lengths are measured.
const SOURCES: [&str; 8] = [".rs", ".c", ".h", ".java", ".scm", ".sh", ".py", "Makefile"];

#[test]
fn files_fit_in_the_head() {
    let long = |(name, text): &(String, String)| {
        let lines = text.lines().count();
        (is_source(name) && lines > LONGEST_FILE).then(|| {
            format!(
                "{name} has {lines} lines, more than {LONGEST_FILE}: is there a second room inside?"
            )
        })
    };
    report(&tracked().iter().filter_map(long).collect::<Vec<_>>());
}

fn is_source(name: &str) -> bool {
    SOURCES.iter().any(|end| name.ends_with(end))
}

#[test]
fn the_readme_is_read_in_a_few_minutes() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let lines = text.lines().count();
    assert!(
        lines < README_ENDS,
        "README.md has {lines} lines, and should have fewer than {README_ENDS}: the book has room"
    );
}

#[test]
fn lines_fit_side_by_side() {
    let mut faults = Vec::new();
    for (name, text) in tracked().iter().filter(|(name, _)| is_source(name)) {
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            if width > WIDEST {
                let at = index + 1;
                faults.push(format!(
                    "{name}:{at}: {width} characters, more than {WIDEST}"
                ));
            }
        }
    }
    report(&faults);
}

#[test]
fn functions_do_one_thing() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| is_function(line))
        {
            let length = function_length(&lines[index..]);
            if length > LONGEST_FUNCTION {
                let (at, line) = (index + 1, line.trim());
                faults.push(format!(
                    "{name}:{at}: {length} lines, more than {LONGEST_FUNCTION}: {line}"
                ));
            }
        }
    }
    report(&faults);
}

/// Whether a function of Rust begins on a line.
fn is_function(line: &str) -> bool {
    // A word in quotes is the convention of calls: `extern "C-unwind"`.
    let qualifies = |word: &&str| {
        ["pub", "const", "async", "unsafe", "extern"].contains(word)
            || word.starts_with("pub(")
            || word.starts_with('"')
    };
    line.split_whitespace().find(|word| !qualifies(word)) == Some("fn")
}

/// Lines of the function that begins on the first: until the brace that closes it, which formatted code has
/// in the same column.
fn function_length(lines: &[&str]) -> usize {
    let column = lines[0].len() - lines[0].trim_start().len();
    if lines[0].ends_with(['}', ';']) {
        return 1;
    }
    let ends = |line: &&str| match line.get(column..) {
        Some("}") => line.trim() == "}",
        Some(rest) => rest.starts_with(')') && rest.ends_with(';'),
        None => false,
    };
    lines
        .iter()
        .skip(1)
        .position(ends)
        .map_or(1, |last| last + 2)
}

#[test]
fn functions_are_measured() {
    let text = "    pub(crate) unsafe fn long(\n        of: u8,\n    ) {\n        {\n        }\n    }\n}\n";
    let lines: Vec<&str> = text.lines().collect();
    assert!(is_function(lines[0]) && !is_function("// fn"));
    assert!(is_function("pub unsafe extern \"C-unwind\" fn called() {"));
    assert_eq!(function_length(&lines), 6);
    assert_eq!(function_length(&["fn declared();", "}"]), 1);
}
