//! How texts with options come apart into words: variables, option files, argument files.

/// The words of a variable. The machine (`parse_options_buffer`) and the launcher
/// (`JLI_AddArgsFromEnvVar`) have the same rule: white space parts words; a single or double quote
/// holds together what stands before the next one of its kind, and both go; a backslash is like any
/// other character. A quote without its end keeps the machine from starting; here it holds the
/// rest.
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
                // An empty word, if nothing comes.
                word.get_or_insert_default();
            }
            // As `isspace` in C.
            None if matches!(c, ' ' | '\t'..='\r') => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The words of an argument file, by the launcher's other rule (`nextToken`): as in [`words`], but
/// a line's end closes a quote, `#` outside of quotes begins a comment, and in quotes a backslash
/// escapes, or joins the next line.
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
