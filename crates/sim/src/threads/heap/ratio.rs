//! How a generational heap is divided.

/// The most thousandths that a ratio may have.
const MOST: f64 = 1e6;

/// How many times as large as the nursery the mature space is: the paper's "ratio between minor and mature
/// generations" (section 4), and HotSpot's `NewRatio`. In G1 it bounds the young regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRatio {
    /// The ratio in thousandths, so that sizes are exact.
    thousandths: u32,
}

impl NewRatio {
    /// The paper's: a mature space that is twice as large as the nursery (section 5).
    pub const PAPER: NewRatio = NewRatio { thousandths: 2000 };

    /// A ratio of 0.001 to 1000, rounded to thousandths; `None` of any other.
    pub fn new(times: f64) -> Option<NewRatio> {
        let thousandths = (times * 1000.0).round();
        (1.0..=MOST).contains(&thousandths).then_some(NewRatio {
            thousandths: thousandths as u32,
        })
    }

    /// The ratio.
    pub fn times(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }

    /// How much of a whole is young: of bytes, or of regions.
    pub(super) fn young(self, whole: u64) -> u64 {
        let young = u128::from(whole) * 1000 / (1000 + u128::from(self.thousandths));
        u64::try_from(young).unwrap_or(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_is_divided_by_the_ratio() {
        for whole in [0, 1, 2, 3, 299, 300, u64::MAX] {
            assert_eq!(NewRatio::PAPER.young(whole), whole / 3);
            assert_eq!(NewRatio::new(1.0).unwrap().young(whole), whole / 2);
        }
        assert_eq!(NewRatio::new(0.25).unwrap().young(1000), 800);
        assert_eq!(NewRatio::new(8.0).unwrap().young(900), 100);
        assert_eq!(NewRatio::new(8.0).unwrap().times(), 8.0);
        for wrong in [0.0, 0.0001, -1.0, 1000.1, f64::NAN, f64::INFINITY] {
            assert_eq!(NewRatio::new(wrong), None, "{wrong}");
        }
    }
}
