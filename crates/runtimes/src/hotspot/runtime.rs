//! Connects the parts of this adapter to the trait [`Runtime`].

use super::{NAME, lever, options, start};
use crate::lever_options::{Choice, LeverOption};
use crate::runtime::{Addition, Runtime, Start, Steered};
use plimsoll_programs::hotspot::HotSpot;

impl Runtime for HotSpot {
    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: NAME,
            help: "A Java program on HotSpot",
        }]
    }

    fn options(&self) -> &'static [LeverOption] {
        options::OPTIONS
    }

    fn prepare(&self, start: &Start<'_>) -> Addition {
        start::prepare(start)
    }

    fn steered(&self) -> Steered {
        Steered::Outside(lever::begin)
    }
}
