//! Divides sums exactly.

/// Fits counts (certain, doubtful) to a sum: leaves out doubtful ones, then scales the certain ones.
/// Returns what each gets, and what is left of the sum. Both together are the sum.
pub(crate) fn fit(counts: &[(u64, u64)], sum: u64) -> (Vec<u64>, u64) {
    let total = |part: fn(&(u64, u64)) -> u64| counts.iter().map(part).fold(0, u64::saturating_add);
    let certain: Vec<u64> = counts.iter().map(|count| count.0).collect();
    let sure = total(|count| count.0);
    if sure >= sum {
        return match sure {
            0 => (certain, sum),
            _ => (scaled(&certain, sum), 0),
        };
    }
    let doubtful: Vec<u64> = counts.iter().map(|count| count.1).collect();
    let room = (sum - sure).min(total(|count| count.1));
    let taken = scaled(&doubtful, room);
    let each = certain.iter().zip(taken).map(|(a, b)| a + b).collect();
    (each, sum - sure - room)
}

/// As [`fit`], with no more for each than its bound; the last bound is that of the rest, which is
/// returned last. The bounds together must be at least the sum.
pub(crate) fn fit_within(counts: &[u64], most: &[u64], sum: u64) -> Vec<u64> {
    let certain: Vec<(u64, u64)> = counts.iter().map(|&count| (count, 0)).collect();
    let (mut each, rest) = fit(&certain, sum);
    each.push(rest);
    let mut over = 0;
    let mut room = Vec::with_capacity(each.len());
    for (share, &most) in each.iter_mut().zip(most) {
        over += share.saturating_sub(most);
        *share = (*share).min(most);
        room.push(most - *share);
    }
    for (share, more) in each.iter_mut().zip(scaled(&room, over)) {
        *share += more;
    }
    each
}

/// Divides a sum by weights, exactly; no share exceeds its weight if the sum does not exceed all of
/// them. Without any weight the first one gets it all.
pub(crate) fn scaled(weights: &[u64], sum: u64) -> Vec<u64> {
    let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    let mut shares = vec![0; weights.len()];
    if total == 0 {
        if let Some(first) = shares.first_mut() {
            *first = sum;
        }
        return shares;
    }
    let (mut before, mut given) = (0u128, 0u64);
    for (share, &weight) in shares.iter_mut().zip(weights) {
        before += u128::from(weight);
        // Rounding the sums, not the shares, keeps them exact.
        let until = (u128::from(sum) * before / total) as u64;
        *share = until - given;
        given = until;
    }
    shares
}

/// `bytes` times `part` in `whole`.
pub(crate) fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        _ => (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_exact_and_no_larger_than_their_weights(
            weights in vec(any::<u32>(), 1..20),
            part in 0.0f64..=1.0,
        ) {
            let weights: Vec<u64> = weights.into_iter().map(u64::from).collect();
            let whole: u64 = weights.iter().sum();
            let sum = (whole as f64 * part) as u64;
            let shares = scaled(&weights, sum);
            prop_assert_eq!(shares.iter().sum::<u64>(), sum);
            prop_assert!(shares.iter().zip(&weights).all(|(share, weight)| share <= weight));
        }

        #[test]
        fn counts_are_fitted_to_any_sum(
            counts in vec((any::<u32>(), any::<u32>()), 0..20),
            sum in 0u64..1 << 36,
        ) {
            let counts: Vec<(u64, u64)> =
                counts.into_iter().map(|(a, b)| (a.into(), b.into())).collect();
            let (each, rest) = fit(&counts, sum);
            prop_assert_eq!(each.iter().sum::<u64>() + rest, sum);
            let most = each.iter().zip(&counts).all(|(share, count)| *share <= count.0 + count.1);
            prop_assert!(most);
        }

        #[test]
        fn bounds_hold(
            counts in vec((any::<u32>(), any::<u32>()), 0..20),
            rest in any::<u32>(),
            part in 0.0f64..=1.0,
        ) {
            let most = counts.iter().map(|count| count.1).chain([rest]);
            let most: Vec<u64> = most.map(u64::from).collect();
            let counts: Vec<u64> = counts.iter().map(|count| count.0.into()).collect();
            let sum = (most.iter().sum::<u64>() as f64 * part) as u64;
            let each = fit_within(&counts, &most, sum);
            prop_assert_eq!(each.iter().sum::<u64>(), sum);
            prop_assert!(each.iter().zip(&most).all(|(share, most)| share <= most));
        }
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(scaled(&[], 5), [0u64; 0]);
        assert_eq!(scaled(&[0, 0], 5), [5, 0]);
        assert_eq!(fit(&[], 5), (vec![], 5));
        assert_eq!((share(7, 1, 0), share(7, 9, 3)), (0, 7));
        assert_eq!(share(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
}
