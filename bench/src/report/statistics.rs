//! The few statistics that the tables need.

/// Minimum, median and maximum of some repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// Smallest value.
    pub min: f64,
    /// Middle value (mean of the two middle ones of an even count).
    pub median: f64,
    /// Largest value.
    pub max: f64,
}

/// The spread of `values`; all zero when there are none. Not-a-number values sort last.
pub fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
        return Spread::default();
    };
    Spread {
        min,
        median: quantile_of_sorted(&sorted, 0.5),
        max,
    }
}

/// The `q` quantile (0 to 1) of `values`, interpolated; 0 when there are none.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// A 95 % confidence interval of the median, for any distribution of `values` (the inverse of the
/// sign test). `None` for fewer than six values, which are not enough.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The probability that at most `below` of n values lie below the median. Computed with
    // logarithms, because 2^-n underflows for large n.
    let mut logarithm = -(n as f64) * std::f64::consts::LN_2;
    let mut chance = logarithm.exp();
    let mut below = 0;
    while chance <= 0.025 {
        logarithm += ((n - below) as f64 / (below + 1) as f64).ln();
        below += 1;
        chance += logarithm.exp();
    }
    // The loop went one step too far.
    let rank = below.checked_sub(1)?;
    Some((sorted[rank], sorted[n - 1 - rank]))
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let at = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_and_odd_counts() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(spread(&[]), Spread::default());
    }

    #[test]
    fn the_median_lies_between_the_ranks_of_the_sign_test() {
        let values = |n: u32| (1..=n).map(f64::from).collect::<Vec<f64>>();
        assert_eq!(median_interval(&values(5)), None);
        assert_eq!(median_interval(&values(6)), Some((1.0, 6.0)));
        assert_eq!(median_interval(&values(10)), Some((2.0, 9.0)));
        assert_eq!(median_interval(&values(100)), Some((40.0, 61.0)));
        assert!(median_interval(&values(5000)).is_some());
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
    }
}
