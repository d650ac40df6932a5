//! Shades of a colour. In pictures of memory the colour is what the memory is for, and the shade is where it
//! is.

use crate::palette::Rgb;
use std::fmt::Write as _;

/// How much of its colour something has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// All of it.
    Full,
    /// Stripes of it.
    Hatched,
    /// Less than half.
    Light,
    /// A trace.
    Faint,
}

impl Shade {
    const ALL: [Shade; 4] = [Shade::Full, Shade::Hatched, Shade::Light, Shade::Faint];

    /// The class of a colour in this shade. `colour` is its number in the list of [`style`].
    pub fn class(self, colour: usize) -> String {
        let letter = match self {
            Shade::Full => 'f',
            Shade::Hatched => 'h',
            Shade::Light => 'l',
            Shade::Faint => 't',
        };
        format!("{letter}{colour}")
    }
}

/// The rules for the classes of these colours, each with its number.
pub fn style(colours: &[(usize, Rgb)]) -> String {
    let mut style = String::new();
    for &(number, [r, g, b]) in colours {
        for shade in Shade::ALL {
            let class = shade.class(number);
            let _ = match shade {
                Shade::Full => writeln!(style, ".{class}{{fill:rgb({r},{g},{b})}}"),
                Shade::Hatched => writeln!(style, ".{class}{{fill:url(#{class})}}"),
                Shade::Light => {
                    writeln!(style, ".{class}{{fill:rgb({r},{g},{b});fill-opacity:.42}}")
                }
                Shade::Faint => {
                    writeln!(style, ".{class}{{fill:rgb({r},{g},{b});fill-opacity:.1}}")
                }
            };
        }
    }
    style
}

/// The stripes that [`style`] refers to, as an element within SVG. A page has them once, anywhere.
pub fn patterns(colours: &[(usize, Rgb)]) -> String {
    let mut text = "<defs>\n".to_owned();
    for &(number, [r, g, b]) in colours {
        let id = Shade::Hatched.class(number);
        let _ = writeln!(
            text,
            "<pattern id=\"{id}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"rgb({r},{g},{b})\" \
             fill-opacity=\".22\"/><rect width=\"2.2\" height=\"5\" fill=\"rgb({r},{g},{b})\"/></pattern>"
        );
    }
    text.push_str("</defs>\n");
    text
}

/// The elements that a file needs for the classes of these colours.
pub fn elements(colours: &[(usize, Rgb)]) -> String {
    format!("<style>\n{}</style>\n{}", style(colours), patterns(colours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_its_own_class_in_every_shade() {
        let colours = [(0, [1, 2, 3]), (11, [4, 5, 6])];
        let (style, patterns) = (style(&colours), patterns(&colours));
        for (number, _) in colours {
            for shade in Shade::ALL {
                let class = format!(".{}{{", shade.class(number));
                assert_eq!(style.matches(&class).count(), 1, "{class}");
            }
            let id = format!("id=\"{}\"", Shade::Hatched.class(number));
            assert_eq!(patterns.matches(&id).count(), 1);
        }
        assert!(style.contains(".l11{fill:rgb(4,5,6);fill-opacity:.42}"));
    }
}
