//! Writes SVG and HTML text. Text from outside is escaped here and nowhere else.

use crate::palette;
use std::fmt::Write as _;

/// A picture that is being written. How an element looks is said by classes: those of
/// [`palette::style`], and those that its page adds.
#[derive(Debug)]
pub struct Svg {
    text: String,
    /// Pixels; given.
    width: f64,
    /// Pixels; grows with each element.
    height: f64,
}

/// How a text is aligned to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A rectangle, pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Its left edge.
    pub x: f64,
    /// Its upper edge.
    pub y: f64,
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

impl Rect {
    /// A rectangle by its upper left corner and its size.
    pub const fn new(x: f64, y: f64, width: f64, height: f64) -> Rect {
        Rect {
            x,
            y,
            width,
            height,
        }
    }

    /// A rectangle between two pixels in each direction, in any order.
    pub fn between((x1, x2): (f64, f64), (y1, y2): (f64, f64)) -> Rect {
        Rect::new(x1.min(x2), y1.min(y2), (x2 - x1).abs(), (y2 - y1).abs())
    }
}

impl Svg {
    /// An empty picture of this width in pixels.
    pub fn new(width: f64) -> Svg {
        Svg {
            text: String::new(),
            width,
            height: 0.0,
        }
    }

    /// The picture within a page, so high that all of its boxes and texts are in it. `label` describes it to
    /// those who cannot see it.
    pub fn inline(self, label: &str) -> String {
        self.whole(label, "", "")
    }

    /// The picture as a file, with the style of all pictures, on a background. `elements` are further
    /// elements of SVG, as text, that it needs: of style, or patterns.
    pub fn file(self, label: &str, elements: &str) -> String {
        let inside = format!(
            "<style>\n{}</style>\n{elements}<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            palette::style()
        );
        self.whole(label, " xmlns=\"http://www.w3.org/2000/svg\"", &inside)
    }

    fn whole(self, label: &str, attributes: &str, before: &str) -> String {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" class=\"picture\"{attributes} \
             role=\"img\" aria-label=\"{}\">\n{before}{}</svg>\n",
            escape(label),
            self.text
        )
    }

    /// Makes the picture at least this high, pixels.
    pub fn reach(&mut self, y: f64) {
        self.height = self.height.max(y);
    }

    /// A filled rectangle. `label`, if it is not empty, appears when a pointer rests on it.
    pub fn rect(&mut self, at: Rect, class: &str, label: &str) {
        self.reach(at.y + at.height);
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            Short(at.x),
            Short(at.y),
            Short(at.width),
            Short(at.height)
        );
        self.end("rect", label);
    }

    /// A filled polygon. `label` as of [`Svg::rect`].
    pub fn polygon(
        &mut self,
        points: impl IntoIterator<Item = (f64, f64)>,
        class: &str,
        label: &str,
    ) {
        let _ = write!(self.text, "<polygon class=\"{class}\"");
        self.points(points);
        self.end("polygon", label);
    }

    /// Lines from point to point.
    pub fn polyline(&mut self, points: impl IntoIterator<Item = (f64, f64)>, class: &str) {
        let _ = write!(self.text, "<polyline class=\"{class}\"");
        self.points(points);
        self.end("polyline", "");
    }

    fn points(&mut self, points: impl IntoIterator<Item = (f64, f64)>) {
        self.text.push_str(" points=\"");
        for (x, y) in points {
            self.reach(y);
            let _ = write!(self.text, "{},{} ", Short(x), Short(y));
        }
        self.text.push('"');
    }

    /// Ends a tag, with the label of its element.
    fn end(&mut self, tag: &str, label: &str) {
        if label.is_empty() {
            self.text.push_str("/>\n");
            return;
        }
        let _ = writeln!(self.text, "><title>{}</title></{tag}>", escape(label));
    }

    /// A straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.reach(y1.max(y2));
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            Short(x1),
            Short(y1),
            Short(x2),
            Short(y2)
        );
    }

    /// A text at a point of its base line; none if it is empty.
    pub fn text(&mut self, (x, y): (f64, f64), align: Align, class: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.reach(y + 4.0);
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
            escape(text)
        );
    }

    /// A key to classes: for each a square and its name, from the left edge on, in as many rows as it takes
    /// up to the right edge. `top` is the upper edge of the first row; returns the lower edge of the last.
    pub fn legend<'a>(
        &mut self,
        (left, right): (f64, f64),
        top: f64,
        entries: impl IntoIterator<Item = (String, &'a str)>,
    ) -> f64 {
        /// Pixels of a square, from there to its name, from one row to the next, and between entries.
        const SQUARE: f64 = 12.0;
        const NAME: f64 = 17.0;
        const ROW: f64 = 18.0;
        const BETWEEN: f64 = 17.0;
        let (mut x, mut y) = (left, top);
        for (class, name) in entries {
            let width = NAME + text_width(name, 11.0) + BETWEEN;
            if x + width > right && x > left {
                (x, y) = (left, y + ROW);
            }
            self.rect(Rect::new(x, y, SQUARE, SQUARE), &class, "");
            self.text((x + NAME, y + 10.5), Align::Start, "small", name);
            x += width;
        }
        y + SQUARE
    }
}

/// About how wide a text is in a font of this size, pixels. Fonts of different systems differ; few are wider.
pub fn text_width(text: &str, size: f64) -> f64 {
    0.58 * size * text.chars().count() as f64
}

/// A number with one decimal at most.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without this sum, small numbers below zero would be written as `-0`.
        let tenths = (self.0 * 10.0).round() + 0.0;
        if tenths % 10.0 == 0.0 {
            write!(f, "{}", tenths / 10.0)
        } else {
            write!(f, "{:.1}", tenths / 10.0)
        }
    }
}

/// Text as it is written between tags and in quotes. Control characters, and marks that end a line or change
/// its direction, become visible.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' => {
                escaped.push('\u{fffd}');
            }
            '\u{2066}'..='\u{2069}' | '\u{FEFF}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text without its middle, if it has more characters than `most`.
pub fn shortened(text: &str, most: usize) -> String {
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

    #[test]
    fn a_picture_is_as_high_as_what_is_in_it() {
        let mut svg = Svg::new(100.0);
        svg.text((0.0, 0.0), Align::Start, "", "");
        svg.rect(Rect::between((40.0, 10.0), (30.0, 20.0)), "fill0", "a\nb");
        let text = svg.inline("boxes & lines");
        assert!(text.starts_with("<svg viewBox=\"0 0 100 30\""), "{text}");
        assert!(text.contains("x=\"10\" y=\"20\" width=\"30\" height=\"10\"><title>"));
        assert!(text.contains("boxes &amp; lines") && !text.contains("<text"));
        let file = Svg::new(10.0).file("", "<defs></defs>\n");
        assert!(file.contains("xmlns") && file.contains("<defs>") && !file.contains("\n\n"));
    }

    #[test]
    fn a_legend_begins_a_row_where_the_last_is_full() {
        let mut svg = Svg::new(100.0);
        let entries = ["one", "two", "three"].map(|name| (String::new(), name));
        assert_eq!(svg.legend((0.0, 110.0), 2.0, entries), 32.0);
        assert_eq!(svg.legend((0.0, 1.0), 2.0, [(String::new(), "long")]), 14.0);
    }
}
