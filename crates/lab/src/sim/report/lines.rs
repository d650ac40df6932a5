//! A quantity by the size of the heap: a line for each scheduler, and a panel for each quantity.

use super::super::table::written;
use super::bars::{Panel, change, percent};
use super::data::Group;
use super::legend::{fill, legend, stroke};
use plimsoll_picture::scale::number;
use plimsoll_picture::svg::{Align, Rect, Svg};
use plimsoll_picture::{Scale, WIDTH};

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
        svg.text(
            (left - NUMBERS + 6.0, top - 12.0),
            Align::Start,
            "bold",
            &panel.quantity.label(),
        );
        frame.axes(&mut svg, panel, heaps);
        for (index, name) in schedulers.iter().enumerate() {
            frame.line(&mut svg, panel, (heaps, groups), (index, name));
        }
    }
    svg.inline("By the size of the heap")
}

/// The height of a run's point: its value, or how much more that is than under the first scheduler.
fn point(panel: &Panel, group: &Group, scheduler: usize) -> Option<f64> {
    let value = panel.value(group.outcome(scheduler)?);
    if panel.is_change {
        change(group.outcome(0).map(|it| panel.value(it)), value)
    } else {
        Some(value)
    }
}

struct Frame {
    left: f64,
    right: f64,
    /// Pixel of the lower edge.
    bottom: f64,
    /// The scale of the sizes of heaps, and that of the values.
    x: Scale,
    y: Scale,
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
        let end = |heap: Option<&u64>| heap.copied().unwrap_or_default() as f64;
        let (first, last) = (end(heaps.first()), end(heaps.last()));
        let bottom = top + HEIGHT;
        Frame {
            left,
            right,
            bottom,
            x: Scale::new((first, last), (left + 8.0, right - 8.0)),
            y: Scale::new((low, high), (bottom, top)),
        }
    }

    fn axes(&self, svg: &mut Svg, panel: &Panel, heaps: &[u64]) {
        for tick in self.y.ticks(6) {
            let y = self.y.at(tick);
            let class = if tick == 0.0 { "axis" } else { "grid" };
            svg.line((self.left, y), (self.right, y), class);
            let text = if panel.is_change {
                percent(tick)
            } else {
                number(tick)
            };
            svg.text((self.left - 6.0, y + 4.0), Align::End, "small", &text);
        }
        let bottom = self.bottom;
        let mut free = f64::MIN;
        for &heap in heaps {
            let x = self.x.at(heap as f64);
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            if x >= free {
                let times = number(heap as f64 / 100.0);
                svg.text((x, bottom + 16.0), Align::Middle, "small", &times);
                free = x + 22.0;
            }
        }
        let middle = (self.left + self.right) / 2.0;
        let text = "heap, in largest live sizes";
        svg.text((middle, bottom + 32.0), Align::Middle, "small", text);
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
            .map(|(heap, value)| (self.x.at(*heap as f64), self.y.at(*value)))
            .collect();
        svg.polyline(at.iter().copied(), &stroke(scheduler));
        for ((x, y), (heap, value)) in at.into_iter().zip(points) {
            let value = if panel.is_change {
                percent(value)
            } else {
                written(panel.quantity.unit, value)
            };
            let says = format!("{name}, heap {}: {value}", number(heap as f64 / 100.0));
            let mark = Rect::new(x - MARK / 2.0, y - MARK / 2.0, MARK, MARK);
            svg.rect(mark, &fill(scheduler), &says);
        }
    }
}
