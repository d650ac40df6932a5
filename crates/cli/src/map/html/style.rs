//! The colour of each area in each state.

use super::State;
use plimsoll_map::Kind;
use std::fmt::Write as _;

/// The class of what is painted: `r3`, `s3`, …
pub(super) fn paint(kind: Kind, state: State) -> String {
    format!("{}{}", state.letter(), kind as usize)
}

/// What the style of a page has of these areas.
pub(super) fn style(kinds: &[Kind]) -> String {
    let mut style = String::new();
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
