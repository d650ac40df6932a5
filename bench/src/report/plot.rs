//! Plots over time as SVG: bytes of some principals, their ideal shares, what happened when.

use plotters::prelude::*;
use std::path::Path;

/// A line of a plot.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Shown in the legend.
    pub name: String,
    /// `(seconds, value)`.
    pub points: Vec<(f64, f64)>,
    /// Which colour of the palette; an ideal line takes that of what it belongs to.
    pub colour: usize,
    /// Dashed: what ought to be, not what was.
    pub ideal: bool,
}

/// A plot of lines over seconds.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Above the picture.
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub unit: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// `(seconds, what happened)`.
    pub events: Vec<(f64, String)>,
    /// Never drawn shorter than this, so that plots side by side compare.
    pub seconds: f64,
    /// Likewise the top of the vertical axis.
    pub top: f64,
}

/// Colours that stay apart for the colour-blind (Okabe and Ito).
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(150, 120, 0),
];

/// A colour of the palette.
pub fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

impl Plot {
    /// Draws the plot as the text of an SVG file.
    ///
    /// # Errors
    /// A sentence on what the drawing library refused.
    pub fn svg(&self, width: u32, height: u32) -> Result<String, String> {
        let mut text = String::new();
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        self.draw(&root)
            .map_err(|e| format!("cannot draw {:?}: {e}", self.title))?;
        root.present()
            .map_err(|e| format!("cannot draw {:?}: {e}", self.title))?;
        drop(root);
        Ok(text)
    }

    /// Writes the plot to `path`.
    ///
    /// # Errors
    /// A sentence on what could not be drawn or written.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let svg = self.svg(960, 440)?;
        std::fs::write(path, svg).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    fn extent(&self) -> (f64, f64) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let right = points().map(|p| p.0).fold(self.seconds, f64::max).max(1e-9);
        let top = points().map(|p| p.1).fold(self.top, f64::max).max(1e-9);
        (right, top * 1.06)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        root.fill(&WHITE)?;
        let (right, top) = self.extent();
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.08))
            .x_desc("seconds")
            .y_desc(&self.unit)
            .label_style(("sans-serif", 13))
            .draw()?;
        for (index, (at, what)) in self.events.iter().enumerate() {
            chart.draw_series(DashedLineSeries::new(
                [(*at, 0.0), (*at, top)],
                2,
                3,
                BLACK.mix(0.4).into(),
            ))?;
            let height = top * (0.985 - 0.045 * (index % 3) as f64);
            chart.draw_series([Text::new(
                what.clone(),
                (*at + right * 0.004, height),
                ("sans-serif", 12),
            )])?;
        }
        for line in &self.lines {
            let tint = colour(line.colour);
            if line.ideal {
                let style = tint.mix(0.75).stroke_width(1);
                chart.draw_series(DashedLineSeries::new(
                    line.points.iter().copied(),
                    6,
                    4,
                    style,
                ))?;
            } else {
                let style = tint.stroke_width(2);
                chart
                    .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                    .label(&line.name)
                    .legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 18, y)], tint.stroke_width(3))
                    });
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_lines_ideals_and_events() {
        let line = |ideal| Line {
            name: "guile".into(),
            points: vec![(0.0, 1.0), (5.0, 2.0)],
            colour: 1,
            ideal,
        };
        let plot = Plot {
            title: "Memory".into(),
            unit: "MiB".into(),
            lines: vec![line(false), line(true)],
            events: vec![(2.0, "hog".into())],
            ..Plot::default()
        };
        let svg = plot.svg(640, 320).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("guile") && svg.contains("hog"));
    }

    #[test]
    fn an_empty_plot_is_still_a_picture() {
        assert!(Plot::default().svg(320, 200).unwrap().starts_with("<svg"));
    }
}
