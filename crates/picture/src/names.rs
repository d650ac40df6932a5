//! Names of the series of a chart. Those of lines are at their right, moved apart so that none covers
//! another; those of areas are inside.

use crate::WIDTH;
use crate::palette::fill;
use crate::series::{Frame, Kind, Series};
use crate::svg::{Align, Svg, text_width};

/// Pixels from the top of a name to its note, and from the top of the note to the next name.
const LINE: f64 = 17.0;
/// Pixels from the top of either to its base line.
const BASE: f64 = 12.0;
/// Pixels around names.
const GAP: f64 = 10.0;

/// The series whose names are written.
pub(crate) struct Names<'a> {
    beside: Vec<&'a Series>,
    inside: Vec<&'a Series>,
    /// Lines, with and without names: no name inside may cover them.
    lines: Vec<&'a Series>,
    /// Height of a name beside the axes together with its note, pixels.
    height: f64,
}

impl<'a> Names<'a> {
    /// The names of these series, beside axes of this height in pixels. If there is no room for all the names
    /// beside the axes, none of these is written.
    pub(crate) fn of(series: &'a [Series], height: f64) -> Self {
        let named = series.iter().filter(|series| !series.name.is_empty());
        let (inside, mut beside): (Vec<_>, Vec<_>) = named.partition(|s| s.kind == Kind::Area);
        let noted = beside.iter().any(|series| !series.note.is_empty());
        let each = if noted { 2.0 * LINE } else { LINE };
        if each * beside.len() as f64 > height {
            beside.clear();
        }
        let lines = series.iter().filter(|series| series.kind != Kind::Area);
        Names {
            beside,
            inside,
            lines: lines.collect(),
            height: each,
        }
    }

    /// Pixels that the names take at the right of the axes: at most a third of the width.
    pub(crate) fn room(&self) -> f64 {
        let widths = self.beside.iter().map(|series| {
            let (name, note) = (name_width(&series.name), text_width(&series.note, 14.0));
            2.0 * GAP + name.max(note)
        });
        widths.fold(2.0 * GAP, f64::max).min(WIDTH / 3.0)
    }

    /// `up`: the values at the ends of the vertical axis.
    pub(crate) fn draw(&self, svg: &mut Svg, frame: &Frame, up: (f64, f64)) {
        let mut beside: Vec<(f64, &Series)> = Vec::new();
        for series in &self.beside {
            let y = frame.y.at(last(series, up.1 / 50.0));
            beside.push((y - self.height / 2.0, series));
        }
        beside.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut tops: Vec<f64> = beside.iter().map(|(y, _)| *y).collect();
        move_apart(&mut tops, self.height, (frame.top, frame.bottom));
        for (y, (_, series)) in tops.into_iter().zip(beside) {
            name(svg, Align::Start, (frame.right + GAP, y), series);
        }
        let lines: Vec<Vec<(f64, f64)>> = self
            .lines
            .iter()
            .map(|line| line.points.iter().map(|point| frame.at(*point)).collect())
            .collect();
        for series in &self.inside {
            let (x, y) = frame.at(summit(series));
            // A summit may be at an edge.
            let half = name_width(&series.name) / 2.0 + GAP;
            let x = x.min(frame.right - half).max(frame.left + half);
            let y = free_height(
                (x - half, x + half),
                (y + GAP, frame.bottom - 2.0 * LINE),
                &lines,
            );
            name(svg, Align::Middle, (x, y), series);
        }
    }
}

/// Letters in bold are wider.
fn name_width(name: &str) -> f64 {
    text_width(name, 16.5)
}

/// The top of a name and its note between these edges: the first one from `top` on, but above `end`, at which
/// no line crosses them. `top` where there is none.
fn free_height(
    (left, right): (f64, f64),
    (top, end): (f64, f64),
    lines: &[Vec<(f64, f64)>],
) -> f64 {
    let crossed = |y: f64| {
        let pairs = lines.iter().flat_map(|line| line.windows(2));
        pairs
            .filter(|pair| pair[0].0.max(pair[1].0) >= left && pair[0].0.min(pair[1].0) <= right)
            .any(|pair| {
                let (high, low) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                low >= y && high <= y + 2.0 * LINE
            })
    };
    let tops = (0..).map(|step| top + GAP * f64::from(step));
    let mut tops = tops.take_while(|y| *y < end);
    tops.find(|y| !crossed(*y)).unwrap_or(top)
}

/// The last value above `floor`. Programs end before the picture does, so the very last values are about 0.
fn last(series: &Series, floor: f64) -> f64 {
    let values = || series.points.iter().rev().map(|point| point.1);
    let last = values().find(|value| *value > floor);
    last.or_else(|| values().next()).unwrap_or(0.0)
}

/// The middle of the part in which a series is near its highest value.
fn summit(series: &Series) -> (f64, f64) {
    let most = series.points.iter().fold(0.0, |most, p| p.1.max(most));
    let mut high = series.points.iter().filter(|point| point.1 >= 0.9 * most);
    let first = high.next().map_or(0.0, |point| point.0);
    let last = high.next_back().map_or(first, |point| point.0);
    ((first + last) / 2.0, most)
}

/// Moves the tops of boxes, which are in order from top to bottom, until no box covers another and all are
/// between `free` and `end`, if there is room.
fn move_apart(tops: &mut [f64], height: f64, (mut free, mut end): (f64, f64)) {
    for y in tops.iter_mut() {
        *y = free.max(*y);
        free = *y + height;
    }
    for y in tops.iter_mut().rev() {
        *y = y.min(end - height);
        end = *y;
    }
}

fn name(svg: &mut Svg, align: Align, (x, y): (f64, f64), series: &Series) {
    let class = format!("name {}", fill(series.colour));
    svg.text((x, y + BASE), align, &class, &series.name);
    svg.text((x, y + LINE + BASE), align, "note faint", &series.note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_inside_lie_on_no_line() {
        let (edges, room) = ((50.0, 100.0), (25.0, 300.0));
        assert_eq!(free_height(edges, room, &[]), 25.0);
        let beside = vec![(0.0, 30.0), (45.0, 30.0)];
        assert_eq!(free_height(edges, room, &[beside]), 25.0);
        let across = vec![(0.0, 30.0), (150.0, 35.0)];
        assert_eq!(free_height(edges, room, &[across]), 45.0);
        let through = vec![(75.0, 0.0), (75.5, 450.0)];
        assert_eq!(free_height(edges, room, &[through]), 25.0, "nowhere else");
    }

    #[test]
    fn names_move_apart_and_stay_within() {
        for (wanted, moved) in [
            ([0.0, 2.0, 89.0], [0.0, 20.0, 80.0]),
            ([-9.0, 85.0, 86.0], [0.0, 60.0, 80.0]),
        ] {
            let mut tops = wanted;
            move_apart(&mut tops, 20.0, (0.0, 100.0));
            assert_eq!(tops, moved);
        }
    }
}
