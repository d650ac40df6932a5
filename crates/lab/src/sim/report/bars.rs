//! Bars from left to right: a row for each program or collector, with a bar for each scheduler; and beside
//! each other a panel for each quantity.

use super::super::table::written;
use super::data::Group;
use super::legend::{LABELS, fill, legend};
use plimsoll_picture::scale::number;
use plimsoll_picture::svg::{Align, Rect, Svg, shortened};
use plimsoll_picture::{Scale, WIDTH};
use plimsoll_sim::threads::{Outcome, Quantity};

/// Pixels from one bar to the next, of a bar, and between two groups.
const PITCH: f64 = 14.0;
const THICK: f64 = 9.0;
const BETWEEN: f64 = 9.0;
/// Pixels for the number at the end of a bar, and from one panel to the next.
const NUMBER: f64 = 54.0;
const GAP: f64 = 14.0;
/// Changes beyond this are not drawn longer, percent.
const MOST_CHANGE: f64 = 100.0;
/// Changes below this are drawn short, percent.
const FEW_CHANGE: f64 = 2.0;

/// The bars of a quantity.
pub(super) struct Panel {
    pub(super) quantity: &'static Quantity,
    /// Whether bars show how much more or less it is than under the first scheduler, for which the value is
    /// written.
    pub(super) is_change: bool,
}

impl Panel {
    /// A panel of values. `column` names the quantity.
    pub(super) const fn values(column: &str) -> Panel {
        Panel {
            quantity: Quantity::of(column),
            is_change: false,
        }
    }

    /// A panel of changes.
    pub(super) const fn changes(column: &str) -> Panel {
        Panel {
            quantity: Quantity::of(column),
            is_change: true,
        }
    }

    pub(super) fn value(&self, outcome: &Outcome) -> f64 {
        (self.quantity.value)(outcome)
    }
}

/// The picture. `says` tells those who cannot see it what it shows.
pub(super) fn bars(
    groups: &[Group],
    schedulers: &[String],
    panels: &[Panel],
    says: &str,
) -> String {
    let mut svg = Svg::new(WIDTH);
    let top = legend(&mut svg, schedulers) + 34.0;
    let height = PITCH * schedulers.len() as f64 + BETWEEN;
    for (index, group) in groups.iter().enumerate() {
        let y = top + height * index as f64;
        let middle = y + (height - BETWEEN) / 2.0 + 4.0;
        svg.text(
            (LABELS - 10.0, middle),
            Align::End,
            "",
            &shortened(&group.name, 22),
        );
    }
    let bottom = top + height * groups.len() as f64;
    let width = (WIDTH - LABELS) / panels.len().max(1) as f64;
    for (index, panel) in panels.iter().enumerate() {
        let left = LABELS + width * index as f64;
        let frame = Frame::of(panel, groups, (left, left + width - GAP));
        svg.text(
            (left, top - 14.0),
            Align::Start,
            "bold",
            &panel.quantity.label(),
        );
        frame.axis(&mut svg, (top - 4.0, bottom - BETWEEN + 4.0));
        for (row, group) in groups.iter().enumerate() {
            let y = top + height * row as f64;
            draw(&mut svg, panel, group, schedulers, &frame.scale, y);
        }
    }
    svg.inline(says)
}

/// The bars of a group in a panel.
fn draw(svg: &mut Svg, panel: &Panel, group: &Group, schedulers: &[String], scale: &Scale, y: f64) {
    let base = group.outcome(0).map(|it| panel.value(it));
    for (index, scheduler) in schedulers.iter().enumerate() {
        let top = y + PITCH * index as f64;
        let words = |svg: &mut Svg, x: f64, align, words: &str| {
            svg.text((x, top + THICK - 0.5), align, "small", words);
        };
        let Some(value) = group.outcome(index).map(|it| panel.value(it)) else {
            words(svg, scale.at(0.0) + 4.0, Align::Start, "–");
            continue;
        };
        let written = written(panel.quantity.unit, value);
        if !panel.is_change {
            bar(
                svg,
                scale,
                top,
                value,
                index,
                &format!("{}, {scheduler}: {written}", group.name),
            );
            words(svg, scale.at(value) + 4.0, Align::Start, &written);
            continue;
        }
        let Some(change) = change(base, value).filter(|_| index > 0) else {
            words(svg, scale.at(0.0) + 4.0, Align::Start, &written);
            continue;
        };
        let says = format!(
            "{}, {scheduler}: {written}, {}",
            group.name,
            percent(change)
        );
        bar(svg, scale, top, change, index, &says);
        if change < 0.0 {
            words(svg, scale.at(change) - 4.0, Align::End, &percent(change));
        } else {
            words(svg, scale.at(change) + 4.0, Align::Start, &percent(change));
        }
    }
}

fn bar(svg: &mut Svg, scale: &Scale, top: f64, value: f64, index: usize, says: &str) {
    let (zero, end) = (scale.at(0.0), scale.at(value));
    // Even the smallest value can be seen.
    let width = (end - zero).abs().max(if value == 0.0 { 0.0 } else { 1.0 });
    let at = Rect::new(zero.min(end), top, width, THICK);
    svg.rect(at, &fill(index), says);
}

/// How much more a value is than another, percent; `None` where that cannot be said.
pub(super) fn change(base: Option<f64>, value: f64) -> Option<f64> {
    match base? {
        0.0 if value == 0.0 => Some(0.0),
        base if base > 0.0 => Some((value / base - 1.0) * 100.0),
        _ => None,
    }
}

/// A change with its sign.
pub(super) fn percent(change: f64) -> String {
    match change {
        900.0.. => format!("{:.0} times", change / 100.0 + 1.0),
        100.0.. => format!("+{change:.0} %"),
        _ if change.abs() < 0.05 => "0 %".to_owned(),
        _ => format!(
            "{}{:.1} %",
            if change < 0.0 { "−" } else { "+" },
            change.abs()
        ),
    }
}

/// The axis of a panel. `changes`: whether it is of changes.
struct Frame {
    scale: Scale,
    changes: bool,
}

impl Frame {
    fn of(panel: &Panel, groups: &[Group], (left, right): (f64, f64)) -> Frame {
        let mut values = Vec::new();
        for group in groups {
            let base = group.outcome(0).map(|it| panel.value(it));
            for index in 0..group.runs.len() {
                let value = group.outcome(index).map(|it| panel.value(it));
                values.extend(if panel.is_change {
                    value.and_then(|value| change(base, value))
                } else {
                    value
                });
            }
        }
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(0.0, f64::min);
        let right = right - NUMBER;
        if !panel.is_change {
            let high = if high > 0.0 { high } else { 1.0 };
            let scale = Scale::new((0.0, high), (left, right));
            return Frame {
                scale,
                changes: false,
            };
        }
        let (low, high) = (low.max(-MOST_CHANGE), high.min(MOST_CHANGE));
        // Small changes look small, too.
        let short = (FEW_CHANGE - (high - low)).max(0.0);
        let ends = (low - short / 2.0, high + short / 2.0);
        Frame {
            scale: Scale::new(ends, (left + NUMBER, right)),
            changes: true,
        }
    }

    fn axis(&self, svg: &mut Svg, (top, bottom): (f64, f64)) {
        let zero = self.scale.at(0.0);
        svg.line((zero, top), (zero, bottom), "axis");
        if self.changes {
            return;
        }
        for tick in self.scale.ticks(3) {
            let x = self.scale.at(tick);
            if tick != 0.0 {
                svg.line((x, top), (x, bottom), "grid");
            }
            svg.text((x, bottom + 12.0), Align::Middle, "small", &number(tick));
        }
    }
}
