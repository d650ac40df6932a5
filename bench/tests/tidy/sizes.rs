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
const SOURCES: [&str; 9] = [
    ".rs", ".c", ".h", ".java", ".scm", ".sh", ".py", ".varlink", "Makefile",
];

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

#[test]
fn functions_of_c_do_one_thing() {
    let mut faults = Vec::new();
    let files = tracked();
    let files = files
        .iter()
        .filter(|(name, _)| name.ends_with(".c") || name.ends_with(".h"));
    for (name, text) in files {
        for (at, length, line) in functions_of_c(text) {
            if length > LONGEST_FUNCTION {
                faults.push(format!(
                    "{name}:{at}: {length} lines, more than {LONGEST_FUNCTION}: {line}"
                ));
            }
        }
    }
    report(&faults);
}

/// The functions of a C file: line, number of lines, and how it begins. Functions begin with a letter in the
/// first column, and end with a brace there.
fn functions_of_c(text: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let (mut head, mut begun) = (None, None);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            head = Some((index, line));
        }
        if begun.is_none() && line.ends_with('{') {
            begun = head;
        }
        if line.starts_with('}')
            && let Some((first, begins)) = begun.take()
            && line == "}"
        {
            found.push((first + 1, index - first + 1, begins));
        }
    }
    found
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
    let text = "struct pair {\n    int a;\n};\n\nint one(void) {\n    if (1) {\n    }\n}\nint two(int a,\n\
                \x20       int b)\n{\n    return a;\n}\nstatic int all[] = {\n    1,\n};\n";
    assert_eq!(
        functions_of_c(text),
        [(5, 4, "int one(void) {"), (9, 5, "int two(int a,")]
    );
}
