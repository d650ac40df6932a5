//! Plots of utilization over window sizes as SVG.

use super::plot::colour;
use plotters::prelude::*;
use std::path::Path;

/// A line of such a plot.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Shown in the legend.
    pub name: String,
    /// `(seconds, part of the time)`.
    pub points: Vec<(f64, f64)>,
    /// Which colour of the palette.
    pub colour: usize,
    /// Dashed: what others are compared with.
    pub reference: bool,
}

/// Writes curves to `path`.
///
/// # Errors
/// A sentence on what could not be drawn or written.
pub fn save(title: &str, curves: &[Curve], path: &Path) -> Result<(), String> {
    let svg = svg(title, curves)?;
    std::fs::write(path, svg).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn svg(title: &str, curves: &[Curve]) -> Result<String, String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (960, 440)).into_drawing_area();
    draw(&root, title, curves)
        .and_then(|()| root.present())
        .map_err(|e| format!("cannot draw {title:?}: {e}"))?;
    drop(root);
    Ok(text)
}

fn draw<DB: DrawingBackend>(
    root: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    curves: &[Curve],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    root.fill(&WHITE)?;
    let longest = curves.iter().flat_map(|curve| &curve.points);
    let longest = longest.map(|point| point.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(62)
        .build_cartesian_2d((1e-3..longest).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .x_desc("window, seconds")
        .y_desc("bounded mutator utilization")
        .label_style(("sans-serif", 13))
        .draw()?;
    for curve in curves {
        let tint = colour(curve.colour);
        let points = curve.points.iter().copied();
        let drawn = if curve.reference {
            let style = tint.mix(0.75).stroke_width(1);
            chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?
        } else {
            chart.draw_series(LineSeries::new(points, tint.stroke_width(2)))?
        };
        let width = if curve.reference { 1 } else { 3 };
        drawn.label(&curve.name).legend(move |(x, y)| {
            PathElement::new([(x, y), (x + 18, y)], tint.stroke_width(width))
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_curves_and_nothing() {
        let curve = Curve {
            name: "ours".into(),
            points: vec![(1e-3, 0.0), (0.1, 0.4), (10.0, 0.9)],
            colour: 1,
            reference: true,
        };
        let drawn = svg("Utilization", &[curve]).unwrap();
        assert!(drawn.starts_with("<svg") && drawn.contains("ours"));
        assert!(svg("", &[]).unwrap().starts_with("<svg"));
    }
}
