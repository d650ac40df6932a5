//! The memory of a machine's process: heap and native part, in memory and in swap.

use crate::hotspot::control::Seen;
use crate::hotspot::footprint::{Footprint, Gauge, Returning, Surveyor};
use crate::hotspot::machine::Machine;
use crate::hotspot::native_growth::Growth;
use crate::hotspot::sizing_flags::Levers;
use crate::process::Process;
use plimsoll_unit::{Bytes, Nanos};

/// The memory of one process.
#[derive(Debug)]
pub(super) struct Memory {
    /// Reads its memory.
    gauge: Gauge,
    /// Measures it by parts.
    surveyor: Surveyor,
    /// Its memory by parts, as measured last.
    footprint: Footprint,
    /// Memory that its heap gave up lately.
    returning: Returning,
    /// Its native memory over time.
    growth: Growth,
}

/// The memory that a process uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// In memory.
    pub(super) resident: Bytes,
    /// In swap.
    pub(super) swapped: Bytes,
    /// The use if none of its heap was in swap. Swapped heap is still the machine's memory, and a collection
    /// that shrinks the heap brings it back or drops it.
    pub(super) whole: Bytes,
}

impl Memory {
    /// Nothing was measured yet.
    pub(super) fn of(process: Process, machine: &Machine, levers: &Levers) -> Memory {
        Memory {
            gauge: Gauge::new(process, machine.collector),
            surveyor: Surveyor::of(process, machine.heap.clone()),
            footprint: Footprint::default(),
            returning: Returning::default(),
            growth: Growth::of(levers),
        }
    }

    /// Measures heap and native part. Takes milliseconds per gibibyte.
    pub(super) fn measure(&mut self) {
        let measured = self.surveyor.measure(self.gauge.watched());
        self.footprint = measured.unwrap_or(self.footprint);
    }

    /// The major faults of the process so far; 0 if they cannot be read.
    pub(super) fn major_faults(&self) -> u64 {
        self.gauge.watched().major_faults().unwrap_or(0)
    }

    /// The use of this moment; `None` if it cannot be read.
    pub(super) fn uses(&self) -> Option<Use> {
        let (resident, swapped) = self.gauge.uses_and_swapped().ok()?;
        let heap_swapped = swapped - self.footprint.native_swapped;
        Some(Use {
            resident,
            swapped,
            whole: resident + heap_swapped,
        })
    }

    /// The native part as it was measured last.
    pub(super) fn measured_native(&self) -> Bytes {
        self.footprint.native
    }

    /// The native part. It may have grown since it was measured: what the heap cannot have `touched` must be
    /// native. Much of a heap with generations is committed long before it is touched, so there the measured
    /// heap tells more. Memory that the heap gave up a moment ago is not native.
    pub(super) fn native(
        &mut self,
        uses: Bytes,
        touched: Bytes,
        committed: Bytes,
        now: Nanos,
    ) -> Bytes {
        let touched = touched.max(self.footprint.heap).min(committed);
        let heap = self.returning.look(touched, now);
        let native = self.footprint.native.max(uses - heap);
        self.growth.look(now, native, committed, uses);
        native
    }

    /// `seen` with what is kept free below its limit where an excess ends the program, in a computer or group
    /// with this capacity. `by_stalls`: stalls tell how large the heap is to be.
    pub(super) fn keeping_free(&self, cliff: Option<Bytes>, by_stalls: bool, seen: Seen) -> Seen {
        let Some(capacity) = cliff else {
            return seen;
        };
        let limit = seen.limit;
        let ample = if by_stalls {
            Bytes::ZERO
        } else {
            self.growth.ample(limit, capacity)
        };
        Seen {
            spare: self.growth.spare(limit),
            ample,
            kept: self.growth.kept(limit),
            ..seen
        }
    }
}
