//! One bar for each of several things, with a line at what none should exceed, as SVG.

use super::axis::Axis;
use super::chart::{DARK, Drawn, FAINT, Root, SIZE, font, svg, write};
use super::recorded::Recorded;
use super::results::number;
use crate::Result;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

/// Pixels between the edges of the picture and the bars.
const LEFT: i32 = 400;
const RIGHT: i32 = 1700;
const TOP: i32 = 130;
const BOTTOM: i32 = SIZE.1 as i32 - 90;
/// Colours of what is within the limit, and beyond it.
const WITHIN: RGBColor = RGBColor(0, 96, 168);
const BEYOND: RGBColor = RGBColor(184, 67, 0);

/// Bars, from top to bottom.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bars {
    /// Above the picture.
    pub title: String,
    /// What the bars are long: quantity and unit.
    pub unit: String,
    /// Where a line is drawn; 0: nowhere.
    pub limit: f64,
    /// Name and value of each bar.
    pub bars: Vec<(String, f64)>,
}

impl Recorded for Bars {
    const FOLDER: &'static str = "bars";

    fn svg(&self) -> Result<String> {
        svg(&self.title, |root| self.draw(root))
    }

    fn rounded(&self) -> Bars {
        let round = |(name, value): &(String, f64)| (name.clone(), (value * 10.0).round() / 10.0);
        Bars {
            bars: self.bars.iter().map(round).collect(),
            ..self.clone()
        }
    }
}

impl Bars {
    fn draw(&self, root: &Root) -> Drawn<()> {
        root.fill(&WHITE)?;
        let title = font(38, FontStyle::Bold, DARK);
        write(root, &self.title, &title, (32, 28))?;
        let values = self.bars.iter().map(|(_, value)| *value);
        let longest = values.fold(self.limit, f64::max).max(1e-9);
        let axis = Axis {
            name: String::new(),
            ends: (0.0, longest),
            logarithmic: false,
        };
        let at = |value: f64| LEFT + (value / longest * f64::from(RIGHT - LEFT)) as i32;
        let below = font(29, FontStyle::Normal, FAINT).pos(Pos::new(HPos::Center, VPos::Top));
        for tick in axis.key_points(Axis::TICKS) {
            let ends = [(at(tick), TOP), (at(tick), BOTTOM)];
            let grid = DARK.mix(0.12).stroke_width(2);
            root.draw(&PathElement::new(ends, grid))?;
            write(root, &number(tick), &below, (at(tick), BOTTOM + 8))?;
        }
        write(root, &self.unit, &below, ((LEFT + RIGHT) / 2, BOTTOM + 44))?;
        let count = i32::try_from(self.bars.len().max(1)).unwrap_or(i32::MAX);
        let step = f64::from(BOTTOM - TOP) / f64::from(count);
        let letters = (step as u32).clamp(12, 29);
        let names = font(letters, FontStyle::Normal, DARK).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, (name, value)) in self.bars.iter().enumerate() {
            let middle = f64::from(TOP) + step * (index as f64 + 0.5);
            let (top, bottom) = (middle - step * 0.35, middle + step * 0.35);
            let colour = match self.limit > 0.0 && *value > self.limit {
                true => BEYOND,
                false => WITHIN,
            };
            let corners = [(LEFT, top as i32), (at(*value), bottom as i32)];
            root.draw(&Rectangle::new(corners, colour.filled()))?;
            write(root, name, &names, (LEFT - 14, middle as i32))?;
        }
        self.limit(root, at(self.limit))
    }

    fn limit(&self, root: &Root, x: i32) -> Drawn<()> {
        if self.limit <= 0.0 {
            return Ok(());
        }
        let mut y = TOP;
        while y < BOTTOM {
            let dash = [(x, y), (x, (y + 16).min(BOTTOM))];
            root.draw(&PathElement::new(dash, DARK.stroke_width(3)))?;
            y += 28;
        }
        let above = font(29, FontStyle::Normal, DARK).pos(Pos::new(HPos::Center, VPos::Bottom));
        write(root, &number(self.limit), &above, (x, TOP - 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_name_and_what_is_too_long_another_colour() {
        let bars = Bars {
            title: "What a <look> costs".into(),
            unit: "milliseconds".into(),
            limit: 100.0,
            bars: vec![("G1 17".into(), 35.53), ("Z 17".into(), 110.62)],
        };
        let svg = bars.rounded().svg().expect("drawn");
        for words in [
            "G1 17",
            "Z 17",
            "milliseconds",
            "100",
            "What a &lt;look&gt; costs",
        ] {
            assert!(svg.contains(&format!("\n{words}\n")), "{words}");
        }
        assert!(svg.contains("#0060A8") && svg.contains("#B84300"), "{svg}");
        assert_eq!(bars.rounded().bars[1].1, 110.6);
        assert!(Bars::default().svg().expect("drawn").starts_with("<svg"));
    }
}
