//! A report as one HTML file that needs no other file: its pictures are inside.

use std::fmt::Write as _;

/// A report being written.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 \
                     1rem;color:#222}\
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin-top:2.2rem}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .8rem;border-bottom:1px solid #ddd;text-align:right}\
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #888}\
svg{max-width:100%;height:auto}.note{color:#555;font-size:.9rem}";

impl Page {
    /// An empty report.
    pub fn new(title: &str) -> Self {
        Page {
            title: title.to_owned(),
            body: format!("<h1>{}</h1>\n", escaped(title)),
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
        self
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
        self
    }

    /// A small remark.
    pub fn note(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p class=note>{}</p>", escaped(text));
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
                .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)))
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
        format!(
            "<!doctype html>\n<html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n{}</html>\n",
            escaped(&self.title),
            self.body
        )
    }
}

/// Text with the characters escaped that mean something in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
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
