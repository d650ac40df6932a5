//! One bar for each of several things, with a line at what none should exceed, as SVG.

use plimsoll_picture::chart::heading;
use plimsoll_picture::palette::fill;
use plimsoll_picture::scale::number;
use plimsoll_picture::{Align, Rect, Scale, Svg, WIDTH};
use serde::{Deserialize, Serialize};

/// Pixels between the edges of the picture and the bars.
const LEFT: f64 = 200.0;
const RIGHT: f64 = 850.0;
const TOP: f64 = 65.0;
const BOTTOM: f64 = 395.0;
/// Colours of what is within the limit, and beyond it.
const WITHIN: usize = 0;
const BEYOND: usize = 1;

/// Bars, from top to bottom.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bars {
    /// Above the picture.
    pub title: String,
    /// Quantity and unit of the bars' length.
    pub unit: String,
    /// Where a line is drawn; 0: nowhere.
    pub limit: f64,
    /// Name and value of each bar.
    pub bars: Vec<(String, f64)>,
}

impl Bars {
    /// The same with no more digits than can be seen.
    pub(super) fn rounded(mut self) -> Bars {
        for (_, value) in &mut self.bars {
            *value = (*value * 10.0).round() / 10.0;
        }
        self
    }

    /// The picture as the text of an SVG file.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH);
        heading(&mut svg, 0.0, &self.title, "");
        let values = self.bars.iter().map(|(_, value)| *value);
        let longest = values.fold(self.limit, f64::max).max(1e-9);
        let scale = Scale::new((0.0, longest), (LEFT, RIGHT));
        for tick in scale.ticks(8) {
            let x = scale.at(tick);
            svg.line((x, TOP), (x, BOTTOM), "grid");
            let at = (x, BOTTOM + 16.0);
            svg.text(at, Align::Middle, "label faint", &number(tick));
        }
        let at = ((LEFT + RIGHT) / 2.0, BOTTOM + 34.0);
        svg.text(at, Align::Middle, "label faint", &self.unit);
        let step = (BOTTOM - TOP) / self.bars.len().max(1) as f64;
        for (index, (name, value)) in self.bars.iter().enumerate() {
            let middle = TOP + step * (index as f64 + 0.5);
            let is_beyond = self.limit > 0.0 && *value > self.limit;
            let colour = fill(if is_beyond { BEYOND } else { WITHIN });
            let (top, bottom) = (middle - step * 0.35, middle + step * 0.35);
            let bar = Rect::between((LEFT, scale.at(*value)), (top, bottom));
            svg.rect(bar, &colour, "");
            svg.text((LEFT - 8.0, middle + 4.5), Align::End, "label", name);
        }
        if self.limit > 0.0 {
            let x = scale.at(self.limit);
            svg.line((x, TOP), (x, BOTTOM), "limit");
            let limit = number(self.limit);
            svg.text((x, TOP - 5.0), Align::Middle, "label", &limit);
        }
        svg.file(&self.title, "")
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
        let svg = bars.clone().rounded().svg();
        for words in [
            "G1 17",
            "Z 17",
            "milliseconds",
            "100",
            "What a &lt;look&gt; costs",
        ] {
            assert!(svg.contains(&format!(">{words}<")), "{words}");
        }
        assert!(svg.contains("rect class=\"fill0\"") && svg.contains("rect class=\"fill1\""));
        assert_eq!(bars.rounded().bars[1].1, 110.6);
        assert!(Bars::default().svg().starts_with("<svg"));
    }
}
