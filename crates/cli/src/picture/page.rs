//! A page of HTML that needs no other file, on a light and on a dark screen.

use super::svg::escape;

/// Text, lines, the page. In a dark room the second half counts.
const PAGE: &str = "\
:root{color-scheme:light dark}
body{font:14px/1.5 system-ui,sans-serif;margin:24px auto;max-width:980px;padding:0 12px;\
background:#fff;color:#1f2328}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 4px}
p{margin:4px 0;max-width:75ch}.faint{color:#59636e}
svg{display:block;width:100%;height:auto}.patterns{position:absolute;width:0;height:0}
text{font:12px system-ui,sans-serif;fill:#1f2328}.bold{font-weight:600}.small{fill:#59636e;font-size:11px}
.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
.mark{fill:#1f2328}rect{shape-rendering:crispEdges}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}.faint{color:#9198a1}
text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}.axis{stroke:#9198a1}.mark{fill:#e6edf3}}
";

/// Nothing is loaded from anywhere, and nothing runs, whatever the names on the page say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page. `style` is added to what all pages have; `again` is after how many seconds a browser should read
/// it again, while it still grows; `body` is HTML.
pub(crate) fn document(title: &str, style: &str, again: Option<u64>, body: &str) -> String {
    let again = again.map_or(String::new(), |seconds| {
        format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">\n")
    });
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n{again}\
         <title>{title}</title>\n<style>\n{PAGE}{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}
