//! An axis of a chart. One type is both the linear and the logarithmic axis.

use super::results::number;
use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// One of the two axes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its label: the quantity and the unit.
    pub(super) name: String,
    /// The values at its ends, the smaller one first. Those of a logarithmic axis are above 0.
    pub(super) ends: (f64, f64),
    /// Whether the axis is logarithmic.
    pub(super) logarithmic: bool,
}

impl Axis {
    /// Most numbers that are written beside an axis.
    pub(super) const TICKS: usize = 9;

    fn linear(&self) -> RangedCoordf64 {
        self.range().into()
    }

    /// The logarithmic range. It begins a little earlier, because rounding would otherwise lose a tick at the
    /// first end.
    fn ratios(&self) -> LogCoord<f64> {
        let first = self.ends.0 * (1.0 - 1e-9);
        (first..self.ends.1).log_scale().into()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    /// The pixel of a value. A value beyond an end is drawn at that end.
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let within = value.max(self.ends.0).min(self.ends.1);
        match self.logarithmic {
            false => self.linear().map(&within, limit),
            true => self.ratios().map(&within, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.logarithmic {
            false => self.linear().key_points(hint),
            true => self.ratios().key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        number(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |first, last, logarithmic| {
            let name = String::new();
            let ends = (first, last);
            let axis = Axis {
                name,
                ends,
                logarithmic,
            };
            axis.key_points(Axis::TICKS)
        };
        let wanted = [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0];
        assert_eq!(ticks(0.0, 1500.0, false), wanted);
        assert_eq!(ticks(1e-3, 90.0, true).len(), 5);
        for last in [1e-9, 0.7, 3.0, 89.0, 1e12] {
            assert!(ticks(0.0, last, false).len() <= Axis::TICKS, "{last}");
        }
    }
}
