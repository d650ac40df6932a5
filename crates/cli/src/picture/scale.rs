//! Axes: round numbers along them, and sizes as people read them.

use super::svg::{Align, Svg};
use crate::size::Human;

/// Bytes as people read them: `812 KiB`, `15.2 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let short = Human(bytes).to_string();
    match short.char_indices().next_back() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => format!("{} {unit}iB", &short[..at]),
        _ => short,
    }
}

/// Round numbers from 0 to at most `last`: multiples of 1, 2 or 5 times a power of ten, at most
/// `most` steps.
pub(crate) fn ticks(last: f64, most: u32) -> Vec<f64> {
    if last.is_nan() || last <= 0.0 || last.is_infinite() {
        return vec![0.0];
    }
    let rough = last / f64::from(most.max(1));
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let count = (last / step * (1.0 + 1e-9)).floor() as u32;
    (0..=count.min(most)).map(|n| f64::from(n) * step).collect()
}

/// The unit of an axis of sizes, and how many bytes it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) bytes: f64,
}

impl Unit {
    /// MiB, unless these bytes are very few or very many.
    pub(crate) fn of(bytes: u64) -> Unit {
        let (name, bytes) = match bytes {
            ..0x20_0000 => ("KiB", 1u64 << 10),
            0x10_0000_0000.. => ("GiB", 1 << 30),
            _ => ("MiB", 1 << 20),
        };
        Unit {
            name,
            bytes: bytes as f64,
        }
    }
}

/// A number of an axis without needless decimals.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis of seconds between two pixels, at a height.
pub(crate) fn timeline(
    svg: &mut Svg,
    (left, right): (f64, f64),
    y: f64,
    (first, last): (f64, f64),
) {
    let all = (last - first).max(f64::MIN_POSITIVE);
    svg.line((left, y), (right, y), "axis");
    for tick in ticks(all, 8) {
        let x = left + (right - left) * tick / all;
        svg.line((x, y), (x, y + 5.0), "axis");
        svg.words((x, y + 18.0), Align::Middle, "small", &number(first + tick));
    }
    svg.words((right + 16.0, y + 18.0), Align::Start, "small", "seconds");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            ticks(1500.0, 8),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0]
        );
        assert_eq!(ticks(1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(0.0, 5), [0.0]);
        assert_eq!(ticks(f64::NAN, 5), [0.0]);
        for last in [1e-9, 0.7, 3.0, 89.0, 1e12, 1e300] {
            let found = ticks(last, 6);
            assert!((2..=7).contains(&found.len()), "{last}: {found:?}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size(0), "0");
        assert_eq!(size(1536 << 20), "1.50 GiB");
        assert_eq!(Unit::of(2048 << 20).name, "MiB");
        assert_eq!(number(0.6000000000000001), "0.6");
        assert_eq!(number(200.0), "200");
    }
}
