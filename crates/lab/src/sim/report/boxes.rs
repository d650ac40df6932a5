//! Box plots of the pauses of threads (Figure 4 of the paper): from the lower to the upper quarter, with the
//! median and the ends.

use super::super::table::ratio;
use super::data::Group;
use super::legend::{LABELS, fill, legend};
use plimsoll_picture::scale::number;
use plimsoll_picture::svg::{Align, Rect, Svg, shortened};
use plimsoll_picture::{Scale, WIDTH};
use plimsoll_sim::threads::Quartiles;

/// Pixels from one box to the next, of a box, and of the axis below a group.
const PITCH: f64 = 18.0;
const THICK: f64 = 11.0;
const AXIS: f64 = 30.0;
/// Pixels at the right for the numbers.
const NUMBERS: f64 = 190.0;
/// A line that goes further than this many times the largest upper quarter is cut.
const FURTHEST: f64 = 2.0;

/// The picture: a group with an axis of its own for each program.
pub(super) fn boxes(groups: &[Group], schedulers: &[String]) -> String {
    let mut svg = Svg::new(WIDTH);
    let mut y = legend(&mut svg, schedulers) + 26.0;
    svg.text(
        (LABELS, y - 8.0),
        Align::Start,
        "bold",
        "pauses of a thread, ns for each byte that it allocates",
    );
    svg.text((WIDTH, y - 8.0), Align::End, "small", "median; greatest");
    for group in groups {
        draw(&mut svg, group, schedulers, y);
        y += PITCH * schedulers.len() as f64 + AXIS;
    }
    svg.inline("Box plots of the pauses of threads, for each byte that they allocate")
}

fn draw(svg: &mut Svg, group: &Group, schedulers: &[String], top: f64) {
    let quartiles = |index: usize| group.outcome(index).map(|outcome| outcome.thread_pauses);
    let all: Vec<Quartiles> = (0..schedulers.len()).filter_map(quartiles).collect();
    let most = |of: fn(&Quartiles) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let (greatest, upper) = (most(|it| it.greatest), most(|it| it.upper));
    let end = if upper > 0.0 {
        greatest.min(FURTHEST * upper)
    } else {
        greatest
    };
    let end = if end > 0.0 { end } else { 1.0 };
    let right = WIDTH - NUMBERS;
    let scale = Scale::new((0.0, end), (LABELS, right));
    let x = |value: f64| scale.at(value);
    let bottom = top + PITCH * schedulers.len() as f64;
    let middle = (top + bottom) / 2.0 + 1.0;
    svg.text(
        (LABELS - 10.0, middle),
        Align::End,
        "",
        &shortened(&group.name, 22),
    );
    for tick in scale.ticks(6).into_iter().filter(|_| !all.is_empty()) {
        svg.line((x(tick), top), (x(tick), bottom), "grid");
        svg.text(
            (x(tick), bottom + 12.0),
            Align::Middle,
            "small",
            &number(tick),
        );
    }
    for (index, scheduler) in schedulers.iter().enumerate() {
        let y = top + PITCH * index as f64 + 3.0;
        let Some(it) = quartiles(index) else {
            svg.text((LABELS + 4.0, y + THICK - 1.0), Align::Start, "small", "–");
            continue;
        };
        let centre = y + THICK / 2.0;
        svg.line((x(it.least), centre), (x(it.greatest), centre), "axis");
        for end in [it.least, it.greatest] {
            svg.line((x(end), y + 2.0), (x(end), y + THICK - 2.0), "axis");
        }
        let says = format!(
            "{}, {scheduler}: {} to {}, half of the threads from {} to {}, median {} ns/B",
            group.name,
            ratio(it.least),
            ratio(it.greatest),
            ratio(it.lower),
            ratio(it.upper),
            ratio(it.median)
        );
        let width = (x(it.upper) - x(it.lower)).max(1.0);
        svg.rect(Rect::new(x(it.lower), y, width, THICK), &fill(index), &says);
        svg.rect(
            Rect::new(x(it.median) - 1.0, y - 1.0, 2.0, THICK + 2.0),
            "mark",
            "",
        );
        let cut = if it.greatest > end { "→ " } else { "" };
        let words = format!("{}; {cut}{}", ratio(it.median), ratio(it.greatest));
        svg.text((WIDTH, y + THICK - 1.0), Align::End, "small", &words);
    }
}
