//! Bars in groups side by side, upright, as a plot. For one bar each with a line at a bound: `bars`.

use super::plot::Plot;
use plimsoll_picture::chart::{Kind, Series};

/// Width of a group's bars; a group and the gap after it take 1.
const FILLED: f64 = 0.8;

/// A picture of bars.
#[derive(Clone, Debug, Default)]
pub struct GroupedBars {
    /// Above the picture.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub note: String,
    /// Quantity and unit of the bars' length.
    pub unit: String,
    /// The meaning of the groups.
    pub across: String,
    /// The names of the bars of each group, the same in all groups. Each has a colour.
    pub names: Vec<String>,
    /// The groups: each with its name, and the length of each bar; 0 where there is none.
    pub groups: Vec<(String, Vec<f64>)>,
    /// The least length of the vertical axis.
    pub top: f64,
}

impl GroupedBars {
    /// The plot of these bars. Their names stand beside the last group.
    pub fn plot(&self) -> Plot {
        let width = FILLED / self.names.len().max(1) as f64;
        let mut series = Vec::new();
        for (place, (_, lengths)) in self.groups.iter().enumerate() {
            let is_last = place + 1 == self.groups.len();
            for (index, length) in lengths.iter().enumerate() {
                let name = self.names.get(index).filter(|_| is_last);
                let from = place as f64 + width * index as f64;
                series.extend(bar(from, width, *length, index, name));
            }
        }
        let groups = self.groups.iter().enumerate();
        let middle = |place: usize| place as f64 + FILLED / 2.0;
        Plot {
            title: self.title.clone(),
            note: self.note.clone(),
            unit: self.unit.clone(),
            across: self.across.clone(),
            series,
            groups: groups
                .map(|(place, (name, _))| (middle(place), name.clone()))
                .collect(),
            seconds: self.groups.len() as f64,
            top: self.top,
            ..Plot::default()
        }
    }
}

/// A bar, and the line on its top that carries its name.
fn bar(from: f64, width: f64, length: f64, colour: usize, name: Option<&String>) -> [Series; 2] {
    let points = vec![(from, length), (from + width, length)];
    let area = Series {
        points: points.clone(),
        colour,
        kind: Kind::Area,
        ..Series::default()
    };
    let top = Series {
        name: name.cloned().unwrap_or_default(),
        points,
        colour,
        kind: Kind::Line,
        ..Series::default()
    };
    [area, top]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_bars_and_the_last_one_their_names() {
        let bars = GroupedBars {
            title: "Speed".to_owned(),
            unit: "times".to_owned(),
            names: vec!["one".to_owned(), "other".to_owned()],
            groups: vec![
                ("a".to_owned(), vec![1.0, 2.0]),
                ("b".to_owned(), vec![3.0, 0.0]),
            ],
            ..GroupedBars::default()
        };
        let plot = bars.plot();
        let tops: Vec<_> = plot
            .series
            .iter()
            .filter(|it| it.kind == Kind::Line)
            .collect();
        let names: Vec<&str> = tops.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["", "", "one", "other"]);
        assert_eq!(tops[1].points, [(0.4, 2.0), (0.8, 2.0)]);
        assert_eq!(tops[2].points[0], (1.0, 3.0));
        assert_eq!(plot.groups[1], (1.4, "b".to_owned()));
        let svg = plot.svg();
        for part in [">a<", ">b<", ">other<"] {
            assert!(svg.contains(part), "{part:?}");
        }
    }
}
