//! Riddles: turns of phrase that a reader has to guess at.

use super::{report, rust};

/// What is not written, in comments and in what programs say. A number has a name, a letter or a unit.
const RIDDLES: [&str; 8] = [
    "for so many ",
    "after so many ",
    "at most so many ",
    "at most so long",
    "for so long",
    "so many bytes",
    "so often on ",
    "what which",
];

#[test]
fn nobody_has_to_guess() {
    let mut faults = Vec::new();
    for (name, text) in rust() {
        // The list above.
        if name.starts_with("bench/tests/tidy") {
            continue;
        }
        for (at, riddle) in riddles(&text) {
            faults.push(format!("{name}:{at}: `{riddle}`: say which, or how many"));
        }
    }
    report(&faults);
}

/// The lines with riddles, also those that go on in the next line's comment.
fn riddles(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| *next);
        let next = next.trim_start().trim_start_matches(['/', '!']);
        let next: Vec<&str> = next.split_whitespace().take(3).collect();
        let whole = format!("{} {} ", line.trim_end(), next.join(" ")).to_lowercase();
        let begins_here = |riddle: &&&str| {
            let at = whole.find(**riddle);
            at.is_some_and(|at| at < line.len())
        };
        if let Some(riddle) = RIDDLES.iter().find(begins_here) {
            found.push((index + 1, *riddle));
        }
    }
    found
}

#[test]
fn riddles_are_found() {
    let text = "/// Waits for so\n/// many seconds.\n// So many that it fails.\nsay(\"what which means\");\n";
    assert_eq!(riddles(text), [(1, "for so many "), (4, "what which")]);
    assert_eq!(
        riddles("/// At most so many bytes.\n"),
        [(1, "at most so many ")]
    );
    assert_eq!(
        riddles("/// Sleeps after\n/// so many rounds.\n"),
        [(1, "after so many ")]
    );
}
