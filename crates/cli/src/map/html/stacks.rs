//! The areas over time, stacked: what is in memory above the line, what is in swap below it.

use super::{Look, State, paint};
use crate::size::with_unit;
use plimsoll_map::{Kind, States};
use plimsoll_picture::WIDTH;
use plimsoll_picture::scale::{Unit, number, ticks, timeline};
use plimsoll_picture::svg::{Align, Rect, Svg};
use plimsoll_unit::Bytes;

/// Left and right end of the axes, pixels.
const ACROSS: (f64, f64) = (64.0, 740.0);
const TOP: f64 = 24.0;
/// Pixels of both stacks together.
const HEIGHT: f64 = 300.0;
/// Thinner areas are not named, pixels.
const NAMED: f64 = 13.0;

/// A stack of areas.
struct Stack<'a> {
    state: State,
    of: fn(&States) -> u64,
    looks: &'a [Look],
    /// Pixel of 0, and pixels for each byte: below 0 upwards.
    zero: f64,
    scale: f64,
}

/// The picture; there is one from two looks on.
pub(super) fn stacks(looks: &[Look], kinds: &[Kind]) -> Option<String> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return None;
    };
    if last.seconds <= first.seconds {
        return None;
    }
    let most = |of: fn(&States) -> u64| looks.iter().map(|look| sum(look, of)).max().unwrap_or(0);
    let (resident, swapped) = (most(|s| s.resident), most(|s| s.swapped));
    let scale = HEIGHT / resident.saturating_add(swapped).max(1) as f64;
    let zero = TOP + resident as f64 * scale;
    let mut svg = Svg::new(WIDTH);
    let unit = Unit::of(Bytes(resident.max(swapped)));
    grid(&mut svg, unit, (resident, swapped), zero, scale);
    let stack = |state, of, scale| Stack {
        state,
        of,
        looks,
        zero,
        scale,
    };
    stack(State::Resident, |s| s.resident, -scale).draw(&mut svg, kinds);
    stack(State::Swapped, |s| s.swapped, scale).draw(&mut svg, kinds);
    svg.line((ACROSS.0, zero), (ACROSS.1, zero), "axis");
    let bottom = zero + swapped as f64 * scale;
    let seconds = (first.seconds, last.seconds);
    timeline(&mut svg, ACROSS, bottom + 2.0, seconds);
    Some(svg.inline("Memory of each area over time, what is in swap below the line"))
}

/// Bytes of all areas.
fn sum(look: &Look, of: fn(&States) -> u64) -> u64 {
    look.areas.iter().map(|area| of(&area.states)).sum()
}

fn grid(svg: &mut Svg, unit: Unit, (up, down): (u64, u64), zero: f64, scale: f64) {
    let step = ticks((0.0, up.max(down) as f64 / unit.bytes), 6);
    for (most, direction) in [(up, -1.0), (down, 1.0)] {
        for tick in step.iter().filter(|t| **t * unit.bytes <= most as f64) {
            let y = zero + direction * tick * unit.bytes * scale;
            svg.line((ACROSS.0, y), (ACROSS.1, y), "grid");
            let of_zero = direction > 0.0 && *tick == 0.0;
            if !of_zero {
                svg.text(
                    (ACROSS.0 - 6.0, y + 4.0),
                    Align::End,
                    "small",
                    &number(*tick),
                );
            }
        }
    }
    let words = match down {
        0 => format!("{} in memory; nothing is in swap", unit.name),
        _ => format!("{} in memory above the line, in swap below it", unit.name),
    };
    svg.text((0.0, 11.0), Align::Start, "small", &words);
}

impl Stack<'_> {
    fn draw(&self, svg: &mut Svg, kinds: &[Kind]) {
        let mut bases = vec![0u64; self.looks.len()];
        for &kind in kinds {
            let bytes: Vec<u64> = self
                .looks
                .iter()
                .map(|look| self.bytes(look, kind))
                .collect();
            let most = bytes.iter().copied().max().unwrap_or(0);
            if most == 0 {
                continue;
            }
            let tops: Vec<u64> = bases
                .iter()
                .zip(&bytes)
                .map(|(base, b)| base.saturating_add(*b))
                .collect();
            let says = format!(
                "{}, {}: at most {}",
                kind.name(),
                self.state.name(),
                with_unit(most)
            );
            let upper = self.points(&tops);
            let lower = self.points(&bases).rev();
            svg.polygon(upper.chain(lower), &paint(kind, self.state), &says);
            self.name(svg, kind, (&bases, &tops));
            bases = tops;
        }
    }

    fn bytes(&self, look: &Look, kind: Kind) -> u64 {
        let area = look.areas.iter().find(|area| area.kind == kind);
        area.map_or(0, |area| (self.of)(&area.states))
    }

    fn points<'b>(&'b self, values: &'b [u64]) -> impl DoubleEndedIterator<Item = (f64, f64)> + 'b {
        let first = self.looks.first().map_or(0.0, |look| look.seconds);
        let last = self.looks.last().map_or(1.0, |look| look.seconds);
        self.looks.iter().zip(values).map(move |(look, value)| {
            let part = (look.seconds - first) / (last - first);
            let x = ACROSS.0 + (ACROSS.1 - ACROSS.0) * part;
            (x, self.zero + self.scale * *value as f64)
        })
    }

    /// At the right end, where there is room.
    fn name(&self, svg: &mut Svg, kind: Kind, (bases, tops): (&[u64], &[u64])) {
        let (Some(base), Some(top)) = (bases.last(), tops.last()) else {
            return;
        };
        let bytes = top.saturating_sub(*base);
        if bytes as f64 * self.scale.abs() < NAMED {
            return;
        }
        let y = self.zero + self.scale * (*base as f64 + bytes as f64 / 2.0);
        let key = Rect::new(ACROSS.1 + 8.0, y - 5.0, 10.0, 10.0);
        svg.rect(key, &paint(kind, self.state), "");
        let words = format!("{} {}", kind.name(), with_unit(bytes));
        svg.text((ACROSS.1 + 24.0, y + 4.0), Align::Start, "", &words);
    }
}
