//! A page of HTML that needs no other file, on a light and on a dark screen.

use crate::palette;
use crate::svg::escape;

/// Text and pictures of a page. On a dark screen the last lines count.
const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:14px/1.5 system-ui,sans-serif;margin:24px auto;max-width:980px;padding:0 12px;\
background:#fff;color:#1f2328}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 4px}
p{margin:4px 0;max-width:75ch}.faint{color:#59636e}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums;margin:8px 0}
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #8884}
th:first-child,td:first-child{text-align:left}
.picture{display:block;width:100%;height:auto}.patterns{position:absolute}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}.faint{color:#9198a1}}
";

/// Nothing is loaded from anywhere, and nothing runs, whatever the names on the page say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page. `style` is added to the style of all pages; `again` is after how many seconds a browser should
/// read it again, while it still grows; `body` is HTML.
pub fn document(title: &str, style: &str, again: Option<u64>, body: &str) -> String {
    let again = again.map_or(String::new(), |seconds| {
        format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">\n")
    });
    let (title, pictures) = (escape(title), palette::style());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n{again}\
         <title>{title}</title>\n<style>\n{STYLE}{pictures}{style}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
}
