//! The address space over time: time from left to right, addresses from bottom to top.

use super::rows::{Cell, Row, Rows};
use super::{Look, State, paint};
use crate::size::with_unit;
use plimsoll_map::Kind;
use plimsoll_picture::WIDTH;
use plimsoll_picture::scale::{Unit, number, ticks, timeline};
use plimsoll_picture::svg::{Align, Rect, Svg};
use plimsoll_unit::Bytes;

/// Left and right end of the axes, pixels.
const ACROSS: (f64, f64) = (64.0, 700.0);
/// The right end where there is one look only.
const ONE_LOOK: f64 = 240.0;
/// The upper end of the rows, pixels.
const TOP: f64 = 18.0;
/// Pixels of all rows together.
const HEIGHT: f64 = 480.0;
/// Pixels of a gap.
const GAP: f64 = 6.0;
/// Most columns.
const MOST_COLUMNS: usize = 120;
/// Pixels from one name to the next.
const NAME: f64 = 14.0;
/// Thinner stretches of an area are not named, pixels.
const NAMED: f64 = 3.0;

/// The rows and columns of the picture, and their places.
struct Band<'a> {
    rows: Rows,
    /// Top and height of each row, pixels.
    places: Vec<(f64, f64)>,
    /// The looks that are a column.
    columns: Vec<&'a Look>,
    /// Left edges of the columns, and the right one of the last, pixels.
    edges: Vec<f64>,
    /// The runs of each row.
    runs: Vec<Vec<Run>>,
}

/// Consecutive columns that show the same.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    end: usize,
    cell: Cell,
}

/// Consecutive rows of one area or of a heap, without a gap between them.
struct Stretch {
    first: usize,
    end: usize,
    name: &'static str,
    /// KiB at the most.
    kib: u64,
}

/// The picture, of at most `boxes` boxes if fewer looks do for that; there is one if anything is held.
pub(super) fn band(looks: &[Look], boxes: usize) -> Option<String> {
    let mut svg = Svg::new(WIDTH);
    let band = Band::of(looks, boxes);
    if band.rows.rows.is_empty() {
        return None;
    }
    band.axis(&mut svg);
    band.boxes(&mut svg);
    band.gaps(&mut svg);
    band.names(&mut svg);
    if let [first, .., last] = band.columns.as_slice() {
        let between = (last.seconds - first.seconds) / (band.columns.len() - 1) as f64;
        let seconds = (first.seconds, last.seconds + between);
        timeline(&mut svg, ACROSS, band.bottom() + 2.0, seconds);
    }
    band.legend(&mut svg, band.bottom() + 34.0);
    Some(svg.inline("The address space over time, by area and state"))
}

impl<'a> Band<'a> {
    fn of(looks: &'a [Look], most: usize) -> Band<'a> {
        let rows = Rows::of(looks);
        let places = places(&rows.rows);
        let mut step = looks.len().div_ceil(MOST_COLUMNS).max(1);
        loop {
            let columns: Vec<&Look> = looks.iter().step_by(step).collect();
            let runs = runs(&rows, &columns);
            let boxes: usize = runs.iter().map(Vec::len).sum();
            if boxes <= most || columns.len() <= 1 {
                let edges = edges(&columns);
                return Band {
                    rows,
                    places,
                    columns,
                    edges,
                    runs,
                };
            }
            step *= 2;
        }
    }

    /// Pixels.
    fn bottom(&self) -> f64 {
        self.places
            .first()
            .map_or(TOP, |(top, height)| top + height)
    }

    fn right(&self) -> f64 {
        self.edges.last().copied().unwrap_or(ONE_LOOK)
    }

    /// MiB from the lowest address on.
    fn axis(&self, svg: &mut Svg) {
        let all: u64 = self.rows.rows.iter().map(|row| row.kib << 10).sum();
        let unit = Unit::of(Bytes(all));
        svg.text(
            (0.0, 11.0),
            Align::Start,
            "small",
            &format!("{}, by address", unit.name),
        );
        let mut ticks = ticks((0.0, all as f64 / unit.bytes), 8)
            .into_iter()
            .peekable();
        let mut below = 0.0;
        for (row, (top, height)) in self.rows.rows.iter().zip(&self.places) {
            let held = (row.kib << 10) as f64 / unit.bytes;
            while let Some(tick) = ticks.next_if(|tick| *tick <= below + held) {
                let y = top + height - height * (tick - below) / held.max(f64::MIN_POSITIVE);
                svg.line((ACROSS.0 - 4.0, y), (ACROSS.0, y), "axis");
                svg.text(
                    (ACROSS.0 - 7.0, y + 4.0),
                    Align::End,
                    "small",
                    &number(tick),
                );
            }
            below += held;
        }
        svg.line((ACROSS.0, TOP), (ACROSS.0, self.bottom()), "axis");
    }

    fn boxes(&self, svg: &mut Svg) {
        for ((row, (top, height)), runs) in self.rows.rows.iter().zip(&self.places).zip(&self.runs)
        {
            let addresses = self.rows.addresses(row);
            for run in runs {
                let (left, right) = (self.edges[run.first], self.edges[run.end]);
                let says = format!(
                    "{}, {}\n{:#x} to {:#x}, at most {}",
                    run.cell.kind.name(),
                    run.cell.state.name(),
                    addresses.start,
                    addresses.end,
                    with_unit(row.kib << 10)
                );
                let at = Rect::new(left, *top, right - left, *height);
                svg.rect(at, &paint(run.cell.kind, run.cell.state), &says);
            }
        }
    }

    /// Gaps between addresses, and what is mapped there without holding anything.
    fn gaps(&self, svg: &mut Svg) {
        for (index, _) in self
            .rows
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.after_gap)
        {
            let (top, height) = self.places[index];
            let at = |left: f64, right: f64| {
                Rect::new(left, top + height + 1.0, right - left, GAP - 2.0)
            };
            let mapped: Vec<Option<Kind>> = self
                .columns
                .iter()
                .map(|look| self.rows.in_gap(index, look))
                .collect();
            let mut column = 0;
            for same in mapped.chunk_by(|a, b| a == b) {
                let (left, right) = (self.edges[column], self.edges[column + same.len()]);
                column += same.len();
                if let Some(kind) = same[0] {
                    let says = format!("{}, {}", kind.name(), State::Absent.name());
                    svg.rect(at(left, right), &paint(kind, State::Absent), &says);
                }
            }
        }
    }

    /// Names of the large stretches at the right, as in the last look in which they hold something.
    fn names(&self, svg: &mut Svg) {
        let mut stretches = self.stretches();
        stretches.sort_by_key(|stretch| std::cmp::Reverse(stretch.kib));
        let mut taken: Vec<f64> = Vec::new();
        for stretch in stretches {
            let (top, _) = self.places[stretch.end - 1];
            let (first_top, first_height) = self.places[stretch.first];
            let bottom = first_top + first_height;
            let y = (top + bottom) / 2.0 + 4.0;
            if bottom - top < NAMED || taken.iter().any(|other| (other - y).abs() < NAME) {
                continue;
            }
            taken.push(y);
            let x = self.right();
            svg.line((x + 3.0, top + 0.5), (x + 3.0, bottom - 0.5), "axis");
            let words = format!("{} {}", stretch.name, with_unit(stretch.kib << 10));
            svg.text((x + 9.0, y), Align::Start, "", &words);
            let start = self.rows.addresses(&self.rows.rows[stretch.first]).start;
            let at = if self.columns.len() > 1 {
                WIDTH
            } else {
                x + 290.0
            };
            svg.text((at, y), Align::End, "small", &format!("{start:#x}"));
        }
    }

    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for (index, row) in self.rows.rows.iter().enumerate() {
            let Some(run) = self.runs[index].last() else {
                continue;
            };
            let name = name(run.cell.kind);
            match stretches.last_mut() {
                Some(last) if last.end == index && !row.after_gap && last.name == name => {
                    last.end = index + 1;
                    last.kib += row.kib;
                }
                _ => stretches.push(Stretch {
                    first: index,
                    end: index + 1,
                    name,
                    kib: row.kib,
                }),
            }
        }
        stretches
    }

    /// Which colour is which area.
    fn legend(&self, svg: &mut Svg, top: f64) {
        let cells = self.runs.iter().flatten().map(|run| run.cell.kind);
        let mut kinds: Vec<Kind> = cells.collect();
        kinds.sort_unstable();
        kinds.dedup();
        let entries = kinds
            .iter()
            .map(|&kind| (paint(kind, State::Resident), kind.name()));
        svg.legend((ACROSS.0, WIDTH), top, entries);
    }
}

/// The parts of a heap lie among one another, and have one name here.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Eden | Kind::Survivor | Kind::Old | Kind::Humongous | Kind::FreeHeap => {
            Kind::Heap.name()
        }
        kind => kind.name(),
    }
}

/// Top and height of each row, the lowest address at the bottom. Rows begin where others end, also
/// after rounding: else the page would shine through between them.
fn places(rows: &[Row]) -> Vec<(f64, f64)> {
    let all: u64 = rows.iter().map(|row| row.kib).sum();
    let gaps = rows.iter().filter(|row| row.after_gap).count();
    let bottom = TOP + HEIGHT + GAP * gaps as f64;
    let (mut gaps, mut kib) = (0.0, 0);
    let place = |row: &Row| {
        gaps += if row.after_gap { GAP } else { 0.0 };
        let at = |kib: u64| tenths(bottom - gaps - HEIGHT * kib as f64 / all.max(1) as f64);
        let lower = at(kib);
        kib += row.kib;
        (at(kib), lower - at(kib))
    };
    rows.iter().map(place).collect()
}

/// Pixels.
fn edges(columns: &[&Look]) -> Vec<f64> {
    let [first, .., last] = columns else {
        return vec![ACROSS.0, ONE_LOOK];
    };
    let between = (last.seconds - first.seconds) / (columns.len() - 1) as f64;
    let all = (last.seconds - first.seconds + between).max(f64::MIN_POSITIVE);
    let width = ACROSS.1 - ACROSS.0;
    let edge = |look: &&Look| tenths(ACROSS.0 + width * (look.seconds - first.seconds) / all);
    columns.iter().map(edge).chain([ACROSS.1]).collect()
}

fn tenths(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// The runs of each row: columns that show the same.
fn runs(rows: &Rows, columns: &[&Look]) -> Vec<Vec<Run>> {
    let mut runs: Vec<Vec<Run>> = rows.rows.iter().map(|_| Vec::new()).collect();
    for (column, look) in columns.iter().enumerate() {
        for (runs, cell) in runs.iter_mut().zip(rows.cells(look)) {
            let Some(cell) = cell else { continue };
            match runs.last_mut() {
                Some(run) if run.end == column && run.cell == cell => run.end = column + 1,
                _ => runs.push(Run {
                    first: column,
                    end: column + 1,
                    cell,
                }),
            }
        }
    }
    runs
}
