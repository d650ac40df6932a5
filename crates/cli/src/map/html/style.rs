//! The style of a page: the colour of each area in each state, on a light and on a dark page.

use super::State;
use super::svg::paint;
use plimsoll_map::Kind;
use std::fmt::Write as _;

/// What is not an area: text, lines, the page. In a dark room the second half counts.
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

/// The style of a page with these areas.
pub(super) fn style(kinds: &[Kind]) -> String {
    let mut style = PAGE.to_owned();
    for &kind in kinds {
        let [r, g, b] = kind.colour();
        for state in State::ALL {
            let class = paint(kind, state);
            let _ = match state {
                State::Swapped => writeln!(style, ".{class}{{fill:url(#{class})}}"),
                State::Resident => writeln!(style, ".{class}{{fill:rgb({r},{g},{b})}}"),
                State::Cached => {
                    writeln!(style, ".{class}{{fill:rgb({r},{g},{b});fill-opacity:.42}}")
                }
                State::Absent => {
                    writeln!(style, ".{class}{{fill:rgb({r},{g},{b});fill-opacity:.1}}")
                }
            };
        }
    }
    style
}

/// The patterns that the style names: what is in swap is hatched.
pub(super) fn patterns(kinds: &[Kind]) -> String {
    let mut text = "<svg class=\"patterns\" aria-hidden=\"true\"><defs>\n".to_owned();
    for &kind in kinds {
        let [r, g, b] = kind.colour();
        let id = paint(kind, State::Swapped);
        let _ = writeln!(
            text,
            "<pattern id=\"{id}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"rgb({r},{g},{b})\" \
             fill-opacity=\".22\"/><rect width=\"2.2\" height=\"5\" fill=\"rgb({r},{g},{b})\"/></pattern>"
        );
    }
    text.push_str("</defs></svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_area_has_its_own_colour_in_every_state() {
        let mut colours: Vec<_> = Kind::ALL.iter().map(|kind| kind.colour()).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Kind::ALL.len());
        let (style, patterns) = (style(&Kind::ALL), patterns(&Kind::ALL));
        for kind in Kind::ALL {
            for state in State::ALL {
                let class = format!(".{}{{", paint(kind, state));
                assert_eq!(style.matches(&class).count(), 1, "{class}");
            }
            let id = format!("id=\"{}\"", paint(kind, State::Swapped));
            assert_eq!(patterns.matches(&id).count(), 1);
        }
    }
}
