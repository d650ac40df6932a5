//! Line charts as SVG: axes, lines and areas with their names beside them, marks. A chart brings
//! its own background, and colours for light and for dark pages.

use super::results::number;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What was measured.
    #[default]
    Line,
    /// What it is compared with: dashed.
    Dashed,
    /// What was measured, filled down to the axis.
    Area,
}

/// A line or an area.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Written beside it; empty: not named.
    pub name: String,
    /// Below its name, smaller; may be empty.
    pub note: String,
    /// By the horizontal axis, then by the vertical one, in their units.
    pub points: Vec<(f64, f64)>,
    /// Which colour of the palette.
    pub colour: usize,
    /// How it is drawn.
    pub kind: Kind,
}

/// One of the two axes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What it counts, with the unit.
    pub(super) name: String,
    /// The values at its ends, the smaller first; of a logarithmic one above 0.
    pub(super) ends: (f64, f64),
    /// Whether equal distances are equal ratios.
    pub(super) logarithmic: bool,
}

impl Axis {
    /// Where a value lies, from 0 at the first end to 1 at the last.
    fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.logarithmic {
                value.max(f64::MIN_POSITIVE).log10()
            } else {
                value
            }
        };
        let (first, last) = (scaled(self.ends.0), scaled(self.ends.1));
        ((scaled(value) - first) / (last - first)).clamp(0.0, 1.0)
    }

    /// The values with a number beside them: powers of ten, or at most nine round ones.
    fn ticks(&self) -> Vec<f64> {
        let (first, last) = self.ends;
        if self.logarithmic {
            let decades = first.log10().ceil() as i32..=last.log10().floor() as i32;
            return decades.map(|decade| 10f64.powi(decade)).collect();
        }
        let rough = (last - first) / 8.0;
        let decade = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0].map(|step| step * decade);
        let step = steps.into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let count = ((last - first) / step * (1.0 + 1e-9)) as i32;
        (0..=count)
            .map(|index| first + f64::from(index) * step)
            .collect()
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    /// Above it.
    pub(super) title: &'a str,
    /// Below the title, smaller; may be empty.
    pub(super) note: &'a str,
    /// Along it.
    pub(super) across: Axis,
    /// Up it.
    pub(super) up: Axis,
    /// Areas lie below lines.
    pub(super) series: &'a [Series],
    /// A value of the horizontal axis, and what happened there.
    pub(super) marks: &'a [(f64, String)],
}

/// Class `cN` is colour N of the palette: one that the colour-blind can tell from the others (Okabe
/// and Ito), darker on light pages and lighter on dark ones, so that its name can be read.
const STYLE: &str = "\
.chart{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:15px}
.chart .back{fill:#fff;stroke:#d0d7de}
.chart text{fill:#1f2328}
.chart .title{font-size:19px;font-weight:600}
.chart .faint{fill:#59636e}
.chart .small{font-size:13px}
.chart .grid{stroke:#1f2328;stroke-opacity:.12}
.chart .mark{stroke:#59636e;stroke-dasharray:2 3}
.chart .line{fill:none;stroke:currentColor;stroke-width:2.5;stroke-linejoin:round}
.chart .dashed{fill:none;stroke:currentColor;stroke-width:1.5;stroke-dasharray:7 5}
.chart .area{fill:currentColor;fill-opacity:.22;stroke:currentColor;stroke-opacity:.6}
.chart .name{fill:currentColor;font-weight:600}
.chart .c0{color:#0060a8}.chart .c1{color:#b84300}.chart .c2{color:#00724f}.chart .c3{color:#a03c7d}
.chart .c4{color:#1f7fb8}.chart .c5{color:#946200}.chart .c6{color:#57606a}.chart .c7{color:#6b5a00}
@media(prefers-color-scheme:dark){
.chart .back{fill:#0d1117;stroke:#3d444d}
.chart text{fill:#f0f6fc}
.chart .name{fill:currentColor}
.chart .faint{fill:#9198a1}
.chart .grid{stroke:#f0f6fc}
.chart .mark{stroke:#9198a1}
.chart .c0{color:#5ab0f5}.chart .c1{color:#ff9457}.chart .c2{color:#3fcf9f}.chart .c3{color:#e79fc9}
.chart .c4{color:#8fd0f8}.chart .c5{color:#f0b840}.chart .c6{color:#a8b1ba}.chart .c7{color:#d6c24d}
}
";
/// How many colours the style has.
const COLOURS: usize = 8;
/// Pixels of a character of a name, and of the lines of a name and of its note.
const CHARACTER: f64 = 8.4;
const NAME_HEIGHT: f64 = 17.0;
const NOTE_HEIGHT: f64 = 15.0;

/// Where the axes are, in pixels.
#[derive(Clone, Copy, Debug)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Chart<'_> {
    /// The text of an SVG file of so many pixels.
    pub(super) fn svg(&self, width: f64, height: f64) -> String {
        let names = self.names_fit(height);
        let frame = self.frame(width, height, names);
        let mut out = format!(
            "<svg class=\"chart\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"back\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
            escaped(self.title),
            width - 1.0,
            height - 1.0,
        );
        text(&mut out, "title", "start", (16.0, 28.0), self.title);
        text(&mut out, "faint", "start", (16.0, 49.0), self.note);
        self.axes(&mut out, frame);
        self.marks(&mut out, frame);
        for kind in [Kind::Area, Kind::Dashed, Kind::Line] {
            for series in self.series.iter().filter(|series| series.kind == kind) {
                self.draw(&mut out, frame, series);
            }
        }
        if names {
            self.names(&mut out, frame);
        }
        out.push_str("</svg>\n");
        out
    }

    fn frame(&self, width: f64, height: f64, names: bool) -> Frame {
        let named = self.beside().filter(|_| names);
        let longest = named.map(|series| series.name.chars().count().max(series.note.len()));
        let beside = longest
            .max()
            .map_or(8.0, |longest| 12.0 + CHARACTER * longest as f64);
        Frame {
            left: 64.0,
            right: width - beside - 12.0,
            top: if self.note.is_empty() { 64.0 } else { 84.0 },
            bottom: height - 52.0,
        }
    }

    /// The series whose names stand at the right of their last points.
    fn beside(&self) -> impl Iterator<Item = &Series> {
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        named.filter(|series| series.kind != Kind::Area)
    }

    /// Whether there is room for all names, one below the other.
    fn names_fit(&self, height: f64) -> bool {
        self.beside().map(height_of).sum::<f64>() < height - 150.0
    }

    fn pixel(&self, frame: Frame, (x, y): (f64, f64)) -> (f64, f64) {
        (
            frame.left + (frame.right - frame.left) * self.across.place(x),
            frame.bottom - (frame.bottom - frame.top) * self.up.place(y),
        )
    }

    fn axes(&self, out: &mut String, frame: Frame) {
        for tick in self.up.ticks() {
            let (x, y) = self.pixel(frame, (self.across.ends.0, tick));
            rule(out, "grid", (x, y), (frame.right, y));
            text(out, "faint", "end", (x - 8.0, y + 5.0), &number(tick));
        }
        for tick in self.across.ticks() {
            let (x, y) = self.pixel(frame, (tick, self.up.ends.0));
            rule(out, "grid", (x, y), (x, y + 5.0));
            text(out, "faint", "middle", (x, y + 21.0), &number(tick));
        }
        let middle = (frame.left + frame.right) / 2.0;
        text(
            out,
            "faint",
            "middle",
            (middle, frame.bottom + 42.0),
            &self.across.name,
        );
        text(
            out,
            "faint",
            "start",
            (16.0, frame.top - 12.0),
            &self.up.name,
        );
    }

    fn marks(&self, out: &mut String, frame: Frame) {
        for (index, (at, what)) in self.marks.iter().enumerate() {
            let (x, _) = self.pixel(frame, (*at, self.up.ends.0));
            rule(out, "mark", (x, frame.top), (x, frame.bottom));
            let y = frame.top + 12.0 + 16.0 * (index % 3) as f64;
            text(out, "faint small", "start", (x + 4.0, y), what);
        }
    }

    fn draw(&self, out: &mut String, frame: Frame, series: &Series) {
        let pixels = series.points.iter().map(|point| self.pixel(frame, *point));
        let mut pixels: Vec<(f64, f64)> = pixels.collect();
        let (Some(first), Some(last)) = (pixels.first().copied(), pixels.last().copied()) else {
            return;
        };
        let (tag, class) = match series.kind {
            Kind::Line => ("polyline", "line"),
            Kind::Dashed => ("polyline", "dashed"),
            Kind::Area => ("polygon", "area"),
        };
        if series.kind == Kind::Area {
            pixels.extend([(last.0, frame.bottom), (first.0, frame.bottom)]);
        }
        let colour = series.colour % COLOURS;
        let _ = write!(out, "<{tag} class=\"{class} c{colour}\" points=\"");
        for (x, y) in pixels {
            let _ = write!(out, "{x:.1},{y:.1} ");
        }
        out.push_str("\"/>\n");
    }

    fn names(&self, out: &mut String, frame: Frame) {
        let mut places: Vec<(f64, &Series)> = self
            .beside()
            .map(|series| (self.pixel(frame, (0.0, self.end(series))).1, series))
            .collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let heights: Vec<f64> = places.iter().map(|(_, series)| height_of(series)).collect();
        let wanted: Vec<f64> = places.iter().map(|(y, _)| *y).collect();
        let middles = apart(&wanted, &heights, (frame.top, frame.bottom));
        for ((_, series), middle) in places.iter().zip(middles) {
            let y = middle + if series.note.is_empty() { 5.0 } else { -2.0 };
            name(out, "start", (frame.right + 10.0, y), series);
        }
        let areas = self
            .series
            .iter()
            .filter(|series| series.kind == Kind::Area);
        for series in areas.filter(|series| !series.name.is_empty()) {
            let most = series
                .points
                .iter()
                .map(|point| point.1)
                .fold(0.0, f64::max);
            let high = series.points.iter().filter(|point| point.1 > 0.9 * most);
            let high: Vec<f64> = high.map(|point| point.0).collect();
            let (Some(from), Some(to)) = (high.first(), high.last()) else {
                continue;
            };
            let (x, y) = self.pixel(frame, ((from + to) / 2.0, most));
            name(out, "middle", (x, y + 22.0), series);
        }
    }

    /// The last value of a series that is not about 0: programs end before the picture does.
    fn end(&self, series: &Series) -> f64 {
        let values = || series.points.iter().rev().map(|point| point.1);
        let last = values().find(|value| *value > self.up.ends.1 / 50.0);
        last.or_else(|| values().next()).unwrap_or(0.0)
    }
}

/// Pixels that a name takes, with its note.
fn height_of(series: &Series) -> f64 {
    NAME_HEIGHT
        + if series.note.is_empty() {
            0.0
        } else {
            NOTE_HEIGHT
        }
}

/// Moves the middles of boxes, which come from top to bottom, until none covers another and all are
/// within the ends, if there is room.
fn apart(middles: &[f64], heights: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
    let mut moved = middles.to_vec();
    let mut free = top;
    for (middle, height) in moved.iter_mut().zip(heights) {
        *middle = middle.max(free + height / 2.0);
        free = *middle + height / 2.0;
    }
    let mut free = bottom;
    for (middle, height) in moved.iter_mut().zip(heights).rev() {
        *middle = middle.min(free - height / 2.0);
        free = *middle - height / 2.0;
    }
    moved
}

fn name(out: &mut String, anchor: &str, (x, y): (f64, f64), series: &Series) {
    let colour = series.colour % COLOURS;
    text(
        out,
        &format!("name c{colour}"),
        anchor,
        (x, y),
        &series.name,
    );
    text(
        out,
        "faint small",
        anchor,
        (x, y + NOTE_HEIGHT),
        &series.note,
    );
}

fn rule(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// Nothing where there is no text.
fn text(out: &mut String, class: &str, anchor: &str, (x, y): (f64, f64), words: &str) {
    if words.is_empty() {
        return;
    }
    let words = escaped(words);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
    );
}

/// Text as HTML and SVG have it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(first: f64, last: f64, logarithmic: bool) -> Axis {
        Axis {
            name: String::new(),
            ends: (first, last),
            logarithmic,
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            axis(0.0, 1500.0, false).ticks(),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0]
        );
        assert_eq!(axis(0.0, 1.0, false).ticks().len(), 6);
        assert_eq!(axis(1e-3, 90.0, true).ticks().len(), 5);
        for last in [1e-9, 0.7, 3.0, 89.0, 1e12] {
            assert!(axis(0.0, last, false).ticks().len() <= 9, "{last}");
        }
    }

    #[test]
    fn names_move_apart_and_stay_within() {
        let moved = apart(&[10.0, 12.0, 99.0], &[20.0; 3], (0.0, 100.0));
        assert_eq!(moved, [10.0, 30.0, 90.0]);
        assert_eq!(apart(&[95.0, 96.0], &[20.0; 2], (0.0, 100.0)), [70.0, 90.0]);
    }

    #[test]
    fn a_chart_without_anything_is_still_a_picture() {
        let chart = Chart {
            title: "a < b",
            note: "",
            across: axis(0.0, 1e-9, false),
            up: axis(0.0, 1e-9, false),
            series: &[],
            marks: &[],
        };
        let svg = chart.svg(320.0, 200.0);
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        assert!(!svg.contains("\n\n") && !svg.contains("NaN"), "{svg}");
    }
}
