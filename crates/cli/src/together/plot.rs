//! Memory and work over time, as SVG and HTML. This module says what is drawn; `plotters` draws it.
//!
//! For each simulation one picture over the other: what each program has in memory (solid), may use (dashed)
//! and could have (dotted), with the hogs as an area; and below it the work, what each program has allocated.

use super::table::short;
use super::{CliError, Outcome};
use crate::picture::scale;
use crate::picture::svg::escape;
use crate::rows::shown;
use crate::size::Human;
use plimsoll_sim::together::{Point, Program};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Width and height of a picture in pixels.
const SIZE: (u32, u32) = (1100, 340);
/// Height of what stands above the pictures, pixels.
const HEADLINE: u32 = 60;
/// Programs that are named there.
const MOST_NAMED: usize = 4;
/// Numbers along an axis, at most.
const TICKS: usize = 6;
/// Room for names at the right, pixels.
const NAMES: u32 = 190;
/// The longest name that is written, characters.
const LONGEST_NAME: usize = 22;
/// Colours that colour-blind readers can tell apart (Okabe and Ito), made darker.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 96, 168),
    RGBColor(184, 67, 0),
    RGBColor(0, 114, 79),
    RGBColor(160, 60, 125),
    RGBColor(148, 98, 0),
    RGBColor(87, 96, 106),
];
const DARK: RGBColor = RGBColor(31, 35, 40);
const FAINT: RGBColor = RGBColor(89, 99, 110);

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A line: its colour, how it is drawn, its points in seconds and bytes.
struct Line {
    colour: RGBColor,
    style: Style,
    points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Solid,
    Dashed,
    Dotted,
    Area,
}

/// One picture.
struct Picture<'a> {
    title: String,
    seconds: f64,
    names: Vec<(RGBColor, &'a str)>,
    lines: Vec<Line>,
}

/// The text of a file that shows these simulations: HTML if its name ends so, and SVG otherwise.
///
/// # Errors
/// It cannot be drawn.
pub(super) fn file(all: &[Outcome], path: &Path) -> Result<String, CliError> {
    let is_html = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("html") || it.eq_ignore_ascii_case("htm"));
    match is_html {
        true => page(all),
        false => drawn(all),
    }
}

/// A page with these pictures.
///
/// # Errors
/// They cannot be drawn.
pub(super) fn page(all: &[Outcome]) -> Result<String, CliError> {
    let svg = drawn(all)?;
    let title = escape(&headline(all));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n\
         <body style=\"margin:1em;background:#fff\">\n{svg}</body>\n</html>\n"
    ))
}

fn drawn(all: &[Outcome]) -> Result<String, CliError> {
    svg(all).map_err(|error| CliError::Plot {
        name: "plimsoll together".to_owned(),
        why: error.to_string(),
    })
}

/// What is simulated, in one line.
fn headline(all: &[Outcome]) -> String {
    let policies: Vec<&str> = all.iter().map(|one| one.policy.name()).collect();
    let Some(first) = all.first() else {
        return String::new();
    };
    let count = first.programs.len();
    let memory = scale::size(first.memory);
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "{count} program{plural} in {memory}, by {}",
        policies.join(", ")
    )
}

/// What the programs are and when they run, in one line.
fn settings(all: &[Outcome]) -> String {
    let Some(first) = all.first() else {
        return String::new();
    };
    let program = |it: &Program| {
        let start = scale::number(seconds(it.began));
        format!(
            "{} (weight {}) from {start} s",
            shown(&short(&it.name), LONGEST_NAME),
            it.weight
        )
    };
    let all: Vec<String> = first
        .programs
        .iter()
        .take(MOST_NAMED)
        .map(program)
        .collect();
    let more = first.programs.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    all.join(", ") + &more
}

fn svg(all: &[Outcome]) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let names: Vec<Vec<String>> = all.iter().map(names).collect();
    let pictures: Vec<Picture> = all
        .iter()
        .zip(&names)
        .flat_map(|(one, names)| [memory(one, names), work(one, names)])
        .collect();
    let mut text = String::new();
    let count = pictures.len().max(1);
    let root = SVGBackend::with_string(&mut text, (SIZE.0, HEADLINE + SIZE.1 * count as u32));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(headline(all), (10, 8), font(22, DARK)))?;
    root.draw(&Text::new(settings(all), (10, 38), font(14, FAINT)))?;
    let (_, below) = root.split_vertically(HEADLINE);
    for (area, picture) in below.split_evenly((count, 1)).iter().zip(&pictures) {
        picture.draw(area)?;
    }
    root.present()?;
    drop((below, root));
    Ok(text)
}

/// What the programs of a simulation are called, with their weights.
fn names(one: &Outcome) -> Vec<String> {
    let name = |it: &Program| {
        let mut name = format!("{} ({})", shown(&short(&it.name), LONGEST_NAME), it.weight);
        if it.priority != 0 {
            name += &format!(" at {}", it.priority);
        }
        name
    };
    one.programs.iter().map(name).collect()
}

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn line(index: usize, it: &Program, style: Style, value: fn(&Point) -> u64) -> Line {
    let points = it.points.iter();
    Line {
        colour: colour(index),
        style,
        points: points
            .map(|point| (seconds(point.at), value(point) as f64))
            .collect(),
    }
}

fn named(names: &[String]) -> Vec<(RGBColor, &str)> {
    let all = names.iter().enumerate();
    all.map(|(index, name)| (colour(index), name.as_str()))
        .collect()
}

fn memory<'a>(one: &Outcome, names: &'a [String]) -> Picture<'a> {
    let mut lines = Vec::new();
    let mut all = named(names);
    if !one.hogs.is_empty() {
        let points = one.hogs.iter();
        lines.push(Line {
            colour: FAINT,
            style: Style::Area,
            points: points
                .map(|&(at, held)| (seconds(at), held as f64))
                .collect(),
        });
        all.push((FAINT, "hogs"));
    }
    for (index, it) in one.programs.iter().enumerate() {
        lines.push(line(index, it, Style::Solid, |point| point.uses));
        if one.policy.is_brokered() {
            lines.push(line(index, it, Style::Dashed, |point| point.limit));
            lines.push(line(index, it, Style::Dotted, |point| point.available));
        } else {
            lines.push(line(index, it, Style::Dashed, |point| point.heap));
        }
    }
    let dashed = match one.policy.is_brokered() {
        true => "dashed: may use; dotted: could have",
        false => "dashed: size of the heap",
    };
    Picture {
        title: format!(
            "{} in {}: memory in use ({dashed})",
            one.policy.name(),
            Human(one.memory)
        ),
        seconds: seconds(one.ended),
        names: all,
        lines,
    }
}

fn work<'a>(one: &Outcome, names: &'a [String]) -> Picture<'a> {
    let programs = one.programs.iter().enumerate();
    Picture {
        title: format!("{}: work done, as bytes allocated", one.policy.name()),
        seconds: seconds(one.ended),
        names: named(names),
        lines: programs
            .map(|(index, it)| line(index, it, Style::Solid, |point| point.allocated))
            .collect(),
    }
}

impl Picture<'_> {
    fn draw(&self, root: &Root<'_>) -> Drawn {
        let values = self.lines.iter().flat_map(|line| &line.points);
        let top = values.map(|point| point.1).fold(1.0, f64::max);
        // Round numbers of a unit of memory, not of bytes.
        let unit = scale::Unit::of(top as u64);
        let top = top / unit.bytes;
        let mut axes = ChartBuilder::on(root)
            .caption(&self.title, font(17, DARK))
            .margin(10)
            .margin_right(NAMES)
            .x_label_area_size(32)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..self.seconds.max(1e-9), 0.0..top * 1.04)?;
        axes.configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(DARK.mix(0.12))
            .axis_style(DARK.mix(0.4))
            .label_style(font(14, FAINT))
            .x_desc("seconds")
            .y_desc(unit.name)
            .y_labels(TICKS)
            .y_label_formatter(&|value| scale::number(*value))
            .draw()?;
        for line in &self.lines {
            let points = || {
                line.points
                    .iter()
                    .map(|&(at, bytes)| (at, bytes / unit.bytes))
            };
            let thin = line.colour.stroke_width(1);
            match line.style {
                Style::Area => {
                    let area = AreaSeries::new(points(), 0.0, line.colour.mix(0.25));
                    axes.draw_series(area)?;
                }
                Style::Solid => {
                    axes.draw_series(LineSeries::new(points(), line.colour.stroke_width(2)))?;
                }
                Style::Dashed => {
                    axes.draw_series(DashedLineSeries::new(points(), 6, 4, thin))?;
                }
                Style::Dotted => {
                    axes.draw_series(DashedLineSeries::new(points(), 1, 4, thin))?;
                }
            }
        }
        for (index, (colour, name)) in self.names.iter().enumerate() {
            let place = ((SIZE.0 - NAMES) as i32, 44 + 22 * index as i32);
            root.draw(&Text::new((*name).to_owned(), place, font(15, *colour)))?;
        }
        Ok(())
    }
}

fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}
