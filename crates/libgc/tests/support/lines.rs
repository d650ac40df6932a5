//! Lines that the library prints about its collections.

/// The number before a word in a line.
pub(crate) fn before(line: &str, word: &str) -> u64 {
    let head = line.split(word).next().unwrap_or_default().trim_end();
    let number = head.rsplit(|c: char| !c.is_ascii_digit()).next();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no number before {word:?} in {line:?}"))
}
