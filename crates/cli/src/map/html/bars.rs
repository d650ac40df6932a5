//! A bar for each area, divided by state, with the numbers beside it.

use super::style::paint;
use super::{Look, State, WIDTH};
use crate::picture::scale::size;
use crate::picture::svg::{Align, Box, Svg};
use plimsoll_map::{Kind, States};

/// Where bars begin and end, pixels.
const BARS: (f64, f64) = (132.0, 500.0);
/// Pixels from one row to the next.
const ROW: f64 = 24.0;
/// Pixels of a bar.
const THICK: f64 = 15.0;

/// Where the numbers of a column end, pixels; its head; its number.
type Column = (f64, &'static str, fn(&States) -> u64);
const COLUMNS: [Column; 6] = [
    (586.0, "in memory", |states| states.resident),
    (662.0, "in swap", |states| states.swapped),
    (738.0, "only cached", only_cached),
    (810.0, "shared", |states| states.shared.unwrap_or(0)),
    (886.0, "referenced", |states| states.referenced.unwrap_or(0)),
    (WIDTH, "mapped", |states| states.size),
];

/// Bytes of addresses whose page is in the page cache, and nowhere else. Of a page that the process
/// has a private copy of, the copy counts.
fn only_cached(states: &States) -> u64 {
    let elsewhere = states.resident.saturating_add(states.swapped);
    states
        .cached_only()
        .min(states.size.saturating_sub(elsewhere))
}

/// Bytes that are drawn.
fn held(states: &States) -> u64 {
    let sum = states.resident.saturating_add(states.swapped);
    sum.saturating_add(only_cached(states))
}

/// The bars of a look, and at the end the sums.
pub(super) fn bars(look: &Look) -> String {
    let mut svg = Svg::new(WIDTH);
    for (end, head, _) in COLUMNS {
        svg.words((end, 12.0), Align::End, "small", head);
    }
    let longest = look.areas.iter().map(|area| held(&area.states)).max();
    let longest = longest.unwrap_or(0).max(1);
    let mut top = 20.0;
    for area in &look.areas {
        svg.words((BARS.0 - 8.0, top + 12.0), Align::End, "", area.kind.name());
        bar(&mut svg, top, longest, area.kind, &area.states);
        numbers(&mut svg, top, "", &area.states);
        top += ROW;
    }
    svg.line((0.0, top), (WIDTH, top), "grid");
    svg.words((BARS.0 - 8.0, top + 17.0), Align::End, "bold", "total");
    numbers(&mut svg, top + 5.0, "bold", &look.total);
    legend(&mut svg, top + 40.0);
    svg.finish("Memory by area and state; the numbers stand beside the bars")
}

fn bar(svg: &mut Svg, top: f64, longest: u64, kind: Kind, states: &States) {
    let pixels = |bytes: u64| (BARS.1 - BARS.0) * bytes as f64 / longest as f64;
    let mut x = BARS.0;
    for (state, bytes) in [
        (State::Resident, states.resident),
        (State::Swapped, states.swapped),
        (State::Cached, only_cached(states)),
    ] {
        if bytes == 0 {
            continue;
        }
        // What there is can be seen, however little it is.
        let width = pixels(bytes).max(1.0);
        let says = format!("{}, {}: {}", kind.name(), state.name(), size(bytes));
        let at = Box::new(x, top, width, THICK);
        svg.filled(at, &paint(kind, state), &says);
        x += width;
    }
    let referenced = pixels(states.referenced.unwrap_or(0).min(states.resident));
    if referenced >= 0.5 {
        let at = Box::new(BARS.0, top + THICK + 1.0, referenced, 2.0);
        svg.filled(at, "mark", "");
    }
}

fn numbers(svg: &mut Svg, top: f64, class: &str, states: &States) {
    for (end, _, number) in COLUMNS {
        let number = number(states);
        let (class, text) = match number {
            0 => ("small", "–".to_owned()),
            _ => (class, size(number)),
        };
        svg.words((end, top + 12.0), Align::End, class, &text);
    }
}

/// What the shades mean.
fn legend(svg: &mut Svg, top: f64) {
    let mut x = BARS.0;
    for state in [State::Resident, State::Swapped, State::Cached] {
        svg.filled(Box::new(x, top, 22.0, 12.0), &paint(Kind::Other, state), "");
        svg.words((x + 28.0, top + 10.5), Align::Start, "small", state.name());
        x += 52.0 + 6.0 * state.name().len() as f64;
    }
    svg.filled(Box::new(x, top + 9.0, 22.0, 2.0), "mark", "");
    let words = "referenced (used of late)";
    svg.words((x + 28.0, top + 10.5), Align::Start, "small", words);
}
