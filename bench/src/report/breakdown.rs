//! Memory by area and state as stacked bars, as SVG: what is in memory above the line, what is in swap
//! below it, hatched.

use super::axis::Axis;
use super::chart::{DARK, Drawn, FAINT, Root, SIZE, font, svg, write};
use super::recorded::Recorded;
use crate::Result;
use plimsoll_map::attribute::AreaOf;
use plimsoll_map::{Kind, Report, States};
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pixels between the edges of the picture and the bars.
const LEFT: i32 = 170;
const RIGHT: i32 = 1380;
const BOTTOM: i32 = SIZE.1 as i32 - 120;
/// Pixels from one line of hatching to the next, along the axis.
const HATCH: i32 = 14;
/// An area that is less than this part of all bars is drawn with those that have no name.
const SMALL: f64 = 0.015;

/// Stacked bars.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Breakdown {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// What the bars differ in.
    pub across: String,
    /// Where a line is drawn, bytes: what the programs may use; 0: nowhere.
    pub limit: u64,
    /// Of each bar, the one or two lines below it, and the memory of one or several programs, as
    /// [`once`] sums it up.
    pub bars: Vec<(String, Vec<AreaOf>)>,
}

/// Bytes of an area, in memory and in swap.
type Piece = (Kind, [u64; 2]);

/// Where bytes are drawn.
struct Scale {
    /// Pixel of the most that is in memory.
    top: i32,
    /// Pixel of the line.
    zero: i32,
    pixels_per_byte: f64,
    unit: f64,
}

/// The areas of several processes (`plimsoll map --json`), summed up as memory: what a process maps
/// several times counts once, and so does what processes share of files. Of that each is taken to
/// have the same pages as the one that has most.
pub fn once(report: &Report) -> Vec<AreaOf> {
    let mut sums: BTreeMap<Kind, (AreaOf, u64)> = BTreeMap::new();
    for area in report.processes.iter().flat_map(|process| &process.areas) {
        let states = &area.states;
        let resident = states.resident.saturating_sub(states.repeated);
        let shared = match is_of_files(area.kind) {
            true => states.shared.unwrap_or(0).min(resident),
            false => 0,
        };
        let empty = AreaOf {
            states: States::default(),
            ..*area
        };
        let (sum, most) = sums.entry(area.kind).or_insert((empty, 0));
        sum.states.resident += resident - shared;
        sum.states.swapped += states.swapped.saturating_sub(states.repeated_swapped);
        *most = shared.max(*most);
    }
    let add = |(mut sum, shared): (AreaOf, u64)| {
        sum.states.resident += shared;
        sum
    };
    sums.into_values().map(add).collect()
}

/// Whether an area is of files that several processes map.
fn is_of_files(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ClassArchive | Kind::Archives | Kind::Executable | Kind::Libraries | Kind::Files
    )
}

impl Recorded for Breakdown {
    const FOLDER: &'static str = "breakdowns";

    fn svg(&self) -> Result<String> {
        svg(&self.title, |root| self.draw(root))
    }

    /// Bytes are whole.
    fn rounded(&self) -> Breakdown {
        self.clone()
    }
}

impl Breakdown {
    fn draw(&self, root: &Root) -> Drawn<()> {
        root.fill(&WHITE)?;
        write(
            root,
            &self.title,
            &font(38, FontStyle::Bold, DARK),
            (32, 28),
        )?;
        write(
            root,
            &self.note,
            &font(31, FontStyle::Normal, FAINT),
            (32, 76),
        )?;
        let kinds = self.large();
        let bars: Vec<Vec<Piece>> = self
            .bars
            .iter()
            .map(|(_, areas)| pieces(areas, &kinds))
            .collect();
        let scale = self.scale(&bars);
        self.axis(root, &bars, &scale)?;
        let step = (RIGHT - LEFT) / i32::try_from(bars.len().max(1)).unwrap_or(i32::MAX);
        let width = (step * 2 / 3).clamp(1, 220);
        for (index, ((name, _), pieces)) in self.bars.iter().zip(&bars).enumerate() {
            let middle = LEFT + step * index as i32 + step / 2;
            let across = (middle - width / 2, middle + width / 2);
            bar(root, across, pieces, &scale)?;
            let style = font(29, FontStyle::Normal, DARK).pos(Pos::new(HPos::Center, VPos::Top));
            for (line, words) in name.lines().take(2).enumerate() {
                write(
                    root,
                    words,
                    &style,
                    (middle, BOTTOM + 10 + 32 * line as i32),
                )?;
            }
        }
        self.limit(root, &scale)?;
        legend(root, &kinds)?;
        let style = font(29, FontStyle::Normal, FAINT).pos(Pos::new(HPos::Left, VPos::Top));
        write(root, &self.across, &style, (RIGHT + 40, BOTTOM + 44))
    }

    /// The areas that are drawn apart, in their order; the rest is drawn as [`Kind::Other`].
    fn large(&self) -> Vec<Kind> {
        let bytes = |states: &States| (states.resident.saturating_add(states.swapped)) as f64;
        let mut sums: BTreeMap<Kind, f64> = BTreeMap::new();
        for area in self.bars.iter().flat_map(|(_, areas)| areas) {
            *sums.entry(area.kind).or_default() += bytes(&area.states);
        }
        let all: f64 = sums.values().sum();
        let large = sums.iter().filter(|(_, bytes)| **bytes >= SMALL * all);
        let mut kinds: Vec<Kind> = large.map(|(kind, _)| *kind).chain([Kind::Other]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn scale(&self, bars: &[Vec<Piece>]) -> Scale {
        let most = |place: usize| bars.iter().map(|bar| sum(bar, place)).max().unwrap_or(0);
        let (up, down) = (most(0).max(self.limit), most(1));
        let top = if self.note.is_empty() { 120 } else { 156 };
        let pixels_per_byte = f64::from(BOTTOM - top) / up.saturating_add(down).max(1) as f64;
        Scale {
            top,
            zero: top + (up as f64 * pixels_per_byte) as i32,
            pixels_per_byte,
            unit: if up.max(down) < 16 << 30 {
                f64::from(1 << 20)
            } else {
                f64::from(1 << 30)
            },
        }
    }

    fn axis(&self, root: &Root, bars: &[Vec<Piece>], scale: &Scale) -> Drawn<()> {
        let style = font(29, FontStyle::Normal, FAINT).pos(Pos::new(HPos::Right, VPos::Center));
        let most = |place: usize| bars.iter().map(|bar| sum(bar, place)).max().unwrap_or(0);
        let ends = [most(0).max(self.limit), most(1)];
        let axis = Axis {
            name: String::new(),
            ends: (0.0, (ends[0].max(ends[1]) as f64 / scale.unit).max(1e-9)),
            logarithmic: false,
        };
        for tick in axis.key_points(Axis::TICKS) {
            for (direction, end) in [(-1.0, ends[0]), (1.0, ends[1])] {
                let bytes = tick * scale.unit;
                if bytes > end as f64 {
                    continue;
                }
                let y = scale.zero + (direction * bytes * scale.pixels_per_byte) as i32;
                let grid = DARK.mix(0.12).stroke_width(2);
                root.draw(&PathElement::new([(LEFT, y), (RIGHT, y)], grid))?;
                if direction < 0.0 || tick > 0.0 {
                    write(root, &super::results::number(tick), &style, (LEFT - 14, y))?;
                }
            }
        }
        let zero = [(LEFT, scale.zero), (RIGHT, scale.zero)];
        root.draw(&PathElement::new(zero, DARK.stroke_width(3)))?;
        let style = font(29, FontStyle::Normal, FAINT).pos(Pos::new(HPos::Left, VPos::Center));
        let unit = if scale.unit > 2e6 { "GiB" } else { "MiB" };
        write(root, unit, &style, (32, scale.top))?;
        write(root, "in memory", &style, (RIGHT + 40, scale.zero - 28))?;
        match ends[1] {
            0 => Ok(()),
            _ => write(root, "in swap", &style, (RIGHT + 40, scale.zero + 28)),
        }
    }

    fn limit(&self, root: &Root, scale: &Scale) -> Drawn<()> {
        if self.limit == 0 {
            return Ok(());
        }
        let y = scale.zero - (self.limit as f64 * scale.pixels_per_byte) as i32;
        let mut x = LEFT;
        while x < RIGHT {
            let dash = [(x, y), ((x + 16).min(RIGHT), y)];
            root.draw(&PathElement::new(dash, DARK.stroke_width(3)))?;
            x += 28;
        }
        let style = font(29, FontStyle::Normal, DARK).pos(Pos::new(HPos::Left, VPos::Center));
        write(root, "limit", &style, (RIGHT + 14, y))
    }
}

/// Bytes of a bar, in memory (0) or in swap (1).
fn sum(bar: &[Piece], place: usize) -> u64 {
    bar.iter()
        .map(|(_, bytes)| bytes[place])
        .fold(0, u64::saturating_add)
}

/// The pieces of a bar, in the order of the kinds.
fn pieces(areas: &[AreaOf], kinds: &[Kind]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = kinds.iter().map(|kind| (*kind, [0; 2])).collect();
    for area in areas {
        let kind = if kinds.contains(&area.kind) {
            area.kind
        } else {
            Kind::Other
        };
        for (_, bytes) in pieces.iter_mut().filter(|(known, _)| *known == kind) {
            bytes[0] = bytes[0].saturating_add(area.states.resident);
            bytes[1] = bytes[1].saturating_add(area.states.swapped);
        }
    }
    pieces
}

fn colour(kind: Kind) -> RGBColor {
    let [red, green, blue] = kind.colour();
    RGBColor(red, green, blue)
}

fn bar(root: &Root, (left, right): (i32, i32), pieces: &[Piece], scale: &Scale) -> Drawn<()> {
    for (place, direction) in [(0, -1.0), (1, 1.0)] {
        let mut below = 0u64;
        for (kind, bytes) in pieces {
            let at = |bytes: u64| {
                scale.zero + (direction * bytes as f64 * scale.pixels_per_byte).round() as i32
            };
            let (from, to) = (at(below), at(below.saturating_add(bytes[place])));
            below = below.saturating_add(bytes[place]);
            if from != to {
                let corners = [(left, from.min(to)), (right, from.max(to))];
                fill(root, corners, colour(*kind), place == 1)?;
            }
        }
    }
    Ok(())
}

/// A box, filled or hatched.
fn fill(root: &Root, corners: [(i32, i32); 2], colour: RGBColor, hatched: bool) -> Drawn<()> {
    if !hatched {
        return root.draw(&Rectangle::new(corners, colour.filled()));
    }
    root.draw(&Rectangle::new(corners, colour.mix(0.2).filled()))?;
    let [(left, top), (right, bottom)] = corners;
    let height = bottom - top;
    // Lines that rise from left to right, cut at the edges. They begin at multiples, so that those of
    // boxes above one another meet.
    let first = (left + top) / HATCH * HATCH;
    let mut sum = first;
    while sum < right + bottom {
        let (x1, x2) = ((sum - bottom).max(left), (sum - top).min(right));
        if x1 < x2 && height > 0 {
            let line = [(x1, sum - x1), (x2, sum - x2)];
            root.draw(&PathElement::new(line, colour.stroke_width(4)))?;
        }
        sum += HATCH;
    }
    Ok(())
}

/// The areas, in the order in which they lie on one another.
fn legend(root: &Root, kinds: &[Kind]) -> Drawn<()> {
    let style = font(29, FontStyle::Normal, DARK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 170;
    for kind in kinds.iter().rev() {
        let corners = [(RIGHT + 220, y - 13), (RIGHT + 246, y + 13)];
        root.draw(&Rectangle::new(corners, colour(*kind).filled()))?;
        write(root, kind.name(), &style, (RIGHT + 260, y))?;
        y += 38;
    }
    Ok(())
}

#[cfg(test)]
#[path = "breakdown_tests.rs"]
mod tests;
