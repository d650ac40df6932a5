//! Plain English: a reader need not take a sentence apart to learn its subject, nor guess at a number.

use super::prose::{Sentence, sentences};
use super::{report, rust, tracked};

/// Not written, in comments and in messages. A number has a name, a letter or a unit.
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

/// Words with which a clause or an inversion begins, at the beginning of a sentence that is no question.
const CLAUSES: [&str; 6] = ["What", "Whatever", "Who", "Whoever", "Whichever", "Of"];

/// Numbers that make a clause plain, as in two of which.
const COUNTS: &str =
    "all any both each either few first half last many most neither none one part some three two";

#[test]
fn sentences_are_not_inverted() {
    let faults: Vec<String> = tracked()
        .iter()
        .flat_map(|(name, text)| {
            let found = sentences(name, text);
            let told = |sentence: &Sentence| {
                Some(format!("{name}:{}: {}", sentence.line, inverted(sentence)?))
            };
            found.iter().filter_map(told).collect::<Vec<_>>()
        })
        .collect();
    report(&faults);
}

/// Advice about a sentence whose subject is a clause, or is hidden by a turn of phrase.
fn inverted(sentence: &Sentence) -> Option<String> {
    let text = &sentence.text;
    let letters = text.trim_start_matches(|letter: char| "*_\"'(".contains(letter));
    let first = letters
        .split(|letter: char| !letter.is_alphabetic())
        .next()?;
    let is_question = text.contains('?');
    let is_clause = CLAUSES.contains(&first) || letters.starts_with("That which");
    if is_clause && !is_question {
        return Some(format!("begins with `{first}`: begin with the thing"));
    }
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.to_lowercase())
        .collect();
    let pairs = words.windows(2).enumerate();
    let turn = |(index, pair): (usize, &[String])| {
        let before = index
            .checked_sub(1)
            .map_or("", |before| words[before].as_str());
        let after = |index: usize| words.get(index + 2).map_or("", String::as_str);
        let second = pair[1].trim_end_matches(|letter: char| !letter.is_alphabetic());
        match (pair[0].as_str(), second) {
            ("of", "which" | "whom") => !COUNTS.split(' ').any(|count| count == before),
            ("none", "but") | ("that", "which") => true,
            ("of", "such") => !["a", "an"].contains(&after(index)),
            ("as", "there") => before == "much",
            ("but", "for") => !before.ends_with(','),
            ("such", "without" | "with" | "from" | "is" | "are") => before != "as",
            _ => false,
        }
    };
    let (at, _) = pairs.into_iter().find(|pair| turn(*pair))?;
    Some(format!(
        "`{} {}`: say it directly",
        words[at],
        words[at + 1]
    ))
}

#[test]
fn inversions_are_found() {
    let plain = [
        "A size, bytes.",
        "What is it?",
        "Two files, each of which is open.",
        "Not for this, but for that.",
        "The end of such a list, such as this.",
    ];
    let riddles = [
        "What it holds.",
        "**What** costs most.",
        "Of two, the first.",
        "Whoever has it.",
        "A list of such things.",
        "Takes as much as there is room for.",
        "(That which is left.)",
        "A file of which one is left.",
        "It can run, and none but it.",
        "All but for one.",
        "No adapter may send such without end.",
    ];
    let found = |text: &str| {
        let text = text.to_owned();
        inverted(&Sentence { line: 1, text }).is_some()
    };
    assert_eq!(plain.map(found), [false; 5]);
    assert_eq!(riddles.map(found), [true; 11]);
}

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
