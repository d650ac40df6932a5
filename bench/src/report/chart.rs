//! Line charts as SVG: lines and areas with their names, and marks. This module says what is drawn;
//! `plotters` draws it.

use super::axis::Axis;
use super::names::Names;
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A solid line: what was measured.
    #[default]
    Line,
    /// A dashed line: what the others are compared with.
    Dashed,
    /// An area that is filled down to the axis.
    Area,
}

/// A line or an area.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The name that is written beside it. Empty: none is written.
    pub name: String,
    /// A smaller text below its name; may be empty.
    pub note: String,
    /// The points: the value on the horizontal axis, then that on the vertical one, in the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// Index of its colour in the palette.
    pub colour: usize,
    /// How it is drawn.
    pub kind: Kind,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    /// The text above the chart.
    pub(super) title: &'a str,
    /// A smaller text below the title; may be empty.
    pub(super) note: &'a str,
    /// The horizontal axis.
    pub(super) across: Axis,
    /// The groups that stand at 0, 1, 2 and so on of the horizontal axis: the middle and the name of each. If
    /// there are any, their names are below the axis, and no numbers.
    pub(super) groups: &'a [(f64, String)],
    /// The vertical axis.
    pub(super) up: Axis,
    /// The lines and areas. Areas are drawn below lines.
    pub(super) series: &'a [Series],
    /// Values of the horizontal axis in order, and what happened there.
    pub(super) marks: &'a [(f64, String)],
}

/// Colours that colour-blind readers can tell apart (Okabe and Ito), made darker so that names in them are
/// readable.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 96, 168),
    RGBColor(184, 67, 0),
    RGBColor(0, 114, 79),
    RGBColor(160, 60, 125),
    RGBColor(31, 127, 184),
    RGBColor(148, 98, 0),
    RGBColor(87, 96, 106),
    RGBColor(107, 90, 0),
];
pub(super) const DARK: RGBColor = RGBColor(31, 35, 40);
pub(super) const FAINT: RGBColor = RGBColor(89, 99, 110);
/// Pixels from the top of the name of a group to that of one below.
const GROUP_HEIGHT: u32 = 36;
/// Width and height of the picture in pixels: twice the size at which it is shown, because the points of
/// lines are rounded to pixels.
pub(super) const SIZE: (u32, u32) = (1920, 880);

pub(super) type Root<'b> = DrawingArea<SVGBackend<'b>, Shift>;
pub(super) type Axes<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn<T> = std::result::Result<T, DrawingAreaErrorKind<std::io::Error>>;

impl Series {
    pub(super) fn rgb(&self) -> RGBColor {
        PALETTE[self.colour % PALETTE.len()]
    }
}

/// What `draw` draws, as the text of an SVG file. `title` names the picture in an error.
///
/// # Errors
/// When it cannot be drawn.
pub(super) fn svg(title: &str, draw: impl FnOnce(&Root) -> Drawn<()>) -> Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let drawn = draw(&root).and_then(|()| root.present());
    drop(root);
    let title = title.to_owned();
    drawn.map_err(|source| Error::Picture { title, source })?;
    Ok(text)
}

impl Chart<'_> {
    /// The text of an SVG file.
    pub(super) fn svg(&self) -> Result<String> {
        svg(self.title, |root| self.draw(root))
    }

    fn draw(&self, root: &Root) -> Drawn<()> {
        root.fill(&WHITE)?;
        write(root, self.title, &font(38, FontStyle::Bold, DARK), (32, 28))?;
        write(
            root,
            self.note,
            &font(31, FontStyle::Normal, FAINT),
            (32, 76),
        )?;
        let names = Names::of(self.series);
        let mut axes = self.axes(root, names.room(root)?)?;
        self.groups(root, &axes)?;
        self.marks(root, &mut axes)?;
        // A thin dashed line can be seen on a solid one of another colour; below it, it could not.
        for kind in [Kind::Area, Kind::Line, Kind::Dashed] {
            for series in self.series.iter().filter(|series| series.kind == kind) {
                self.line(&mut axes, series)?;
            }
        }
        names.draw(root, &axes)
    }

    /// The axes, with `room` pixels for names at their right.
    fn axes<'a, 'b>(&self, root: &'a Root<'b>, room: i32) -> Drawn<Axes<'a, 'b>> {
        let (below, ticks) = match self.groups.is_empty() {
            true => (90, Axis::TICKS),
            false => (2 * GROUP_HEIGHT + 60, 0),
        };
        let mut axes = ChartBuilder::on(root)
            .margin_top(if self.note.is_empty() { 108 } else { 144 })
            .margin_left(24)
            .margin_bottom(20)
            .margin_right(room)
            .x_label_area_size(below)
            .y_label_area_size(124)
            .build_cartesian_2d(self.across.clone(), self.up.clone())?;
        axes.configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(DARK.mix(0.12).stroke_width(2))
            .axis_style(DARK.mix(0.12).stroke_width(2))
            .label_style(font(31, FontStyle::Normal, FAINT))
            .x_labels(ticks)
            .y_labels(Axis::TICKS)
            .set_all_tick_mark_size(8)
            .x_desc(&self.across.name)
            .y_desc(&self.up.name)
            .draw()?;
        Ok(axes)
    }

    /// The names of the groups, in two rows if one has no room for them.
    fn groups(&self, root: &Root, axes: &Axes) -> Drawn<()> {
        let centred = Pos::new(HPos::Center, VPos::Top);
        let style = font(26, FontStyle::Normal, DARK).pos(centred);
        let pixel = |at: f64| axes.backend_coord(&(at, self.up.ends.0));
        let apart = pixel(1.0).0 - pixel(0.0).0;
        let mut rows = 1;
        for (_, name) in self.groups {
            let (width, _) = root.estimate_text_size(name, &style)?;
            if width as i32 > apart {
                rows = 2;
            }
        }
        for (index, (middle, name)) in self.groups.iter().enumerate() {
            let (x, bottom) = pixel(*middle);
            let row = (index % rows) as i32 * GROUP_HEIGHT as i32;
            write(root, name, &style, (x, bottom + 12 + row))?;
        }
        Ok(())
    }

    fn marks(&self, root: &Root, axes: &mut Axes) -> Drawn<()> {
        let style = font(25, FontStyle::Normal, FAINT);
        // Words at one place would cover each other.
        for (index, same) in self.marks.chunk_by(|a, b| a.0 == b.0).enumerate() {
            let (at, first) = &same[0];
            let ends = [(*at, self.up.ends.0), (*at, self.up.ends.1)];
            axes.draw_series(DashedLineSeries::new(ends, 4, 6, FAINT.stroke_width(2)))?;
            let what = match same.len() {
                1 => first.clone(),
                all => format!("{first}, and {} more", all - 1),
            };
            let (x, top) = axes.backend_coord(&ends[1]);
            write(root, &what, &style, (x + 8, top + 32 * (index % 3) as i32))?;
        }
        Ok(())
    }

    fn line(&self, axes: &mut Axes, series: &Series) -> Drawn<()> {
        let colour = series.rgb();
        let points = series.points.iter().copied();
        match series.kind {
            Kind::Line => axes.draw_series(LineSeries::new(points, colour.stroke_width(5)))?,
            Kind::Dashed => {
                let style = colour.stroke_width(3);
                axes.draw_series(DashedLineSeries::new(points, 14, 10, style))?
            }
            Kind::Area => {
                let area = AreaSeries::new(points, self.up.ends.0, colour.mix(0.22));
                axes.draw_series(area.border_style(colour.mix(0.6).stroke_width(2)))?
            }
        };
        Ok(())
    }
}

/// A font of this size. `plotters` expects the height of a line, which is 1.24 times the size of the font.
pub(super) fn font(pixels: u32, weight: FontStyle, colour: RGBColor) -> TextStyle<'static> {
    let family = FontFamily::Name("system-ui, Helvetica, Arial, sans-serif");
    FontDesc::new(family, f64::from(pixels) * 1.24, weight).color(&colour)
}

/// Writes a text, unless it is empty: an empty line in an SVG file would end the picture in Markdown.
pub(super) fn write(root: &Root, words: &str, style: &TextStyle, at: (i32, i32)) -> Drawn<()> {
    match words.is_empty() {
        true => Ok(()),
        false => root.draw_text(words, style, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &str) -> Axis {
        Axis {
            name: name.to_owned(),
            ends: (0.0, 1e-9),
            logarithmic: false,
        }
    }

    #[test]
    fn what_happens_at_one_time_is_written_once() {
        let marks = ["a starts", "b starts", "c ends"].map(|what| (0.0, what.to_owned()));
        let chart = Chart {
            title: "memory",
            note: "",
            across: axis("seconds"),
            groups: &[],
            up: axis("bytes"),
            series: &[],
            marks: &marks,
        };
        let svg = chart.svg().expect("drawn");
        assert!(svg.contains("\na starts, and 2 more\n"), "{svg}");
        assert!(!svg.contains("b starts"), "{svg}");
    }

    #[test]
    fn groups_have_names_and_no_numbers() {
        let groups = [
            (0.4, "short".to_owned()),
            (1.4, "b".repeat(60)),
            (2.4, "c".repeat(60)),
        ];
        let chart = Chart {
            title: "bars",
            note: "",
            across: Axis {
                ends: (0.0, 3.0),
                ..axis("plans")
            },
            groups: &groups,
            up: axis("times"),
            series: &[],
            marks: &[],
        };
        let svg = chart.svg().expect("drawn");
        // The second long name is in the other row.
        let y = |name: &str| {
            let before = &svg[..svg.find(&format!("\n{name}\n")).expect("it is named")];
            before[before.rfind(" y=").expect("it has a place")..].to_owned()
        };
        let heights = groups.each_ref().map(|(_, name)| y(name)[..8].to_owned());
        assert!(
            heights[0] == heights[2] && heights[0] != heights[1],
            "{heights:?}"
        );
        assert!(!svg.contains("\n1\n") && !svg.contains("\n2.5\n"), "{svg}");
    }

    #[test]
    fn a_chart_without_anything_is_still_a_picture() {
        let chart = Chart {
            title: "a < b",
            note: "",
            across: axis("seconds"),
            groups: &[],
            up: axis("bytes"),
            series: &[],
            marks: &[],
        };
        let svg = chart.svg().expect("drawn");
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        assert!(!svg.contains("\n\n"), "{svg}");
    }
}
