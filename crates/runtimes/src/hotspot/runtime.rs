//! Connects the parts of this adapter to the trait [`Runtime`].

use super::{NAME, recognise, start, steer};
use crate::detect::{Candidate, Command};
use crate::regular::Root;
use crate::runtime::{Addition, Choice, Runtime, Start, Steered};

/// Java virtual machines with `HotSpot`'s `libjvm.so`.
#[derive(Clone, Copy, Debug)]
pub struct HotSpot;

impl Runtime for HotSpot {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choices(&self) -> &'static [Choice] {
        &[Choice {
            name: NAME,
            help: "A Java program on HotSpot",
        }]
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let file = command.executable();
        file.is_some_and(|file| recognise::is_launcher(&Root::Ours, file))
    }

    fn prepare(&self, start: &Start<'_>) -> Addition {
        start::prepare(start)
    }

    fn runs(&self, process: &Candidate) -> bool {
        recognise::runs(process)
    }

    fn steered(&self) -> Steered {
        Steered::Outside(steer::steer)
    }
}
