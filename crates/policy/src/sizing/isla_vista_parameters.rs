//! The parameters of Isla Vista, and the ranges that they must be in.

use std::fmt;

/// Parameters that nobody has checked. [`Ratios::new`] checks them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Size of a step as a fraction of the base. The paper uses 0.02, and found 0.02 to 0.05 to work.
    /// From 0.001 to 0.5.
    pub grow: f64,
    /// Fraction of the base that a stall takes; the paper uses 0.75. From 0 to 0.99.
    pub shrink: f64,
    /// Fraction of the base's loss that returns at each collection without stalls; 0 in the paper.
    /// From 0 to 1.
    pub recover: f64,
    /// Fraction of the allowed allocation between two collections that a stall takes. `None` is the paper's
    /// rule. From 0.01 to 0.5, the most that the paper's rule takes of a nursery (section 3.3).
    pub cut: Option<f64>,
    /// Stalls that took this part of the program's time since the last collection, or less, are none.
    /// 0 in the paper. From 0 to 0.1.
    pub ignored: f64,
    /// From this part of a collection's time on, stalls keep the limit from growing; shorter ones make its
    /// step smaller in proportion. 0 in the paper. From 0 to 0.5.
    pub tolerated: f64,
    /// From this part of a collection's time on, a stall costs all of `cut` and `shrink`; between `tolerated`
    /// and this, it costs in proportion. 0 in the paper, where each stall costs all. From 0 to 1, at least
    /// `tolerated`.
    pub whole: f64,
    /// Least allocation between two collections, as a fraction of the live data; 0 in the paper. From 0 to 1.
    pub least: f64,
    /// The bound of `least` while heaps of the least size are stalled all the same, because the live data do
    /// not fit; 0 in the paper. From 0 to 16, at least `least`.
    pub in_vain: f64,
}

/// How fast a heap grows and shrinks: parameters that are within their ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios(Parameters);

/// Why parameters were refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RatioError {
    /// A value is outside of its range, or not a number.
    OutOfRange {
        /// Name of the parameter.
        field: &'static str,
        /// The value that was asked for.
        value: f64,
        /// The least value that is accepted.
        from: f64,
        /// The largest value that is accepted.
        to: f64,
    },
    /// A parameter is larger than another that bounds it.
    Reversed {
        /// Name of the parameter that must not be larger.
        smaller: &'static str,
        /// Its value.
        value: f64,
        /// Name of the other one.
        larger: &'static str,
        /// The value of the other one: the most that is accepted.
        most: f64,
    },
}

impl fmt::Display for RatioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RatioError::OutOfRange {
                field,
                value,
                from,
                to,
            } => write!(
                f,
                "Isla Vista: `{field}` is {value}; give a number from {from} to {to}"
            ),
            RatioError::Reversed {
                smaller,
                value,
                larger,
                most,
            } => write!(
                f,
                "Isla Vista: `{smaller}` is {value}; give at most `{larger}`, which is {most}"
            ),
        }
    }
}

impl std::error::Error for RatioError {}

impl Ratios {
    /// As printed in the paper.
    pub const PAPER: Ratios = Ratios::constant(Parameters {
        grow: 0.02,
        shrink: 0.75,
        recover: 0.0,
        cut: None,
        tolerated: 0.0,
        whole: 0.0,
        least: 0.0,
        in_vain: 0.0,
        ignored: 0.0,
    });
    /// The rule with the corrections that the head of `isla_vista.rs` lists. The values are those that did
    /// best in the model of `plimsoll_sim::paging`.
    pub const MENDED: Ratios = Ratios::constant(Parameters {
        grow: 0.02,
        shrink: 0.75,
        recover: 1.0 / 128.0,
        cut: Some(0.5),
        ignored: 1.0 / 64.0,
        tolerated: 1.0 / 8.0,
        whole: 1.0 / 4.0,
        least: 1.0 / 4.0,
        in_vain: 1.0,
    });
    /// The mended rule for a heap that cannot tell stalls in collections from others:
    /// [`Ended::took`](super::Ended::took) is all the time since the last report, so that stalls are weighed
    /// as a part of that. Collections are a small part of it, and so are the stalls that matter. In the
    /// model, 1/64 and 1/32 do 3 % better; but a program that reads files in a full group waits for some
    /// hundredths of its time, which a smaller heap does not change.
    pub const ALL_TIME: Ratios = Ratios::constant(Parameters {
        tolerated: 1.0 / 32.0,
        whole: 1.0 / 8.0,
        ..Ratios::MENDED.0
    });
    /// For the drop-in, whose stalls are counted only and which leaves Isla Vista as soon as a spike is over.
    pub(super) const DROP_IN: Ratios = Ratios::constant(Parameters {
        grow: 0.05,
        shrink: 0.75,
        recover: 1.0 / 32.0,
        cut: Some(0.25),
        ignored: 0.0,
        tolerated: 0.0,
        whole: 0.0,
        least: 1.0 / 16.0,
        in_vain: 1.0 / 16.0,
    });

    /// Checks parameters.
    ///
    /// # Errors
    /// The first one that is outside of its range.
    pub const fn new(parameters: Parameters) -> Result<Ratios, RatioError> {
        match parameters.fault() {
            Some(fault) => Err(fault),
            None => Ok(Ratios(parameters)),
        }
    }

    /// Checks parameters while the program is compiled.
    const fn constant(parameters: Parameters) -> Ratios {
        assert!(parameters.fault().is_none(), "a parameter is out of range");
        Ratios(parameters)
    }

    /// The part of a step that remains after a collection that was stalled for `part` of it: 1 all of it,
    /// 0 nothing.
    pub(super) fn growth(&self, part: f64) -> f64 {
        // No division by zero: this also runs within programs that have enabled floating-point traps.
        if part == 0.0 {
            1.0
        } else if self.0.tolerated == 0.0 {
            0.0
        } else {
            (1.0 - part / self.0.tolerated).max(0.0)
        }
    }

    /// The parameters, to derive others from.
    pub const fn parameters(&self) -> Parameters {
        self.0
    }

    /// The weight of a collection that was stalled for this part of its time: 0 none, 1 all of `cut` and
    /// `shrink`.
    pub(super) fn weight(&self, part: f64) -> f64 {
        let Parameters {
            tolerated, whole, ..
        } = self.0;
        if part >= whole {
            1.0
        } else {
            ((part - tolerated) / (whole - tolerated)).max(0.0)
        }
    }
}

impl Parameters {
    const fn fault(&self) -> Option<RatioError> {
        let cut = match self.cut {
            Some(cut) => cut,
            None => 0.5,
        };
        let all = [
            ("grow", self.grow, 0.001, 0.5),
            ("shrink", self.shrink, 0.0, 0.99),
            ("recover", self.recover, 0.0, 1.0),
            ("cut", cut, 0.01, 0.5),
            ("tolerated", self.tolerated, 0.0, 0.5),
            ("whole", self.whole, 0.0, 1.0),
            ("least", self.least, 0.0, 1.0),
            ("in_vain", self.in_vain, 0.0, 16.0),
            ("ignored", self.ignored, 0.0, 0.1),
        ];
        let mut index = 0;
        while index < all.len() {
            let (field, value, from, to) = all[index];
            // A value that is not a number fails both comparisons.
            if !(value >= from && value <= to) {
                return Some(RatioError::OutOfRange {
                    field,
                    value,
                    from,
                    to,
                });
            }
            index += 1;
        }
        let pairs = [
            ("tolerated", self.tolerated, "whole", self.whole),
            ("least", self.least, "in_vain", self.in_vain),
        ];
        let mut index = 0;
        while index < pairs.len() {
            let (smaller, value, larger, most) = pairs[index];
            if value > most {
                return Some(RatioError::Reversed {
                    smaller,
                    value,
                    larger,
                    most,
                });
            }
            index += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_name_the_parameter_its_value_and_its_range() {
        let paper = Ratios::PAPER.parameters();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.01, 0.6] {
            let error = Ratios::new(Parameters {
                grow: value,
                ..paper
            })
            .unwrap_err();
            let said = format!("Isla Vista: `grow` is {value}; give a number from 0.001 to 0.5");
            assert_eq!(error.to_string(), said);
        }
        let reversed = Parameters {
            tolerated: 0.2,
            whole: 0.1,
            ..paper
        };
        let said = "Isla Vista: `tolerated` is 0.2; give at most `whole`, which is 0.1".to_owned();
        assert_eq!(Ratios::new(reversed).unwrap_err().to_string(), said);
        let reversed = Parameters {
            least: 0.3,
            in_vain: 0.2,
            ..paper
        };
        let said = "Isla Vista: `least` is 0.3; give at most `in_vain`, which is 0.2".to_owned();
        assert_eq!(Ratios::new(reversed).unwrap_err().to_string(), said);
        assert_eq!(Ratios::new(paper), Ok(Ratios::PAPER));
    }

    #[test]
    fn each_parameter_may_be_at_the_ends_of_its_range_and_not_beyond() {
        let mended = Ratios::MENDED.parameters();
        let widest = Parameters {
            whole: 1.0,
            in_vain: 16.0,
            ..mended
        };
        type Set = fn(&mut Parameters, f64);
        let all: [(&str, f64, f64, Set); 9] = [
            ("grow", 0.001, 0.5, |all, value| all.grow = value),
            ("shrink", 0.0, 0.99, |all, value| all.shrink = value),
            ("recover", 0.0, 1.0, |all, value| all.recover = value),
            ("cut", 0.01, 0.5, |all, value| all.cut = Some(value)),
            ("ignored", 0.0, 0.1, |all, value| all.ignored = value),
            ("tolerated", 0.0, 0.5, |all, value| all.tolerated = value),
            ("whole", 0.0, 1.0, |all, value| {
                (all.whole, all.tolerated) = (value, 0.0);
            }),
            ("least", 0.0, 1.0, |all, value| all.least = value),
            ("in_vain", 0.0, 16.0, |all, value| {
                (all.in_vain, all.least) = (value, 0.0);
            }),
        ];
        for (name, from, to, set) in all {
            for value in [from, to] {
                let mut asked = widest;
                set(&mut asked, value);
                assert!(Ratios::new(asked).is_ok(), "{name} {value}");
            }
            for value in [from - 0.0001, to + 0.0001, f64::NAN] {
                let mut asked = widest;
                set(&mut asked, value);
                let error = Ratios::new(asked).unwrap_err().to_string();
                let said = format!("`{name}` is {value}; give a number from {from} to {to}");
                assert!(error.ends_with(&said), "{error}");
            }
        }
    }

    #[test]
    fn a_stall_weighs_by_its_part_of_the_collection() {
        let mended = Ratios::MENDED;
        let of = |part| (mended.growth(part), mended.weight(part));
        assert_eq!(of(0.0), (1.0, 0.0));
        assert_eq!(of(1.0 / 16.0), (0.5, 0.0), "half of a step");
        assert_eq!(of(1.0 / 8.0), (0.0, 0.0), "it stands still");
        assert_eq!(of(3.0 / 16.0), (0.0, 0.5));
        assert_eq!(of(1.0 / 4.0), (0.0, 1.0));
        assert_eq!(of(1.0), (0.0, 1.0));
        let all = Ratios::ALL_TIME;
        let of = |part| (all.growth(part), all.weight(part));
        assert_eq!(of(1.0 / 64.0), (0.5, 0.0));
        assert_eq!(of(1.0 / 32.0), (0.0, 0.0));
        assert_eq!(of(5.0 / 64.0), (0.0, 0.5));
        assert_eq!(of(1.0 / 8.0), (0.0, 1.0));
        let paper = Ratios::PAPER;
        assert_eq!((paper.growth(0.0), paper.weight(0.0)), (1.0, 1.0));
        assert_eq!((paper.growth(1e-9), paper.weight(1e-9)), (0.0, 1.0));
    }

    proptest! {
        /// For all bits of the values the check ends, and a weight is from 0 to 1.
        #[test]
        fn any_bits_are_refused_or_weigh(
            bits in proptest::array::uniform9(any::<u64>()),
            part in 0.0..=1.0f64,
        ) {
            let [grow, shrink, recover, cut, tolerated, whole, least, ignored, in_vain] =
                bits.map(f64::from_bits);
            let cut = Some(cut);
            let asked = Parameters { grow, shrink, recover, cut, tolerated, whole, least, ignored, in_vain };
            if let Ok(ratios) = Ratios::new(asked) {
                prop_assert!((0.0..=1.0).contains(&ratios.weight(part)));
                prop_assert!((0.0..=1.0).contains(&ratios.growth(part)));
            }
        }
    }
}
