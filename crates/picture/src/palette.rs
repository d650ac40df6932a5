//! The colours of all pictures: of text and axes, and those by which things are told apart.

use std::fmt::Write as _;

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// Colours that colour-blind readers can tell apart (Okabe and Ito), each on a light and on a dark
/// background, where names in it are readable.
const COLOURS: [[Rgb; 2]; 8] = [
    [[0, 96, 168], [84, 163, 232]],
    [[184, 67, 0], [240, 122, 60]],
    [[0, 114, 79], [38, 178, 130]],
    [[160, 60, 125], [222, 140, 190]],
    [[31, 127, 184], [137, 206, 250]],
    [[148, 98, 0], [217, 164, 42]],
    [[87, 96, 106], [145, 152, 161]],
    [[107, 90, 0], [190, 178, 80]],
];

/// The number of the grey among the colours: for what others are compared with.
pub const GREY: usize = 6;

/// Background, text, faint text, lines of a grid; on a light and on a dark screen.
const SCREENS: [[Rgb; 4]; 2] = [
    [
        [255, 255, 255],
        [31, 35, 40],
        [89, 99, 110],
        [216, 222, 228],
    ],
    [[13, 17, 23], [230, 237, 243], [145, 152, 161], [48, 54, 61]],
];

/// How elements look on any screen.
const SHAPES: &str = "\
.picture text{font:12px system-ui,Helvetica,Arial,sans-serif}
.picture .bold{font-weight:600}.picture .small{font-size:11px}.picture .label{font-size:13px}
.picture .title{font-size:19px;font-weight:600}.picture .note{font-size:14px}
.picture .name{font-size:15px;font-weight:600}
.picture .grid,.picture .axis{stroke-width:1}.picture .event{stroke-dasharray:3 4}
.picture .limit{stroke-width:1.5;stroke-dasharray:8 6}
.picture polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.picture .dashed{stroke-width:1.5;stroke-dasharray:7 5}
.picture .dotted{stroke-width:1.5;stroke-dasharray:1.5 4}
.picture .area{fill-opacity:.22;stroke-opacity:.6}
.picture rect{shape-rendering:crispEdges}
";

/// The class that fills with a colour: text in it, too. Numbers beyond the last colour begin again.
pub fn fill(colour: usize) -> String {
    format!("fill{}", colour % COLOURS.len())
}

/// The class of a line in a colour.
pub fn stroke(colour: usize) -> String {
    format!("line{}", colour % COLOURS.len())
}

/// The style of all pictures. Classes: `bold`, `small`, `label`, `note`, `name`, `title`, `faint` of texts;
/// `grid`, `axis`, `event`, `limit` of lines; `dashed`, `dotted`, `area` of series; `mark` of shapes in the
/// colour of text; `paper` of the background; and those of [`fill`] and [`stroke`].
pub fn style() -> String {
    let mut style = SHAPES.to_owned();
    colours(&mut style, 0);
    style.push_str("@media(prefers-color-scheme:dark){");
    colours(&mut style, 1);
    // Its last rule ends with a brace of its own, before the end of the line.
    style.truncate(style.trim_end().len());
    style.push_str("}\n");
    style
}

fn colours(style: &mut String, screen: usize) {
    let [paper, text, faint, grid] = SCREENS[screen].map(hex);
    let _ = writeln!(
        style,
        ".picture .paper{{fill:{paper}}}.picture text,.picture .mark{{fill:{text}}}\
         .picture .small,.picture .faint{{fill:{faint}}}.picture .grid{{stroke:{grid}}}\
         .picture .axis,.picture .event{{stroke:{faint}}}.picture .limit{{stroke:{text}}}"
    );
    for (number, colour) in COLOURS.iter().enumerate() {
        let (fill, stroke, colour) = (fill(number), stroke(number), hex(colour[screen]));
        let _ = write!(
            style,
            ".picture .{fill}{{fill:{colour}}}.picture .{stroke}{{stroke:{colour}}}"
        );
    }
    style.push('\n');
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three parts of a colour as amounts of light, 0 to 1 (sRGB).
    fn light(colour: Rgb) -> [f64; 3] {
        colour.map(|part| {
            let part = f64::from(part) / 255.0;
            match part {
                ..0.04045 => part / 12.92,
                _ => ((part + 0.055) / 1.055).powf(2.4),
            }
        })
    }

    /// The contrast of two colours as WCAG 2 has it, 1 to 21.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let luminance = |colour| {
            let [red, green, blue] = light(colour);
            0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    /// A colour as those see it who have only two kinds of cones (Viénot, Brettel and Mollon, 1999), with the
    /// root of each part taken, as the eye about does.
    fn seen_by_two_kinds_of_cones(colour: Rgb) -> [f64; 3] {
        let [red, green, blue] = light(colour);
        let both = 0.29275 * red + 0.70725 * green;
        let other = (-0.02234 * red + 0.02234 * green + blue).max(0.0);
        [both, both, other].map(f64::cbrt)
    }

    #[test]
    fn names_in_a_colour_can_be_read_on_both_screens() {
        for (screen, [paper, text, faint, _]) in SCREENS.into_iter().enumerate() {
            let all = COLOURS.iter().map(|colour| colour[screen]);
            for colour in all.chain([text, faint]) {
                let found = contrast(colour, paper);
                assert!(found >= 4.3, "{colour:?} on {paper:?}: {found}");
            }
        }
    }

    #[test]
    fn the_first_colours_differ_for_colour_blind_readers() {
        for screen in 0..SCREENS.len() {
            let seen: Vec<[f64; 3]> = COLOURS[..4]
                .iter()
                .map(|colour| seen_by_two_kinds_of_cones(colour[screen]))
                .collect();
            for (at, a) in seen.iter().enumerate() {
                for (other, b) in seen.iter().enumerate().skip(at + 1) {
                    let parts = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
                    let distance = parts.sum::<f64>().sqrt();
                    assert!(distance > 0.1, "{at} and {other} on {screen}: {distance}");
                }
            }
        }
    }

    #[test]
    fn a_style_has_each_class_on_both_screens() {
        let style = style();
        for number in 0..COLOURS.len() {
            for class in [fill(number), stroke(number)] {
                assert_eq!(style.matches(&format!(".{class}{{")).count(), 2, "{class}");
            }
        }
        assert_eq!(fill(COLOURS.len()), fill(0));
        assert_eq!(style.matches('{').count(), style.matches('}').count());
        assert!(!style.contains("\n\n"));
    }
}
