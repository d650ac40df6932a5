//! A quantity by the size of the heap: a line for each scheduler, and a panel for each quantity.

use super::bars::{Panel, change, percent};
use super::data::Group;
use super::{WIDTH, fill, legend, stroke};
use crate::picture::scale::{number, ticks};
use crate::picture::svg::{Align, Box, Svg};

/// Pixels of a panel, of the numbers at its left, and from one panel to the next.
const HEIGHT: f64 = 170.0;
const NUMBERS: f64 = 58.0;
const GAP: f64 = 20.0;
/// Pixels of a mark at a point.
const MARK: f64 = 6.0;
/// The least range of an axis of changes, percent.
const FEW_CHANGE: f64 = 2.0;

/// The picture of groups at these sizes, in hundredths of the largest live size, from small to large.
pub(super) fn lines(
    heaps: &[u64],
    groups: &[Group],
    schedulers: &[String],
    panels: &[Panel],
) -> String {
    let mut svg = Svg::new(WIDTH);
    let top = legend(&mut svg, schedulers) + 30.0;
    let width = WIDTH / panels.len().max(1) as f64;
    for (index, panel) in panels.iter().enumerate() {
        let left = width * index as f64 + NUMBERS;
        let right = width * (index + 1) as f64 - GAP;
        let frame = Frame::of(panel, heaps, groups, (left, right), top);
        svg.words(
            (left - NUMBERS + 6.0, top - 12.0),
            Align::Start,
            "bold",
            panel.title,
        );
        frame.axes(&mut svg, panel, heaps);
        for (index, name) in schedulers.iter().enumerate() {
            frame.line(&mut svg, panel, (heaps, groups), (index, name));
        }
    }
    svg.finish("By the size of the heap")
}

/// What is drawn of a run: its value, or how much more that is than under the first scheduler.
fn point(panel: &Panel, group: &Group, scheduler: usize) -> Option<f64> {
    let value = (panel.value)(group.outcome(scheduler)?);
    match panel.is_change {
        true => change(group.outcome(0).map(panel.value), value),
        false => Some(value),
    }
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    /// Values at both ends of the vertical axis.
    low: f64,
    high: f64,
    /// Sizes at both ends of the horizontal one.
    first: f64,
    last: f64,
}

impl Frame {
    fn of(
        panel: &Panel,
        heaps: &[u64],
        groups: &[Group],
        (left, right): (f64, f64),
        top: f64,
    ) -> Frame {
        let points = || {
            groups
                .iter()
                .flat_map(|group| (0..group.runs.len()).filter_map(|it| point(panel, group, it)))
        };
        let (mut low, mut high) = (points().fold(0.0, f64::min), points().fold(0.0, f64::max));
        if panel.is_change {
            let short = (FEW_CHANGE - (high - low)).max(0.0);
            (low, high) = (low - short / 2.0, high + short / 2.0);
        }
        if high <= low {
            high = low + 1.0;
        }
        Frame {
            left,
            right,
            top,
            low,
            high,
            first: heaps.first().copied().unwrap_or_default() as f64,
            last: heaps.last().copied().unwrap_or_default() as f64,
        }
    }

    fn x(&self, heap: u64) -> f64 {
        let all = (self.last - self.first).max(1.0);
        self.left + 8.0 + (self.right - self.left - 16.0) * (heap as f64 - self.first) / all
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (self.high - value) / (self.high - self.low)
    }

    fn axes(&self, svg: &mut Svg, panel: &Panel, heaps: &[u64]) {
        let up = ticks(self.high, 4);
        let down = ticks(-self.low, 4)
            .into_iter()
            .map(|tick| -tick)
            .filter(|tick| *tick < 0.0);
        // Both halves have the step of the longer one.
        let step = |list: &[f64]| list.get(1).map_or(0.0, |tick| tick.abs());
        let down: Vec<f64> = down.collect();
        let wide = step(&up).max(down.first().map_or(0.0, |tick| tick.abs()));
        let round = |tick: &f64| wide == 0.0 || (tick / wide - (tick / wide).round()).abs() < 1e-6;
        for tick in up.iter().chain(&down).copied().filter(|tick| round(tick)) {
            let y = self.y(tick);
            svg.line(
                (self.left, y),
                (self.right, y),
                if tick == 0.0 { "axis" } else { "grid" },
            );
            let words = match panel.is_change {
                true => percent(tick),
                false => number(tick),
            };
            svg.words((self.left - 6.0, y + 4.0), Align::End, "small", &words);
        }
        let bottom = self.top + HEIGHT;
        let mut free = f64::MIN;
        for &heap in heaps {
            let x = self.x(heap);
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            if x >= free {
                svg.words(
                    (x, bottom + 16.0),
                    Align::Middle,
                    "small",
                    &number(heap as f64 / 100.0),
                );
                free = x + 22.0;
            }
        }
        let words = "heap, in largest live sizes";
        svg.words(
            ((self.left + self.right) / 2.0, bottom + 32.0),
            Align::Middle,
            "small",
            words,
        );
    }

    fn line(
        &self,
        svg: &mut Svg,
        panel: &Panel,
        (heaps, groups): (&[u64], &[Group]),
        (scheduler, name): (usize, &str),
    ) {
        let found = heaps.iter().zip(groups);
        let points: Vec<(u64, f64)> = found
            .filter_map(|(heap, group)| Some((*heap, point(panel, group, scheduler)?)))
            .collect();
        let at: Vec<(f64, f64)> = points
            .iter()
            .map(|(heap, value)| (self.x(*heap), self.y(*value)))
            .collect();
        svg.polyline(&at, &stroke(scheduler));
        for ((x, y), (heap, value)) in at.into_iter().zip(points) {
            let value = match panel.is_change {
                true => percent(value),
                false => (panel.written)(value),
            };
            let says = format!("{name}, heap {}: {value}", number(heap as f64 / 100.0));
            let mark = Box::new(x - MARK / 2.0, y - MARK / 2.0, MARK, MARK);
            svg.filled(mark, &fill(scheduler), &says);
        }
    }
}
