//! A bar for each area, divided by state, with the numbers beside it.

use super::{Back, Look, State, paint};
use crate::map::number::Number;
use crate::size::with_unit;
use plimsoll_map::attribute::Estimated;
use plimsoll_map::{Kind, States};
use plimsoll_picture::WIDTH;
use plimsoll_picture::svg::{Align, Rect, Svg};
use std::collections::BTreeMap;

/// Where bars begin, pixels.
const LEFT: f64 = 132.0;
/// From the end of the bars to the end of the first column of numbers.
const FIRST: f64 = 86.0;
/// Pixels from one row to the next.
const ROW: f64 = 24.0;
/// Pixels of a bar.
const THICK: f64 = 15.0;

/// A column of numbers: its width, pixels; its head; its number.
type Column = (f64, &'static str, fn(&Row) -> Number);
const COLUMNS: [Column; 7] = [
    (FIRST, "in memory", |row| row.resident()),
    (76.0, "in swap", |row| row.swapped()),
    (76.0, "only cached", |row| row.only_cached()),
    (72.0, "shared", |row| {
        Number::of(row.states.shared, row.estimated.shared)
    }),
    (76.0, "referenced", |row| row.referenced()),
    (REFAULTED.0, REFAULTED.1, |row| row.back.number()),
    (74.0, "mapped", |row| Number::Exact(row.states.size)),
];
/// The column that is there only after a second look: its width, pixels, and its head.
const REFAULTED: (f64, &str) = (72.0, "refaulted");

/// The source of the numbers of a row.
struct Row<'a> {
    states: &'a States,
    estimated: Estimated,
    /// Memory that came back in all looks.
    back: Back,
}

impl Row<'_> {
    fn resident(&self) -> Number {
        Number::of(Some(self.states.resident), self.estimated.resident)
    }

    fn swapped(&self) -> Number {
        Number::of(Some(self.states.swapped), self.estimated.swapped)
    }

    /// The cached memory is known, but not always the part of it that is resident.
    fn only_cached(&self) -> Number {
        let known = self.states.cached.map(|_| only_cached(self.states));
        if self.states.cached_unknown {
            Number::sum(known, true)
        } else {
            Number::of(known, self.estimated.resident)
        }
    }

    fn referenced(&self) -> Number {
        Number::of(self.states.referenced, self.estimated.referenced)
    }
}

/// The numbers of a picture: where each column ends, its head and number.
struct Table(Vec<Column>);

impl Table {
    /// All columns, or all but that of refaults.
    fn new(refaulted: bool) -> Table {
        let columns = COLUMNS.iter().filter(|it| refaulted || it.1 != REFAULTED.1);
        let mut columns: Vec<Column> = columns.copied().collect();
        let mut end = WIDTH;
        for column in columns.iter_mut().rev() {
            let width = std::mem::replace(&mut column.0, end);
            end -= width;
        }
        Table(columns)
    }

    /// Where bars end, pixels.
    fn bars_end(&self) -> f64 {
        self.0.first().map_or(WIDTH, |first| first.0 - FIRST)
    }

    fn heads(&self, svg: &mut Svg) {
        for (end, head, _) in &self.0 {
            svg.text((*end, 12.0), Align::End, "small", head);
        }
    }

    fn numbers(&self, svg: &mut Svg, top: f64, class: &str, row: &Row) {
        for (end, _, number) in &self.0 {
            let number = number(row);
            let class = match number {
                Number::Unknown | Number::Exact(0) => "small",
                _ => class,
            };
            svg.text(
                (*end, top + 12.0),
                Align::End,
                class,
                &number.text(with_unit),
            );
        }
    }
}

/// Bytes of addresses whose page is in the page cache, and nowhere else. Where the process
/// has a private copy of a page, the copy counts.
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

/// The bars of a look, and at the end the sums. `refaulted`: what came back in all looks, by area; empty
/// without a second look.
pub(super) fn bars(look: &Look, refaulted: &BTreeMap<Kind, Back>) -> String {
    let mut svg = Svg::new(WIDTH);
    let table = Table::new(!refaulted.is_empty());
    table.heads(&mut svg);
    let longest = look.areas.iter().map(|area| held(&area.states)).max();
    let scale = (table.bars_end() - LEFT) / longest.unwrap_or(0).max(1) as f64;
    let mut top = 20.0;
    for area in &look.areas {
        svg.text((LEFT - 8.0, top + 12.0), Align::End, "", area.kind.name());
        let row = Row {
            states: &area.states,
            estimated: area.estimated,
            back: refaulted.get(&area.kind).copied().unwrap_or(Back::NONE),
        };
        bar(&mut svg, top, scale, area.kind, &row);
        table.numbers(&mut svg, top, "", &row);
        top += ROW;
    }
    svg.line((0.0, top), (WIDTH, top), "grid");
    svg.text((LEFT - 8.0, top + 17.0), Align::End, "bold", "total");
    let all = Row {
        states: &look.total,
        estimated: Estimated::default(),
        back: Back::sum(refaulted),
    };
    table.numbers(&mut svg, top + 5.0, "bold", &all);
    legend(&mut svg, top + 40.0);
    svg.inline("Memory by area and state; the numbers stand beside the bars")
}

/// `scale`: pixels for a byte.
fn bar(svg: &mut Svg, top: f64, scale: f64, kind: Kind, row: &Row) {
    let states = row.states;
    let pixels = |bytes: u64| scale * bytes as f64;
    let mut x = LEFT;
    for (state, bytes, number) in [
        (State::Resident, states.resident, row.resident()),
        (State::Swapped, states.swapped, row.swapped()),
        (State::Cached, only_cached(states), row.only_cached()),
    ] {
        if bytes == 0 {
            continue;
        }
        // Even the smallest amount can be seen.
        let width = pixels(bytes).max(1.0);
        let says = format!(
            "{}, {}: {}",
            kind.name(),
            state.name(),
            number.text(with_unit)
        );
        let at = Rect::new(x, top, width, THICK);
        svg.rect(at, &paint(kind, state), &says);
        x += width;
    }
    let referenced = pixels(states.referenced.unwrap_or(0).min(states.resident));
    if referenced >= 0.5 {
        let at = Rect::new(LEFT, top + THICK + 1.0, referenced, 2.0);
        svg.rect(at, "mark", "");
    }
}

/// The meaning of the shades.
fn legend(svg: &mut Svg, top: f64) {
    let mut x = LEFT;
    for state in [State::Resident, State::Swapped, State::Cached] {
        svg.rect(
            Rect::new(x, top, 22.0, 12.0),
            &paint(Kind::Other, state),
            "",
        );
        svg.text((x + 28.0, top + 10.5), Align::Start, "small", state.name());
        x += 52.0 + 6.0 * state.name().len() as f64;
    }
    svg.rect(Rect::new(x, top + 9.0, 22.0, 2.0), "mark", "");
    let words = "referenced (used of late)";
    svg.text((x + 28.0, top + 10.5), Align::Start, "small", words);
}
