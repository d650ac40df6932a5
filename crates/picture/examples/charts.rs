//! Draws charts below each other, as one picture: `charts <charts.json >picture.svg`.
//!
//! The input is a list of objects with `title`, `note`, `across`, `up` (names of the axes), `last` (the end
//! of the vertical axis) and `series`, as [`plimsoll_picture::chart::Series`] is written.

use plimsoll_picture::chart::{Chart, Series};
use plimsoll_picture::{Axis, Svg, WIDTH};
use std::io::{Read, Write};

/// Height of each chart, pixels.
const HEIGHT: f64 = 300.0;

#[derive(serde::Deserialize)]
struct Input {
    title: String,
    note: String,
    across: String,
    up: String,
    last: f64,
    series: Vec<Series>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let charts: Vec<Input> = serde_json::from_str(&text)?;
    let mut svg = Svg::new(WIDTH);
    for (top, input) in (0..).map(|n| f64::from(n) * HEIGHT).zip(&charts) {
        let ends = input.series.iter().flat_map(|series| series.points.last());
        let end = ends.map(|point| point.0).fold(0.0, f64::max);
        let chart = Chart {
            title: &input.title,
            note: &input.note,
            across: Axis::linear(&input.across, end),
            groups: &[],
            up: Axis::linear(&input.up, input.last),
            series: &input.series,
            marks: &[],
        };
        chart.draw(&mut svg, top, HEIGHT);
    }
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    std::io::stdout().write_all(svg.file(&titles.join("; "), "").as_bytes())?;
    Ok(())
}
