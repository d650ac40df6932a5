//! The hits of a fixed cache, simulated: the same keys in the same order as `bench/programs/cache/cache.c`
//! draws them, and its way to evict.

use std::collections::BTreeMap;

/// Keys, and the mean rank of the exponential distribution by which they are drawn.
const KEYS: u64 = 1000;
const MEAN: f64 = 100.0;
/// The program's seed of 1, spread.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The draws of the program.
struct Draws(u64);

impl Draws {
    /// A number in (0, 1], by xorshift64*.
    fn number(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits as f64 + 1.0) / (1_u64 << 53) as f64
    }

    fn key(&mut self) -> u64 {
        loop {
            let rank = (-MEAN * self.number().ln()) as u64;
            if rank < KEYS {
                return rank;
            }
        }
    }
}

/// The part of `queries` that are hits in a cache of `most` entries, which drops a fifth when it has more.
pub(super) fn hit_rate(queries: u32, most: usize) -> f64 {
    let mut draws = Draws(SEED | 1);
    // When each cached key was used last, and the keys by that.
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    let mut order: BTreeMap<u32, u64> = BTreeMap::new();
    let mut hits = 0;
    for at in 0..queries {
        let key = draws.key();
        if let Some(before) = last.insert(key, at) {
            order.remove(&before);
            hits += 1;
        }
        order.insert(at, key);
        if order.len() > most {
            for _ in 0..most.div_ceil(5) {
                if let Some((_, oldest)) = order.pop_first() {
                    last.remove(&oldest);
                }
            }
        }
    }
    f64::from(hits) / f64::from(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walfield's Table 3.
    #[test]
    fn it_gives_the_papers_hit_rates() {
        let rows = [
            (348, 0.923),
            (256, 0.826),
            (64, 0.276),
            (16, 0.071),
            (4, 0.020),
        ];
        for (entries, paper) in rows {
            let rate = hit_rate(100_000, entries);
            assert!((rate - paper).abs() < 0.012, "{entries}: {rate}, {paper}");
        }
    }
}
