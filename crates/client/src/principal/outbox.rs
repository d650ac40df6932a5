//! Messages that wait to be sent to the broker.

use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;

/// Messages that wait to be sent. Reports are merged and released bytes summed, so it never grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outbox {
    /// All reports so far, merged: a new broker gets all of it.
    pub(super) report: Report,
    /// Whether the present broker lacks some of it.
    pub(super) report_is_new: bool,
    /// Memory that was released and not reported yet.
    pub(super) released: Bytes,
}

impl Outbox {
    /// Merges a report. Absent fields keep their last value.
    pub(super) fn add_report(&mut self, new: &Report) {
        let known = &mut self.report;

        known.live = new.live.or(known.live);
        known.allocation_rate = new.allocation_rate.or(known.allocation_rate);
        known.collection_speed = new.collection_speed.or(known.collection_speed);
        known.demand = new.demand.or(known.demand);
        known.floor = new.floor.or(known.floor);
        known.reaction_ms = new.reaction_ms.or(known.reaction_ms);
        known.collections = new.collections.or(known.collections);
        known.collection_ms = new.collection_ms.or(known.collection_ms);
        known.stalls = new.stalls.or(known.stalls);
        known.worth = new.worth.or(known.worth);
        known.collector = new.collector.or(known.collector);

        self.report_is_new = true;
    }

    pub(super) fn add_released(&mut self, bytes: Bytes) {
        self.released += bytes;
    }

    /// Prepares for a new broker: it needs the whole report again, but released bytes are old news.
    pub(super) fn start_anew(&mut self) {
        self.report_is_new |= self.report != Report::default();
        self.released = Bytes::ZERO;
    }

    /// Takes what is to be sent. The merged report stays for the next join.
    pub(super) fn take(&mut self) -> Outbox {
        let taken = *self;
        self.report_is_new = false;
        self.released = Bytes::ZERO;
        taken
    }
}
