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
    fn quantiles_are_interpolated() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
    }
}
