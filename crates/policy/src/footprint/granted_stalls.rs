//! Stalls of a program although it kept to the limit that it was granted.

/// Counts the stalls of a program while it kept to its limit: the kernel did not have what was granted.
///
/// Stalls are reported a span at a time, for example from one collection to the next. Those of a span count
/// if the program kept to its limit at each sample, from the end of the last span to the end of this one.
/// Waits while it gives memory back, or while memory is taken from it, say nothing about the grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Such stalls so far.
    count: u64,
    /// Whether it kept to its limit at each look of the present span. Nobody knows when the first one began.
    kept: bool,
}

impl Within {
    /// A look. `keeps`: whether the program keeps to its limit now. `ended`: the stalls of the span that ends
    /// with this look, if one does.
    pub fn look(&mut self, keeps: bool, ended: Option<u64>) {
        self.kept &= keeps;
        let Some(stalls) = ended else { return };
        if self.kept {
            self.count = self.count.saturating_add(stalls);
        }
        self.kept = keeps;
    }

    /// The stalls that counted so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_counts_if_the_limit_was_kept_to_from_its_begin_to_its_end() {
        let mut within = Within::default();
        let mut after = |keeps, ended| {
            within.look(keeps, ended);
            within.count()
        };
        assert_eq!(after(true, Some(5)), 0, "nobody knows when it began");
        assert_eq!(after(true, Some(2)), 2);
        assert_eq!(after(false, Some(2)), 2, "not at its end");
        assert_eq!(after(true, Some(3)), 2, "not at its begin");
        assert_eq!(after(true, Some(1)), 3);
        after(true, None);
        assert_eq!(after(false, None), 3);
        after(true, None);
        assert_eq!(after(true, Some(7)), 3, "not in between");
        assert_eq!(after(true, Some(u64::MAX)), u64::MAX);
        assert_eq!(after(true, Some(1)), u64::MAX, "no overflow");
    }
}
