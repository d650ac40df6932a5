//! Connects the parts of this adapter to the trait [`Runtime`].

use super::{NAME, flags, lever, options, release, start};
use crate::lever_options::{Choice, Chosen, LeverOption};
use crate::process::Process;
use crate::runtime::{Addition, Runtime, Start, Steered};
use plimsoll_programs::hotspot::HotSpot;
use plimsoll_unit::Bytes;

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

    fn needs_no_broker(&self, chosen: &Chosen) -> bool {
        options::Policy::of(chosen).is_by_stalls()
    }

    fn prepare(&self, start: &Start<'_>) -> Addition {
        start::prepare(start)
    }

    fn steered(&self) -> Steered {
        Steered::Outside(lever::begin)
    }

    fn put_back(&self, process: Process, note: &str) -> bool {
        release::put_back(process, note)
    }

    fn takes_alone(&self, memory: Bytes) -> Bytes {
        flags::heap_alone(memory)
    }

    fn adopted(&self) -> Option<&'static str> {
        Some("less closely than under `plimsoll run`, which adds flags at the start")
    }
}
