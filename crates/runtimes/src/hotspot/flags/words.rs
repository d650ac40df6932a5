//! Splits variables, option files and argument files into words.

/// The words of a variable. The machine (`parse_options_buffer`) and the launcher
/// (`JLI_AddArgsFromEnvVar`) have the same rule. White space separates words. A single or double
/// quote keeps everything together up to the next quote of its kind, and both quotes are dropped. A
/// backslash is an ordinary character. A machine does not start with an unclosed quote; here such a
/// quote extends to the end.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if is_quote(c) => {
                quote = Some(c);
                // Quotes with nothing between them make an empty word.
                word.get_or_insert_default();
            }
            // The same characters as C's `isspace`.
            None if matches!(c, ' ' | '\t'..='\r') => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The words of an argument file, by the launcher's other rule (`nextToken`). It differs from
/// [`words`] as follows: the end of a line closes a quote, `#` outside quotes begins a comment, and
/// a backslash inside quotes escapes a character or joins the next line.
pub(super) fn argument_file(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            _ if is_line_end(c) => {
                quote = None;
                words.extend(word.take());
            }
            Some(open) if c == open => quote = None,
            Some(_) if c == '\\' => match chars.next() {
                Some(end) if is_line_end(end) => {
                    while chars.next_if(|&c| is_line_end(c) || is_blank(c)).is_some() {}
                }
                Some(c) => word.get_or_insert_default().push(escaped(c)),
                None => {}
            },
            Some(_) => word.get_or_insert_default().push(c),
            None if is_quote(c) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if is_blank(c) => words.extend(word.take()),
            None if c == '#' => while chars.next_if(|&c| !is_line_end(c)).is_some() {},
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"')
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn escaped(c: char) -> char {
    match c {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'f' => '\x0c',
        other => other,
    }
}
