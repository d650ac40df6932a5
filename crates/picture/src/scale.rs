//! Values to pixels, and round numbers along an axis.

use crate::svg::{Align, Svg};
use plimsoll_unit::{Bytes, GIB, KIB, MIB};

/// An axis of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// The quantity, the unit, or both.
    pub name: &'a str,
    /// The values at its ends, the smaller one first. Those of a logarithmic axis are above 0.
    pub ends: (f64, f64),
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

impl<'a> Axis<'a> {
    /// An axis from 0 on. Its end is above 0, whatever `last` is.
    pub fn linear(name: &'a str, last: f64) -> Axis<'a> {
        Axis {
            name,
            ends: (0.0, last.max(1e-9)),
            logarithmic: false,
        }
    }

    /// The same axis, logarithmic from `first` on, which is above 0.
    #[must_use]
    pub fn logarithmic(self, first: f64) -> Axis<'a> {
        Axis {
            ends: (first, self.ends.1.max(first * 10.0)),
            logarithmic: true,
            ..self
        }
    }

    /// The scale that puts the ends of the axis at these pixels.
    pub fn scale(&self, pixels: (f64, f64)) -> Scale {
        Scale {
            logarithmic: self.logarithmic,
            ..Scale::new(self.ends, pixels)
        }
    }
}

/// Which pixel a value is at. A value beyond an end is drawn at that end.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    ends: (f64, f64),
    pixels: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    /// A linear scale from the values `ends`, the smaller one first, to `pixels`.
    pub const fn new(ends: (f64, f64), pixels: (f64, f64)) -> Scale {
        Scale {
            ends,
            pixels,
            logarithmic: false,
        }
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (first, last) = self.ends;
        let value = value.max(first).min(last);
        let part = if self.logarithmic {
            (value / first).ln() / (last / first).ln()
        } else {
            (value - first) / (last - first).max(f64::MIN_POSITIVE)
        };
        self.pixels.0 + (self.pixels.1 - self.pixels.0) * part
    }

    /// Round values of this scale, about `most` at most: on a logarithmic scale, the powers of ten.
    pub fn ticks(&self, most: u32) -> Vec<f64> {
        if !self.logarithmic {
            return ticks(self.ends, most);
        }
        let power = |end: f64| end.log10();
        let first = (power(self.ends.0) - 1e-9).ceil() as i32;
        let last = (power(self.ends.1) + 1e-9).floor() as i32;
        (first..=last).map(|it| 10f64.powi(it)).collect()
    }
}

/// Round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, at most `most` steps.
pub fn ticks((low, high): (f64, f64), most: u32) -> Vec<f64> {
    let span = high - low;
    if span.is_nan() || span <= 0.0 || span.is_infinite() {
        return vec![0.0];
    }
    let rough = span / f64::from(most.max(1));
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).max(0.0) as u32;
    let nth = |n: u32| (first + f64::from(n)) * step + 0.0;
    (0..=count.min(most)).map(nth).collect()
}

/// The unit of an axis of sizes, and how many bytes it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    /// Bytes of one.
    pub bytes: f64,
}

impl Unit {
    /// MiB, unless that is very little or very much.
    pub fn of(amount: Bytes) -> Unit {
        let (name, unit) = match amount.0 {
            bytes if bytes < 2 * MIB => ("KiB", KIB),
            bytes if bytes >= 64 * GIB => ("GiB", GIB),
            _ => ("MiB", MIB),
        };
        Unit {
            name,
            bytes: unit as f64,
        }
    }
}

/// A number along an axis: three decimals at most, none that is not needed.
pub fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis of seconds between two pixels, at a height.
pub fn timeline(svg: &mut Svg, (left, right): (f64, f64), y: f64, (first, last): (f64, f64)) {
    let scale = Scale::new((0.0, last - first), (left, right));
    svg.line((left, y), (right, y), "axis");
    for tick in scale.ticks(8) {
        let x = scale.at(tick);
        svg.line((x, y), (x, y + 5.0), "axis");
        svg.text((x, y + 18.0), Align::Middle, "small", &number(first + tick));
    }
    svg.text((right + 16.0, y + 18.0), Align::Start, "small", "seconds");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let wanted = [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0];
        assert_eq!(ticks((0.0, 1500.0), 8), wanted);
        let fifths = [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0];
        assert_eq!(ticks((0.0, 1.0), 5), fifths);
        assert_eq!(ticks((-30.0, 12.0), 5), [-30.0, -20.0, -10.0, 0.0, 10.0]);
        assert_eq!(ticks((0.0, 0.0), 5), [0.0]);
        assert_eq!(ticks((0.0, f64::NAN), 5), [0.0]);
        for last in [1e-9, 0.7, 3.0, 89.0, 1e12, 1e300] {
            let found = ticks((0.0, last), 6);
            assert!((2..=7).contains(&found.len()), "{last}: {found:?}");
        }
    }

    #[test]
    fn a_logarithmic_scale_has_powers_of_ten() {
        let axis = Axis::linear("", 90.0).logarithmic(1e-3);
        let scale = axis.scale((0.0, 100.0));
        assert_eq!(scale.ticks(9).len(), 5);
        assert_eq!((scale.at(0.0), scale.at(1e9)), (0.0, 100.0));
        assert!((scale.at(0.3) - 50.0).abs() < 0.1, "{}", scale.at(0.3));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(Unit::of(Bytes::mib(2048)).name, "MiB");
        assert_eq!(Unit::of(Bytes((2 << 20) - 1)).name, "KiB");
        assert_eq!(Unit::of(Bytes(64 << 30)).name, "GiB");
        assert_eq!(number(0.6000000000000001), "0.6");
        assert_eq!(number(200.0), "200");
        assert_eq!(number(0.0002), "2.0e-4");
    }
}
