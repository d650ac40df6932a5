//! The prose of the project: comments and pages of the book, cut into sentences.

/// A sentence and the line on which it begins, counted from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The sentences of a file's prose; none of a file in a language that is not read here.
pub(crate) fn sentences(name: &str, text: &str) -> Vec<Sentence> {
    let (_, kind) = name.rsplit_once('.').unwrap_or_default();
    let lines = match kind {
        "md" => text.lines().map(Line::page).collect(),
        "rs" | "c" | "h" | "java" => text.lines().scan(false, in_slashes).collect(),
        "sh" | "toml" => text.lines().map(|line| after(line, "#")).collect(),
        "py" => text.lines().scan(false, in_quotes).collect(),
        _ => Vec::new(),
    };
    paragraphs(&lines).iter().flat_map(|p| cut(p)).collect()
}

/// The part of a line that is prose.
enum Line<'a> {
    /// A fence of an example.
    Fence,
    /// Code, an empty line or a heading.
    Other,
    Prose(&'a str),
}

impl<'a> Line<'a> {
    fn page(line: &'a str) -> Self {
        let line = line.trim();
        match line {
            "" => Self::Other,
            _ if line.starts_with("```") => Self::Fence,
            _ if line.starts_with("# ") || line.starts_with("##") => Self::Other,
            _ => Self::Prose(line),
        }
    }
}

/// The comment of a line of a language whose comments go from a mark to the line's end.
fn after<'a>(line: &'a str, mark: &str) -> Line<'a> {
    let own = line.trim_start().strip_prefix(mark);
    let beside = || {
        line.split_once(&format!(" {mark} "))
            .map(|(_, after)| after)
    };
    own.or_else(beside).map_or(Line::Other, Line::page)
}

/// The comment of a line of Rust, C or Java. The flag: a block comment is open.
fn in_slashes<'a>(open: &mut bool, line: &'a str) -> Option<Line<'a>> {
    let trimmed = line.trim();
    let begun = trimmed.strip_prefix("/*");
    if !*open && begun.is_none() {
        return Some(match trimmed.strip_prefix("//") {
            Some(text) => Line::page(text.trim_start_matches(['/', '!'])),
            None => after(line, "//"),
        });
    }
    let text = begun.unwrap_or(trimmed).trim_start_matches(['*', '!']);
    *open = !trimmed.contains("*/");
    Some(Line::page(text.split("*/").next().unwrap_or_default()))
}

/// The comment or documentation of a line of Python. The flag: a string of documentation is open.
fn in_quotes<'a>(open: &mut bool, line: &'a str) -> Option<Line<'a>> {
    let quotes = line.matches("\"\"\"").count();
    let is_documentation = *open || line.trim_start().starts_with("\"\"\"");
    *open ^= quotes == 1 && is_documentation;
    Some(if is_documentation {
        Line::page(line.trim().trim_matches('"'))
    } else {
        after(line, "#")
    })
}

/// The prose of a paragraph, a list's item or a table's cell: its lines with their numbers.
type Paragraph<'a> = Vec<(usize, &'a str)>;

fn paragraphs<'a>(lines: &[Line<'a>]) -> Vec<Paragraph<'a>> {
    let mut all: Vec<Paragraph<'a>> = vec![Vec::new()];
    let mut fenced = false;
    for (index, line) in lines.iter().enumerate() {
        let Line::Prose(text) = *line else {
            fenced ^= matches!(line, Line::Fence);
            all.push(Vec::new());
            continue;
        };
        if fenced {
            continue;
        }
        let mut cells = text.split('|').filter(|cell| !cell.trim().is_empty());
        if text.starts_with('|') {
            all.extend(cells.by_ref().map(|cell| vec![(index + 1, cell.trim())]));
            all.push(Vec::new());
            continue;
        }
        let item = ["- ", "* "].iter().find_map(|mark| text.strip_prefix(mark));
        if item.is_some() {
            all.push(Vec::new());
        }
        if let Some(last) = all.last_mut() {
            last.push((index + 1, item.unwrap_or(text)));
        }
    }
    all
}

/// The sentences of a paragraph. Each ends with a word that ends with a point, a question mark or the like.
fn cut(paragraph: &Paragraph<'_>) -> Vec<Sentence> {
    let mut all: Vec<Sentence> = Vec::new();
    let mut begins = true;
    for (line, word) in paragraph
        .iter()
        .flat_map(|(line, text)| text.split_whitespace().map(|word| (*line, word)))
    {
        let text = word.to_owned();
        match all.last_mut().filter(|_| !begins) {
            Some(last) => last.text = format!("{} {text}", last.text),
            None => all.push(Sentence { line, text }),
        }
        begins = word
            .trim_end_matches(['"', '`', '*', '_', ')'])
            .ends_with(['.', '?', '!']);
    }
    all
}

#[test]
fn sentences_of_comments_and_pages() {
    let lines = |name: &str, text: &str| -> Vec<(usize, String)> {
        let found = sentences(name, text).into_iter();
        found.map(|found| (found.line, found.text)).collect()
    };
    let owned = |expected: &[(usize, &str)]| -> Vec<(usize, String)> {
        let each = expected.iter();
        each.map(|(line, text)| (*line, (*text).to_owned()))
            .collect()
    };
    let rust = "/// One. Two\n/// goes on.\nlet url = \"a//b\"; // Beside.\n\
        /// ```\n/// no();\n/// ```\n/* Three\n * four. */\n";
    let expected = [
        (1, "One."),
        (1, "Two goes on."),
        (3, "Beside."),
        (7, "Three four."),
    ];
    assert_eq!(lines("a.rs", rust), owned(&expected));
    let page = "# No\n\n- A *b.* C?\n- D\n\n| e | f. |\n|---|---|\n";
    let expected = [
        (3, "A *b.*"),
        (3, "C?"),
        (4, "D"),
        (6, "e"),
        (6, "f."),
        (7, "---"),
        (7, "---"),
    ];
    assert_eq!(lines("a.md", page), owned(&expected));
    let python = "def a():\n    \"\"\"One\n    two.\"\"\"\n    b = 1  # Three.\n";
    assert_eq!(
        lines("a.py", python),
        owned(&[(2, "One two."), (4, "Three.")])
    );
}
