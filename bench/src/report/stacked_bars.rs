//! Memory by area and state as stacked bars, as SVG: what is in memory above the line, what is in swap
//! below it, hatched.

use plimsoll_map::attribute::AreaOf;
use plimsoll_map::{Kind, Report, States};
use plimsoll_picture::chart::heading;
use plimsoll_picture::scale::{Unit, number, ticks};
use plimsoll_picture::shade::{Shade, elements};
use plimsoll_picture::{Align, Rect, Svg, WIDTH};
use plimsoll_unit::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pixels between the edges of the picture and the bars.
const LEFT: f64 = 85.0;
const RIGHT: f64 = 690.0;
const BOTTOM: f64 = 380.0;
/// Where the legend is.
const LEGEND: f64 = 800.0;
/// An area that is less than this part of all bars is drawn with those that have no name.
const SMALL: f64 = 0.015;

/// Stacked bars.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Breakdown {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// The difference between the bars.
    pub across: String,
    /// Where a line is drawn, bytes: what the programs may use; 0: nowhere.
    pub limit: u64,
    /// For each bar the one or two lines below it, and the memory of one or several programs, as [`once`]
    /// sums it up.
    pub bars: Vec<(String, Vec<AreaOf>)>,
}

/// Bytes of an area, in memory and in swap.
type Piece = (Kind, [u64; 2]);

/// Where bytes are drawn.
struct Scale {
    /// Pixel of the most that is in memory, and of the line.
    top: f64,
    zero: f64,
    pixels_per_byte: f64,
    /// The most bytes of a bar, in memory and in swap.
    most: [u64; 2],
}

impl Scale {
    /// The pixel of bytes in memory (0) or in swap (1).
    fn at(&self, bytes: u64, place: usize) -> f64 {
        let up = if place == 0 { -1.0 } else { 1.0 };
        self.zero + up * bytes as f64 * self.pixels_per_byte
    }
}

/// The areas of several processes (`plimsoll map --json`), summed up as memory: pages that a process maps
/// several times count once, and so do pages of files that processes share. Each process is taken to share
/// the same pages as the one that has most.
pub fn once(report: &Report) -> Vec<AreaOf> {
    let mut sums: BTreeMap<Kind, (AreaOf, u64)> = BTreeMap::new();
    for area in report.processes.iter().flat_map(|process| &process.areas) {
        let states = &area.states;
        let resident = states.resident.saturating_sub(states.repeated);
        let shared = if is_of_files(area.kind) {
            states.shared.unwrap_or(0).min(resident)
        } else {
            0
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

impl Breakdown {
    /// The picture as the text of an SVG file.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH);
        heading(&mut svg, 0.0, &self.title, &self.note);
        let kinds = self.large();
        let bars: Vec<Vec<Piece>> = self
            .bars
            .iter()
            .map(|(_, areas)| pieces(areas, &kinds))
            .collect();
        let scale = self.scale(&bars);
        scale.axis(&mut svg);
        let step = (RIGHT - LEFT) / bars.len().max(1) as f64;
        let width = (step * 2.0 / 3.0).min(110.0);
        for (index, ((name, _), pieces)) in self.bars.iter().zip(&bars).enumerate() {
            let middle = LEFT + step * (index as f64 + 0.5);
            let across = (middle - width / 2.0, middle + width / 2.0);
            bar(&mut svg, across, pieces, &scale);
            for (line, words) in name.lines().take(2).enumerate() {
                let at = (middle, BOTTOM + 18.0 + 16.0 * line as f64);
                svg.text(at, Align::Middle, "label", words);
            }
        }
        if self.limit > 0 {
            let y = scale.at(self.limit, 0);
            svg.line((LEFT, y), (RIGHT, y), "limit");
            svg.text((RIGHT + 7.0, y + 4.5), Align::Start, "label", "limit");
        }
        legend(&mut svg, &kinds);
        let at = (RIGHT + 20.0, BOTTOM + 34.0);
        svg.text(at, Align::Start, "label faint", &self.across);
        let colours: Vec<_> = kinds.iter().map(|it| (*it as usize, it.colour())).collect();
        svg.file(&self.title, &elements(&colours))
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
        let most = [most(0).max(self.limit), most(1)];
        let top = if self.note.is_empty() { 60.0 } else { 78.0 };
        let pixels_per_byte = (BOTTOM - top) / most[0].saturating_add(most[1]).max(1) as f64;
        Scale {
            top,
            zero: top + most[0] as f64 * pixels_per_byte,
            pixels_per_byte,
            most,
        }
    }
}

impl Scale {
    fn axis(&self, svg: &mut Svg) {
        let longest = self.most[0].max(self.most[1]);
        let unit = Unit::of(Bytes(longest));
        for tick in ticks((0.0, longest as f64 / unit.bytes), 8) {
            let bytes = (tick * unit.bytes) as u64;
            for place in 0..2 {
                // Both directions share the line.
                if bytes > self.most[place] || (place == 1 && tick == 0.0) {
                    continue;
                }
                let y = self.at(bytes, place);
                svg.line((LEFT, y), (RIGHT, y), "grid");
                let at = (LEFT - 7.0, y + 4.5);
                svg.text(at, Align::End, "label faint", &number(tick));
            }
        }
        svg.line((LEFT, self.zero), (RIGHT, self.zero), "axis");
        svg.text(
            (16.0, self.top + 4.5),
            Align::Start,
            "label faint",
            unit.name,
        );
        let x = RIGHT + 20.0;
        svg.text(
            (x, self.zero - 10.0),
            Align::Start,
            "label faint",
            "in memory",
        );
        if self.most[1] > 0 {
            svg.text(
                (x, self.zero + 18.0),
                Align::Start,
                "label faint",
                "in swap",
            );
        }
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

fn bar(svg: &mut Svg, across: (f64, f64), pieces: &[Piece], scale: &Scale) {
    for (place, shade) in [Shade::Full, Shade::Hatched].into_iter().enumerate() {
        let mut below = 0u64;
        for (kind, bytes) in pieces.iter().filter(|(_, bytes)| bytes[place] > 0) {
            let end = below.saturating_add(bytes[place]);
            let at = Rect::between(across, (scale.at(below, place), scale.at(end, place)));
            svg.rect(at, &shade.class(*kind as usize), "");
            below = end;
        }
    }
}

/// The areas, in the order in which they lie on one another.
fn legend(svg: &mut Svg, kinds: &[Kind]) {
    let mut y = 85.0;
    for kind in kinds.iter().rev() {
        let square = Rect::new(LEGEND, y - 6.5, 13.0, 13.0);
        svg.rect(square, &Shade::Full.class(*kind as usize), "");
        svg.text((LEGEND + 20.0, y + 4.5), Align::Start, "label", kind.name());
        y += 19.0;
    }
}

#[cfg(test)]
#[path = "stacked_bars_tests.rs"]
mod tests;
