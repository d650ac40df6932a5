//! Charts of lines and areas over an axis, with their names, and marks for what happened.

pub use crate::series::{Kind, Series};

use crate::WIDTH;
use crate::names::Names;
use crate::palette::{fill, stroke};
use crate::scale::{Axis, number};
use crate::series::Frame;
use crate::svg::{Align, Svg, text_width};

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The text above the chart.
    pub title: &'a str,
    /// A smaller text below the title; may be empty.
    pub note: &'a str,
    /// The horizontal axis.
    pub across: Axis<'a>,
    /// The groups that stand at 0, 1, 2 and so on of the horizontal axis: the middle and the name of each. If
    /// there are any, their names are below the axis, and no numbers.
    pub groups: &'a [(f64, String)],
    /// The vertical axis.
    pub up: Axis<'a>,
    /// The lines and areas. Areas are drawn below lines.
    pub series: &'a [Series],
    /// Values of the horizontal axis in order, and what happened there.
    pub marks: &'a [(f64, String)],
}

/// Height of a chart, pixels.
pub const HEIGHT: f64 = 440.0;
/// Left edge of all axes, pixels: numbers stand before it.
const LEFT: f64 = 70.0;
/// Pixels from the top to the base line of the title, of the note, and to the axes without a note.
const TITLE: f64 = 26.0;
const NOTE: f64 = 48.0;
const AXES: f64 = 66.0;
/// Pixels below the axes: to the base line of numbers and groups, from there to a second row of groups, to
/// the name of the axis, and to the end.
const NUMBERS: f64 = 19.0;
const ROW: f64 = 18.0;
const NAME: f64 = 38.0;
const END: f64 = 50.0;
/// Numbers along an axis, about.
const TICKS: u32 = 8;

impl Chart<'_> {
    /// The chart as a file.
    pub fn file(&self) -> String {
        let mut svg = Svg::new(WIDTH);
        self.draw(&mut svg, 0.0, HEIGHT);
        svg.file(self.title, "")
    }

    /// Draws it into a picture, from `top` on, this many pixels high.
    pub fn draw(&self, svg: &mut Svg, top: f64, height: f64) {
        heading(svg, top, self.title, self.note);
        let lower = if self.note.is_empty() {
            0.0
        } else {
            NOTE - TITLE
        };
        let (upper, rows) = (top + AXES + lower, self.rows());
        let bottom = top + height - END - ROW * (rows - 1) as f64;
        let names = Names::of(self.series, bottom - upper);
        let right = WIDTH - names.room();
        let frame = Frame {
            left: LEFT,
            right,
            top: upper,
            bottom,
            x: self.across.scale((LEFT, right)),
            y: self.up.scale((bottom, upper)),
        };
        self.axes(svg, &frame, rows);
        self.marks(svg, &frame);
        // A thin dashed line can be seen on a solid one of another colour; below it, it could not.
        for kind in [Kind::Area, Kind::Line, Kind::Dashed, Kind::Dotted] {
            for series in self.series.iter().filter(|series| series.kind == kind) {
                self.line(svg, &frame, series);
            }
        }
        names.draw(svg, &frame, self.up.ends);
        svg.reach(top + height);
    }

    /// In how many rows the names of groups stand: two if one has no room among the others.
    fn rows(&self) -> usize {
        let apart = (WIDTH - LEFT) / (self.across.ends.1 - self.across.ends.0);
        let wide = |(_, name): &(f64, String)| text_width(name, 13.0) > 0.9 * apart;
        1 + usize::from(self.groups.iter().any(wide))
    }

    fn axes(&self, svg: &mut Svg, frame: &Frame, rows: usize) {
        for tick in frame.y.ticks(TICKS) {
            let y = frame.y.at(tick);
            svg.line((LEFT, y), (frame.right, y), "grid");
            let at = (LEFT - 8.0, y + 4.5);
            svg.text(at, Align::End, "label faint", &number(tick));
        }
        let Frame {
            top, bottom, right, ..
        } = *frame;
        let at = (LEFT - 8.0, top - 12.0);
        svg.text(at, Align::Start, "label faint", self.up.name);
        svg.line((LEFT, bottom), (right, bottom), "axis");
        if self.groups.is_empty() {
            for tick in frame.x.ticks(TICKS) {
                let x = frame.x.at(tick);
                svg.line((x, bottom), (x, bottom + 5.0), "axis");
                let at = (x, bottom + NUMBERS);
                svg.text(at, Align::Middle, "label faint", &number(tick));
            }
        }
        for (index, (middle, name)) in self.groups.iter().enumerate() {
            let row = ROW * (index % rows) as f64;
            let at = (frame.x.at(*middle), bottom + NUMBERS + row);
            svg.text(at, Align::Middle, "label", name);
        }
        let middle = (LEFT + right) / 2.0;
        let at = (middle, bottom + NAME + ROW * (rows - 1) as f64);
        svg.text(at, Align::Middle, "label faint", self.across.name);
    }

    fn marks(&self, svg: &mut Svg, frame: &Frame) {
        // Words at one place would cover each other.
        for (index, same) in self.marks.chunk_by(|a, b| a.0 == b.0).enumerate() {
            let (at, first) = &same[0];
            let x = frame.x.at(*at);
            svg.line((x, frame.bottom), (x, frame.top), "event");
            let text = match same.len() {
                1 => first.clone(),
                all => format!("{first}, and {} more", all - 1),
            };
            let at = (x + 4.0, frame.top + 10.0 + 16.0 * (index % 3) as f64);
            svg.text(at, Align::Start, "label faint", &text);
        }
    }

    fn line(&self, svg: &mut Svg, frame: &Frame, series: &Series) {
        let points = series.points.iter().map(|point| frame.at(*point));
        let stroke = stroke(series.colour);
        let class = match series.kind {
            Kind::Line => stroke,
            Kind::Dashed => format!("{stroke} dashed"),
            Kind::Dotted => format!("{stroke} dotted"),
            Kind::Area => {
                let end = |point: Option<&(f64, f64)>| {
                    point.map(|point| (frame.x.at(point.0), frame.y.at(self.up.ends.0)))
                };
                let (first, last) = (end(series.points.first()), end(series.points.last()));
                let class = format!("{} {stroke} area", fill(series.colour));
                svg.polygon(first.into_iter().chain(points).chain(last), &class, "");
                return;
            }
        };
        svg.polyline(points, &class);
    }
}

/// The title of a picture, and a note below it, from `top` on.
pub fn heading(svg: &mut Svg, top: f64, title: &str, note: &str) {
    svg.text((16.0, top + TITLE), Align::Start, "title", title);
    svg.text((16.0, top + NOTE), Align::Start, "note faint", note);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart<'a>(groups: &'a [(f64, String)], marks: &'a [(f64, String)]) -> Chart<'a> {
        Chart {
            title: "a < b",
            note: "",
            across: Axis::linear("plans", 3.0),
            groups,
            up: Axis::linear("times", 0.0),
            series: &[],
            marks,
        }
    }

    #[test]
    fn what_happens_at_one_time_is_written_once() {
        let marks = ["a starts", "b starts", "c ends"].map(|what| (0.0, what.to_owned()));
        let svg = chart(&[], &marks).file();
        assert!(svg.contains(">a starts, and 2 more<"), "{svg}");
        assert!(!svg.contains("b starts"), "{svg}");
    }

    #[test]
    fn groups_have_names_and_no_numbers() {
        let groups = [
            (0.4, "short".to_owned()),
            (1.4, "b".repeat(60)),
            (2.4, "c".repeat(60)),
        ];
        let svg = chart(&groups, &[]).file();
        // The second long name is in the other row.
        let y = |name: &str| {
            let before = &svg[..svg.find(&format!(">{name}<")).expect("it is named")];
            before[before.rfind(" y=").expect("it has a place")..][..8].to_owned()
        };
        let heights = groups.each_ref().map(|(_, name)| y(name));
        assert!(
            heights[0] == heights[2] && heights[0] != heights[1],
            "{heights:?}"
        );
        assert!(!svg.contains(">1<") && !svg.contains(">2.5<"), "{svg}");
    }

    #[test]
    fn a_chart_without_anything_is_still_a_picture() {
        let svg = chart(&[], &[]).file();
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        assert!(!svg.contains("\n\n") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn each_kind_of_series_is_drawn_and_named() {
        let series = [Kind::Line, Kind::Dashed, Kind::Dotted, Kind::Area].map(|kind| Series {
            name: format!("{kind:?}"),
            note: "weight 10".to_owned(),
            points: vec![(0.0, 1.0), (5.0, 2.0)],
            kind,
            ..Series::default()
        });
        let svg = Chart {
            up: Axis::linear("MiB", 2.0),
            series: &series,
            ..chart(&[], &[])
        }
        .file();
        for series in &series {
            assert!(svg.contains(&format!(">{}<", series.name)), "{svg}");
        }
        for part in ["<polygon", "line0 dashed", "line0 dotted", ">weight 10<"] {
            assert!(svg.contains(part), "{part:?} in {svg}");
        }
    }
}
