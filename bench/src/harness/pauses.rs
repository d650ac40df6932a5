//! Pauses of a program on libgc for collections, as `bench/programs/libgc/pauses.h` notes them.

use crate::report::statistics::spread;
use serde::{Deserialize, Serialize};

/// One pause: the program stood still for a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// When the pause began, in seconds since the program began.
    pub begin: f64,
    /// How long it lasted, in seconds.
    pub length: f64,
    /// Major faults of the process during the pause.
    pub faults: u64,
    /// Whether a collection began with it. One in steps has several pauses.
    pub begins: bool,
}

/// The pauses of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pauses(pub Vec<Pause>);

impl Pauses {
    /// Reads one pause from each line. A last line that was not written to its end is left out.
    pub fn read(text: &str) -> Pauses {
        let pause = |line: &str| {
            let mut words = line.split_whitespace();
            Some(Pause {
                begin: words.next()?.parse().ok()?,
                length: words.next()?.parse().ok()?,
                faults: words.next()?.parse().ok()?,
                begins: words.next()? == "1",
            })
        };
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Pauses(whole.lines().filter_map(pause).collect())
    }

    /// The last third of the pauses. By then the heap and the kernel's choice of resident pages change
    /// little.
    pub fn steady(&self) -> Pauses {
        Pauses(self.0[self.0.len() * 2 / 3..].to_vec())
    }

    /// The number of collections.
    pub fn collections(&self) -> usize {
        self.0.iter().filter(|pause| pause.begins).count()
    }

    /// The longest pause, seconds.
    pub fn longest(&self) -> f64 {
        self.0.iter().map(|pause| pause.length).fold(0.0, f64::max)
    }

    /// The median pause, seconds.
    pub fn median(&self) -> f64 {
        let lengths: Vec<f64> = self.0.iter().map(|pause| pause.length).collect();
        spread(&lengths).median
    }

    /// The mean pause, seconds.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|pause| pause.length).sum::<f64>() / (self.0.len() as f64).max(1.0)
    }

    /// Mean number of major faults in a pause.
    pub fn faults(&self) -> f64 {
        let all: u64 = self.0.iter().map(|pause| pause.faults).sum();
        all as f64 / (self.0.len() as f64).max(1.0)
    }

    /// These pauses and those of another program that ran at the same time.
    pub fn merged(mut self, other: Pauses) -> Pauses {
        self.0.extend(other.0);
        self.0.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pauses_and_the_last_third_is_steady() {
        let pauses = Pauses::read("0.1 0.05 3 1\n0.5 0.03 0 1\n0.9 0.01 1 0\n1.2 0.0");
        assert_eq!((pauses.0.len(), pauses.collections()), (3, 2));
        assert_eq!(
            (pauses.longest(), pauses.median(), pauses.faults()),
            (0.05, 0.03, 4.0 / 3.0)
        );
        assert_eq!(pauses.steady().0, pauses.0[2..]);
        assert_eq!(Pauses::default().steady().mean(), 0.0);
    }

    #[test]
    fn pauses_of_two_programs_are_in_order() {
        let merged = Pauses::read("1 0.1 0 1\n3 0.1 0 1\n").merged(Pauses::read("2 0.1 0 1\n"));
        let begins: Vec<f64> = merged.0.iter().map(|pause| pause.begin).collect();
        assert_eq!(begins, [1.0, 2.0, 3.0]);
    }
}
