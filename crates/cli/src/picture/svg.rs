//! Writes SVG and HTML text. What comes from outside is escaped here and nowhere else.

use plimsoll_wire::checks::is_printable;
use std::fmt::Write as _;

/// A picture that is being written. Its unit is the pixel of a page that is not zoomed.
#[derive(Debug)]
pub(crate) struct Svg {
    text: String,
    width: f64,
    height: f64,
}

/// How a text is aligned to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Box {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Box {
    pub(crate) fn new(x: f64, y: f64, width: f64, height: f64) -> Box {
        Box {
            x,
            y,
            width,
            height,
        }
    }
}

impl Svg {
    /// An empty picture of this width.
    pub(crate) fn new(width: f64) -> Svg {
        Svg {
            text: String::new(),
            width,
            height: 0.0,
        }
    }

    /// The whole picture, so high that all of its boxes and texts are in it. `says` tells those who
    /// cannot see it what it shows.
    pub(crate) fn finish(self, says: &str) -> String {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
             aria-label=\"{}\">\n{}</svg>\n",
            escape(says),
            self.text
        )
    }

    fn reaches(&mut self, y: f64) {
        self.height = self.height.max(y);
    }

    /// A box of a class of the page's style. `says`, if it is not empty, appears when a pointer rests on it.
    pub(crate) fn filled(&mut self, at: Box, class: &str, says: &str) {
        self.reaches(at.y + at.height);
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            Short(at.x),
            Short(at.y),
            Short(at.width),
            Short(at.height)
        );
        let _ = match says.is_empty() {
            true => writeln!(self.text, "/>"),
            false => writeln!(self.text, "><title>{}</title></rect>", escape(says)),
        };
    }

    /// A polygon of a class of the page's style.
    pub(crate) fn polygon(
        &mut self,
        points: impl IntoIterator<Item = (f64, f64)>,
        class: &str,
        says: &str,
    ) {
        let _ = write!(self.text, "<polygon class=\"{class}\" points=\"");
        for (x, y) in points {
            self.reaches(y);
            let _ = write!(self.text, "{},{} ", Short(x), Short(y));
        }
        let _ = writeln!(self.text, "\"><title>{}</title></polygon>", escape(says));
    }

    /// Lines from point to point, of a class of the page's style.
    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let _ = write!(self.text, "<polyline class=\"{class}\" points=\"");
        for &(x, y) in points {
            self.reaches(y);
            let _ = write!(self.text, "{},{} ", Short(x), Short(y));
        }
        let _ = writeln!(self.text, "\"/>");
    }

    /// A line of a class of the page's style.
    pub(crate) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.reaches(y1.max(y2));
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            Short(x1),
            Short(y1),
            Short(x2),
            Short(y2)
        );
    }

    /// Words at a point of their base line, of a class of the page's style.
    pub(crate) fn words(&mut self, (x, y): (f64, f64), align: Align, class: &str, words: &str) {
        self.reaches(y + 4.0);
        let anchor = match align {
            Align::Start => "",
            Align::Middle => " text-anchor=\"middle\"",
            Align::End => " text-anchor=\"end\"",
        };
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>",
            Short(x),
            Short(y),
            escape(words)
        );
    }
}

/// A number with one decimal at most.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without this sum, small numbers below zero would be written as `-0`.
        let tenths = (self.0 * 10.0).round() + 0.0;
        match tenths % 10.0 == 0.0 {
            true => write!(f, "{}", tenths / 10.0),
            false => write!(f, "{:.1}", tenths / 10.0),
        }
    }
}

/// Text as it is written between tags and in quotes. Marks that steer a terminal or reverse a line
/// become visible.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_printable(c) => escaped.push(c),
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}

/// A text without its middle, if it has more characters than `most`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let half = most / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_stays_text() {
        let hostile = "</text><script>alert('x')</script>\u{202e}\u{1b}[2J\n& \"quoted\"";
        let escaped = escape(hostile);
        for forbidden in ['<', '>', '"', '\'', '\u{202e}', '\u{1b}', '\n'] {
            assert!(!escaped.contains(forbidden), "{forbidden:?} in {escaped}");
        }
        assert!(escaped.starts_with("&lt;/text&gt;&lt;script"));
        assert_eq!(escape("/usr/lib/ünicode"), "/usr/lib/ünicode");
        assert_eq!(shortened(&"é".repeat(100_000), 10), "ééééé…ééééé");
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [(1.0, "1"), (1.04, "1"), (2.26, "2.3"), (-0.04, "0")] {
            assert_eq!(Short(number).to_string(), text);
        }
    }
}
