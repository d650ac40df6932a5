//! Words on a terminal: how wide it is, and lines that are broken between words.

use crate::rows::shown;
use std::os::fd::AsFd;

/// Columns without a terminal.
const USUAL_WIDTH: u16 = 80;
/// Narrower terminals break our lines where they please.
const NARROWEST: u16 = 60;
/// Columns that are left for words on each line, however far it is indented.
const LEAST: usize = 24;

/// The width of a terminal, columns; `None` if the file is none.
pub fn columns(file: &impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(file).ok()?;
    Some(size.ws_col).filter(|&columns| columns > 0)
}

/// The width of what is written to standard output, columns.
pub fn width() -> usize {
    let own = columns(&std::io::stdout());
    usize::from(own.unwrap_or(USUAL_WIDTH).max(NARROWEST))
}

/// Appends `head` and the words after it as one line, broken between words where it is wider than `width`
/// columns; the lines after it are indented by `indent`. A wider word, such as a path, has a line of its own.
pub fn wrap(into: &mut String, head: &str, words: &str, indent: usize, width: usize) {
    let indent = indent.min(width.saturating_sub(LEAST));
    into.push_str(head);
    let mut column = head.chars().count();
    let mut fresh = true;
    for word in words.split_whitespace() {
        let word = shown(word, usize::MAX);
        let length = word.chars().count();
        let gap = usize::from(!fresh);
        if column > indent && column + gap + length > width {
            into.truncate(into.trim_end_matches(' ').len());
            into.push('\n');
            into.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if !fresh {
            into.push(' ');
            column += 1;
        }
        fresh = false;
        into.push_str(&word);
        column += length;
    }
    into.truncate(into.trim_end_matches(' ').len());
    into.push('\n');
}

/// A message without the number that the standard library adds to what the system says (`(os error 2)`).
pub fn plainly(message: &str) -> String {
    const ADDED: &str = " (os error ";
    let mut plain = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(ADDED) {
        plain.push_str(before);
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        rest = match after[digits..].strip_prefix(')') {
            Some(after) if digits > 0 => after,
            _ => {
                plain.push_str(ADDED);
                after
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_said_without_its_number() {
        let said = std::io::Error::from_raw_os_error(2).to_string();
        let message = format!("a: {said}; b: {said}");
        assert_eq!(
            plainly(&message),
            "a: No such file or directory; b: No such file or directory"
        );
        for message in ["", "nothing", "x (os error 2", "x (os error )"] {
            assert_eq!(plainly(message), message);
        }
    }

    #[test]
    fn lines_are_broken_between_words_and_indented() {
        let mut text = String::new();
        wrap(
            &mut text,
            "ok    one  ",
            "a few words that do not fit",
            11,
            36,
        );
        assert_eq!(text, "ok    one  a few words that do not\n           fit\n");
        text.clear();
        let path = "x".repeat(200);
        wrap(&mut text, "in ", &format!("{path} the end"), 3, 80);
        assert_eq!(text, format!("in {path}\n   the end\n"));
        text.clear();
        wrap(&mut text, "", &format!("is in {path} the end"), 2, 80);
        assert_eq!(text, format!("is in\n  {path}\n  the end\n"));
        text.clear();
        wrap(&mut text, "none  ", "", 6, 80);
        assert_eq!(text, "none\n");
        wrap(&mut text, "a deep indentation: ", "some words", 70, 60);
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
    }
}
