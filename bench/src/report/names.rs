//! Names of the series of a chart. Those of lines are at their right, moved apart so that none covers
//! another; those of areas are inside.

use super::chart::{Axes, Drawn, FAINT, Kind, Root, SIZE, Series, font, write};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Pixels from the top of a name to its note, and from the top of the note to the next name.
const NAME_HEIGHT: i32 = 34;
const NOTE_HEIGHT: i32 = 34;
/// Pixels around names.
const GAP: i32 = 20;

/// The series whose names are written.
pub(super) struct Names<'a> {
    beside: Vec<&'a Series>,
    inside: Vec<&'a Series>,
    /// What no name inside may cover: lines, with and without names.
    lines: Vec<&'a Series>,
    /// Height of a name beside the axes together with its note, pixels.
    height: i32,
}

impl<'a> Names<'a> {
    /// The names of these series. If there is no room for all the names beside the axes, none of these is
    /// written.
    pub(super) fn of(series: &'a [Series]) -> Self {
        let named = series.iter().filter(|series| !series.name.is_empty());
        let (inside, mut beside): (Vec<_>, Vec<_>) = named.partition(|s| s.kind == Kind::Area);
        let noted = beside.iter().any(|series| !series.note.is_empty());
        let height = NAME_HEIGHT + if noted { NOTE_HEIGHT } else { 0 };
        if height * beside.len() as i32 > SIZE.1 as i32 - 300 {
            beside.clear();
        }
        let lines = series.iter().filter(|series| series.kind != Kind::Area);
        Names {
            beside,
            inside,
            lines: lines.collect(),
            height,
        }
    }

    /// Pixels that the names take at the right of the axes: at most a third of the width.
    pub(super) fn room(&self, root: &Root) -> Drawn<i32> {
        let mut room = GAP;
        for series in &self.beside {
            let (name, _) = root.estimate_text_size(&series.name, &name_font(series))?;
            let (note, _) = root.estimate_text_size(&series.note, &note_font())?;
            // Capitals in bold are wider than the estimate.
            room = room.max(2 * GAP + (name + name / 8).max(note) as i32);
        }
        Ok(room.min(SIZE.0 as i32 / 3))
    }

    pub(super) fn draw(&self, root: &Root, axes: &Axes) -> Drawn<()> {
        let (across, up) = (axes.x_range(), axes.y_range());
        let pixel = |value: f64| axes.backend_coord(&(across.end, value));
        let mut beside: Vec<(i32, &Series)> = Vec::new();
        for series in &self.beside {
            let (_, y) = pixel(last(series, up.end / 50.0));
            beside.push((y - self.height / 2, series));
        }
        beside.sort_by_key(|(y, _)| *y);
        let mut tops: Vec<i32> = beside.iter().map(|(y, _)| *y).collect();
        let (right, top) = pixel(up.end);
        move_apart(&mut tops, self.height, (top, pixel(up.start).1));
        for (y, (_, series)) in tops.into_iter().zip(beside) {
            name(root, HPos::Left, (right + GAP, y), series)?;
        }
        let lines: Vec<Vec<(i32, i32)>> = self
            .lines
            .iter()
            .map(|line| line.points.iter().map(|p| axes.backend_coord(p)).collect())
            .collect();
        for series in &self.inside {
            let (x, y) = axes.backend_coord(&summit(series));
            let (width, _) = root.estimate_text_size(&series.name, &name_font(series))?;
            // A summit may be at an edge.
            let half = width as i32 / 2 + GAP;
            let (left, bottom) = axes.backend_coord(&(across.start, up.start));
            let x = x.min(right - half).max(left + half);
            let end = bottom - NAME_HEIGHT - NOTE_HEIGHT;
            let y = free_height((x - half, x + half), (y + GAP, end), &lines);
            name(root, HPos::Center, (x, y), series)?;
        }
        Ok(())
    }
}

/// The top of a name and its note between these edges: the first one from `top` on, but above `end`, at which
/// no line crosses them. `top` where there is none.
fn free_height(
    (left, right): (i32, i32),
    (top, end): (i32, i32),
    lines: &[Vec<(i32, i32)>],
) -> i32 {
    let crossed = |y: i32| {
        let pairs = lines.iter().flat_map(|line| line.windows(2));
        pairs
            .filter(|pair| pair[0].0.max(pair[1].0) >= left && pair[0].0.min(pair[1].0) <= right)
            .any(|pair| {
                let (high, low) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                low >= y && high <= y + NAME_HEIGHT + NOTE_HEIGHT
            })
    };
    let mut tops = (top..end.max(top + 1)).step_by(GAP as usize);
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
fn move_apart(tops: &mut [i32], height: i32, (mut free, mut end): (i32, i32)) {
    for y in tops.iter_mut() {
        *y = free.max(*y);
        free = *y + height;
    }
    for y in tops.iter_mut().rev() {
        *y = (*y).min(end - height);
        end = *y;
    }
}

fn name_font(series: &Series) -> TextStyle<'static> {
    font(31, FontStyle::Bold, series.rgb())
}

fn note_font() -> TextStyle<'static> {
    font(25, FontStyle::Normal, FAINT)
}

fn name(root: &Root, side: HPos, (x, y): (i32, i32), series: &Series) -> Drawn<()> {
    let at = Pos::new(side, VPos::Top);
    write(root, &series.name, &name_font(series).pos(at), (x, y))?;
    let below = (x, y + NAME_HEIGHT);
    write(root, &series.note, &note_font().pos(at), below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_inside_lie_on_no_line() {
        let (edges, room) = ((100, 200), (50, 600));
        assert_eq!(free_height(edges, room, &[]), 50);
        let beside = vec![(0, 60), (90, 60)];
        assert_eq!(free_height(edges, room, &[beside]), 50);
        let across = vec![(0, 60), (300, 70)];
        assert_eq!(free_height(edges, room, &[across]), 90);
        let through = vec![(150, 0), (151, 900)];
        assert_eq!(free_height(edges, room, &[through]), 50, "nowhere else");
    }

    #[test]
    fn names_move_apart_and_stay_within() {
        for (wanted, moved) in [([0, 2, 89], [0, 20, 80]), ([-9, 85, 86], [0, 60, 80])] {
            let mut tops = wanted;
            move_apart(&mut tops, 20, (0, 100));
            assert_eq!(tops, moved);
        }
    }
}
