//! A report as one HTML file that needs no other file: its pictures are inside.

use plimsoll_picture::page::document;
use plimsoll_picture::svg::escape;
use std::fmt::Write as _;

/// A report being written.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty report.
    pub fn new(title: &str) -> Self {
        Page {
            title: title.to_owned(),
            body: format!("<h1>{}</h1>\n", escape(title)),
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
        self
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// A small remark.
    pub fn note(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p class=\"faint\">{}</p>", escape(text));
        self
    }

    /// A picture, as the text of an SVG file.
    pub fn picture(&mut self, svg: &str) -> &mut Self {
        let _ = writeln!(self.body, "<figure>{svg}</figure>");
        self
    }

    /// A table; the first row is the heading.
    pub fn table(&mut self, rows: &[Vec<String>]) -> &mut Self {
        let Some((head, rows)) = rows.split_first() else {
            return self;
        };
        let cells = |row: &[String], tag: &str| {
            row.iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
                .collect::<String>()
        };
        let _ = writeln!(
            self.body,
            "<table><thead><tr>{}</tr></thead>",
            cells(head, "th")
        );
        for row in rows {
            let _ = writeln!(self.body, "<tr>{}</tr>", cells(row, "td"));
        }
        self.body.push_str("</table>\n");
        self
    }

    /// The whole file.
    pub fn html(&self) -> String {
        document(&self.title, "", None, &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_pictures_are_not() {
        let mut page = Page::new("a < b");
        page.table(&[vec!["x".into()], vec!["<y>".into()]])
            .picture("<svg/>");
        let html = page.html();
        assert!(html.contains("a &lt; b") && html.contains("&lt;y&gt;") && html.contains("<svg/>"));
    }
}
