//! Memory and work over time, as SVG and HTML.
//!
//! For each simulation one picture over the other: what each program has in memory (solid), may use (dashed)
//! and could have (dotted), with the hogs as an area; and below it the work, what each program has allocated.

use super::table::short;
use plimsoll_cli::rows::shown;
use plimsoll_cli::size::{Human, with_unit};
use plimsoll_picture::chart::{Chart, Kind, Series, heading};
use plimsoll_picture::page::document;
use plimsoll_picture::scale::{Unit, number};
use plimsoll_picture::{Axis, Svg, WIDTH, palette};
use plimsoll_sim::together::{Outcome, Point, Program};
use plimsoll_unit::Bytes;
use std::path::Path;

/// Pixels of a picture, and of the text above the pictures.
const HEIGHT: f64 = 340.0;
const HEADLINE: f64 = 60.0;
/// Programs that are named there.
const MOST_NAMED: usize = 4;
/// The longest name that is written, characters.
const LONGEST_NAME: usize = 22;

/// One picture.
struct Picture {
    title: String,
    /// The end of the horizontal axis, seconds.
    seconds: f64,
    /// By seconds and bytes.
    series: Vec<Series>,
}

/// The text of a file that shows these simulations: HTML if its name ends so, and SVG otherwise.
pub(super) fn file(all: &[Outcome], path: &Path) -> String {
    let is_html = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("html") || it.eq_ignore_ascii_case("htm"));
    if is_html { page(all) } else { svg(all) }
}

/// A page with these pictures.
pub(super) fn page(all: &[Outcome]) -> String {
    document(&headline(all), "", None, &svg(all))
}

/// The programs, their memory and the policies, in one line.
fn headline(all: &[Outcome]) -> String {
    let policies: Vec<&str> = all.iter().map(|one| one.policy.name()).collect();
    let Some(first) = all.first() else {
        return String::new();
    };
    let count = first.programs.len();
    let memory = with_unit(first.memory);
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "{count} program{plural} in {memory}, by {}",
        policies.join(", ")
    )
}

/// The programs and when they run, in one line.
fn settings(all: &[Outcome]) -> String {
    let Some(first) = all.first() else {
        return String::new();
    };
    let program = |it: &Program| {
        let start = number(seconds(it.began));
        format!("{} (weight {}) from {start} s", name(it), it.weight)
    };
    let named = first.programs.iter().take(MOST_NAMED);
    let all: Vec<String> = named.map(program).collect();
    let more = first.programs.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    all.join(", ") + &more
}

fn svg(all: &[Outcome]) -> String {
    let mut svg = Svg::new(WIDTH);
    let headline = headline(all);
    heading(&mut svg, 0.0, &headline, &settings(all));
    let pictures = all.iter().flat_map(|one| [memory(one), work(one)]);
    for (nth, picture) in pictures.enumerate() {
        picture.draw(&mut svg, HEADLINE + HEIGHT * nth as f64);
    }
    svg.file(&headline, "")
}

/// A program as it is called.
fn name(it: &Program) -> String {
    shown(&short(&it.name), LONGEST_NAME)
}

/// A program with its weight, and its priority where it has one.
fn weighed(it: &Program) -> String {
    let name = format!("{} ({})", name(it), it.weight);
    match it.priority {
        0 => name,
        priority => format!("{name} at {priority}"),
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A line of a program, without a name.
fn line(index: usize, it: &Program, kind: Kind, value: fn(&Point) -> u64) -> Series {
    let points = it.points.iter();
    Series {
        points: points
            .map(|point| (seconds(point.at), value(point) as f64))
            .collect(),
        colour: index % palette::GREY,
        kind,
        ..Series::default()
    }
}

/// A line of a program, with its name.
fn named(index: usize, it: &Program, value: fn(&Point) -> u64) -> Series {
    Series {
        name: weighed(it),
        ..line(index, it, Kind::Line, value)
    }
}

fn memory(one: &Outcome) -> Picture {
    let mut series = Vec::new();
    if !one.hogs.is_empty() {
        let points = one.hogs.iter();
        series.push(Series {
            name: "hogs".to_owned(),
            points: points
                .map(|&(at, held)| (seconds(at), held as f64))
                .collect(),
            colour: palette::GREY,
            kind: Kind::Area,
            ..Series::default()
        });
    }
    for (index, it) in one.programs.iter().enumerate() {
        series.push(named(index, it, |point| point.uses));
        if one.policy.is_brokered() {
            series.push(line(index, it, Kind::Dashed, |point| point.limit));
            series.push(line(index, it, Kind::Dotted, |point| point.available));
        } else {
            series.push(line(index, it, Kind::Dashed, |point| point.heap));
        }
    }
    let dashed = if one.policy.is_brokered() {
        "dashed: may use; dotted: could have"
    } else {
        "dashed: size of the heap"
    };
    let (policy, memory) = (one.policy.name(), Human(one.memory));
    Picture {
        title: format!("{policy} in {memory}: memory in use ({dashed})"),
        seconds: seconds(one.ended),
        series,
    }
}

fn work(one: &Outcome) -> Picture {
    let programs = one.programs.iter().enumerate();
    Picture {
        title: format!("{}: work done, as bytes allocated", one.policy.name()),
        seconds: seconds(one.ended),
        series: programs
            .map(|(index, it)| named(index, it, |point| point.allocated))
            .collect(),
    }
}

impl Picture {
    fn draw(mut self, svg: &mut Svg, top: f64) {
        let values = self.series.iter().flat_map(|it| &it.points);
        let most = values.map(|point| point.1).fold(1.0, f64::max);
        // Round numbers of a unit of memory, not of bytes.
        let unit = Unit::of(Bytes(most as u64));
        for point in self.series.iter_mut().flat_map(|it| &mut it.points) {
            point.1 /= unit.bytes;
        }
        Chart {
            title: &self.title,
            note: "",
            across: Axis::linear("seconds", self.seconds),
            groups: &[],
            up: Axis::linear(unit.name, most / unit.bytes * 1.04),
            series: &self.series,
            marks: &[],
        }
        .draw(svg, top, HEIGHT);
    }
}
