//! Cuts mappings into parts of one kind each, by labels.

use crate::area::Kind;
use crate::labels::{Label, MAX_LABELS};
use plimsoll_kernel::smaps::{Addresses, Area};
use std::collections::BTreeSet;

/// A part of one mapping, of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the mapping.
    pub mapping: usize,
    /// Where; inside of the mapping.
    pub addresses: Addresses,
    /// Its purpose.
    pub kind: Kind,
}

/// Cuts mappings, which must be sorted and apart, by labels: where two labels overlap the first one
/// counts. The parts of a mapping cover it; what nobody labelled is [`Kind::Other`]. Each label makes
/// at most two cuts.
pub fn cut(mappings: &[Area], labels: &[Label]) -> Vec<Part> {
    let painted = paint(labels);
    let mut parts = Vec::with_capacity(mappings.len());
    let mut next = 0;
    for (mapping, area) in mappings.iter().enumerate() {
        let mut at = area.addresses.start;
        while painted.get(next).is_some_and(|p| p.addresses.end <= at) {
            next += 1;
        }
        // The last label may reach into the next mapping, so `next` does not pass it.
        let inside = painted[next..]
            .iter()
            .take_while(|p| p.addresses.start < area.addresses.end);
        for label in inside {
            let start = label.addresses.start.max(at);
            let end = label.addresses.end.min(area.addresses.end);
            push(&mut parts, mapping, at..start, Kind::Other);
            push(&mut parts, mapping, start..end, label.kind);
            at = end.max(at);
        }
        push(&mut parts, mapping, at..area.addresses.end, Kind::Other);
    }
    parts
}

/// Adds a part; joins it with the last one of the same mapping and kind.
fn push(parts: &mut Vec<Part>, mapping: usize, addresses: Addresses, kind: Kind) {
    if addresses.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(last)
            if last.mapping == mapping
                && last.kind == kind
                && last.addresses.end == addresses.start =>
        {
            last.addresses.end = addresses.end;
        }
        _ => parts.push(Part {
            mapping,
            addresses,
            kind,
        }),
    }
}

/// Labels that do not overlap, by address, with the kinds of the given ones.
fn paint(labels: &[Label]) -> Vec<Label> {
    let labels = &labels[..labels.len().min(MAX_LABELS)];
    let mut ends: Vec<(u64, bool, usize)> = Vec::with_capacity(labels.len() * 2);
    for (index, label) in labels.iter().enumerate() {
        if !label.addresses.is_empty() {
            ends.push((label.addresses.start, true, index));
            ends.push((label.addresses.end, false, index));
        }
    }
    ends.sort_unstable();
    let mut painted: Vec<Label> = Vec::new();
    let mut open = BTreeSet::new();
    let mut since = 0;
    for (at, begins, index) in ends {
        if let Some(&first) = open.first()
            && since < at
        {
            add_painted(&mut painted, since..at, labels[first as usize].kind);
        }
        since = at;
        if begins {
            open.insert(index as u32)
        } else {
            open.remove(&(index as u32))
        };
    }
    painted
}

fn add_painted(painted: &mut Vec<Label>, addresses: Addresses, kind: Kind) {
    match painted.last_mut() {
        Some(last) if last.kind == kind && last.addresses.end == addresses.start => {
            last.addresses.end = addresses.end;
        }
        _ => painted.push(Label { addresses, kind }),
    }
}
