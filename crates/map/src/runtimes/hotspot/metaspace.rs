//! Metadata of classes. No table exports where it is; it is found by following the classes of all
//! class loaders: the memory in which their parts lie is metaspace.

use super::fields::{Known, Machine, Name, Unknown};
use crate::area::Kind;
use crate::labels::Labels;
use crate::runtimes::process_words::Ranges;
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area};
use std::collections::BTreeMap;

/// Most class loaders, and most classes, that are followed.
const MAX_LOADERS: usize = 1 << 16;
const MAX_CLASSES: usize = 1 << 18;
const WHAT: &str = "the classes";
/// Most reserved memory between the class data sharing archive and the class space, bytes.
const MAX_GAP: u64 = 16 << 20;
/// Metaspace is committed in multiples of this since JDK 16, and its reservations begin at multiples of
/// the other, bytes.
const GRANULE: u64 = 64 << 10;
const ALIGNMENT: u64 = 4 << 20;
/// A type that debuggers are told of before that.
const BEFORE_JDK_16: &str = "metaspace::Metablock";
const FIRST: Name = ("ClassLoaderDataGraph", "_head");

/// Labels the class space, other metaspace, and the archive.
pub(super) fn label(machine: &Machine<'_>, snapshot: &Snapshot, labels: &mut Labels) -> Known<()> {
    let archive = archive(machine).unwrap_or_default();
    labels.add(archive.clone(), Kind::ClassArchive);
    let mut found = Found {
        pieces: pieces(snapshot, labels),
        alignment: if machine.has_type(BEFORE_JDK_16) {
            GRANULE
        } else {
            ALIGNMENT
        },
        classes: BTreeMap::new(),
        others: BTreeMap::new(),
    };
    let outcome = follow(machine, &mut found);
    match class_space_size(machine) {
        Some(size) => label_class_space(&mut found, &archive, size, labels),
        None => {
            // Classes are where their parts are.
            for (at, seen) in std::mem::take(&mut found.classes) {
                found.add_other(at, &seen);
            }
        }
    }
    for (&at, seen) in &found.others {
        labels.add(found.metaspace(at, seen), Kind::Metaspace);
    }
    outcome
}

/// Memory of no file, of one mapping, that is not labelled yet.
struct Piece {
    addresses: Addresses,
    /// Whether it is committed, and not only reserved.
    writable: bool,
}

/// All pieces, by address.
fn pieces(snapshot: &Snapshot, labels: &Labels) -> Vec<Piece> {
    let told = labels.labels.iter().map(|label| label.addresses.clone());
    let told = Ranges::from(told.collect());
    let is_plain =
        |area: &&Area| area.name.is_empty() && area.file.inode == 0 && !area.shared_mapping;
    let mut pieces = Vec::new();
    for area in snapshot.mappings.iter().filter(is_plain) {
        let mut push = |addresses: Addresses| {
            if !addresses.is_empty() {
                pieces.push(Piece {
                    addresses,
                    writable: area.writable,
                });
            }
        };
        let mut at = area.addresses.start;
        for told in told.within(&area.addresses) {
            push(at..told.start);
            at = told.end;
        }
        push(at..area.addresses.end);
    }
    pieces
}

/// Pieces in which metadata lies, and from where to where it was seen there.
struct Found {
    pieces: Vec<Piece>,
    /// Alignment of the start of a reservation, bytes.
    alignment: u64,
    classes: BTreeMap<usize, Addresses>,
    others: BTreeMap<usize, Addresses>,
}

impl Found {
    /// The place of the piece that an address is in, if it is committed.
    fn piece(&self, address: u64) -> Option<usize> {
        let at = (self.pieces).partition_point(|piece| piece.addresses.end <= address);
        let piece = self.pieces.get(at)?;
        (piece.addresses.contains(&address) && piece.writable).then_some(at)
    }

    fn see_class(&mut self, address: u64) {
        if let Some(at) = self.piece(address) {
            extend(&mut self.classes, at, &(address..address + 1));
        }
    }

    fn see_other(&mut self, address: u64) {
        if let Some(at) = self.piece(address) {
            self.add_other(at, &(address..address + 1));
        }
    }

    fn add_other(&mut self, at: usize, seen: &Addresses) {
        extend(&mut self.others, at, seen);
    }

    /// The metaspace in a piece. The kernel may have made one mapping of it and of what lies beside
    /// it: it begins where a reservation can begin before the first metadata that was seen, and ends
    /// where only reserved memory follows, or else with the last that was seen.
    fn metaspace(&self, at: usize, seen: &Addresses) -> Addresses {
        let piece = &self.pieces[at].addresses;
        let next = self.pieces.get(at + 1);
        let is_followed = next.is_some_and(|n| n.addresses.start == piece.end && !n.writable);
        let start = (seen.start / self.alignment * self.alignment).max(piece.start);
        let end = seen.end.saturating_add(GRANULE) / GRANULE * GRANULE;
        if is_followed {
            start..piece.end
        } else {
            start..end.min(piece.end)
        }
    }
}

fn extend(ranges: &mut BTreeMap<usize, Addresses>, at: usize, by: &Addresses) {
    let range = ranges.entry(at).or_insert_with(|| by.clone());
    range.start = range.start.min(by.start);
    range.end = range.end.max(by.end);
}

/// Where the archive of the JDK's classes is mapped.
fn archive(machine: &Machine<'_>) -> Known<Addresses> {
    let start = machine.get_static(("MetaspaceObj", "_shared_metaspace_base"))?;
    let end = machine.get_static(("MetaspaceObj", "_shared_metaspace_top"))?;
    machine.range(start, end, "the class data sharing archive")
}

/// Reserved for the class space, bytes; `None` if there is none.
fn class_space_size(machine: &Machine<'_>) -> Option<u64> {
    let is_used = "UseCompressedClassPointers";
    if machine.has_flag(is_used) && !machine.is_set(is_used).unwrap_or(true) {
        return None;
    }
    let at = machine.flag_at("CompressedClassSpaceSize").ok()?;
    machine.word(at).ok().filter(|&size| size > 0)
}

/// Labels where classes were seen, and what follows the archive: the class space is mapped there.
fn label_class_space(found: &mut Found, archive: &Addresses, size: u64, labels: &mut Labels) {
    if !archive.is_empty() {
        let next = found
            .pieces
            .iter()
            .position(|piece| piece.addresses.start == archive.end);
        if let Some(at) = next {
            extend(&mut found.classes, at, &(archive.end..archive.end + 1));
        }
    }
    let mut end = 0;
    for &at in found.classes.keys() {
        if found.pieces[at].addresses.start >= end {
            let space = class_space(&found.pieces, at, size);
            end = space.end;
            labels.add(space, Kind::ClassSpace);
        }
    }
}

/// The pieces around this one that can be the class space: what adjoins it, and no more than was
/// reserved.
fn class_space(pieces: &[Piece], at: usize, size: u64) -> Addresses {
    let most = size.saturating_add(MAX_GAP);
    let mut space = pieces[at].addresses.clone();
    for Piece { addresses, .. } in pieces[..at].iter().rev() {
        if addresses.end != space.start || space.end - addresses.start > most {
            break;
        }
        space.start = addresses.start;
    }
    for Piece { addresses, .. } in &pieces[at + 1..] {
        // The unused rest of the class space is one piece, so what begins after its size is another's.
        let is_full = addresses.start - space.start >= size || addresses.end - space.start > most;
        if addresses.start != space.end || is_full {
            break;
        }
        space.end = addresses.end;
    }
    space
}

/// Follows all classes of all class loaders, as far as they are in memory.
fn follow(machine: &Machine<'_>, found: &mut Found) -> Known<()> {
    let mut loader = machine.get_static(FIRST)?;
    let mut classes = 0;
    let mut last = Ok(());
    for _ in 0..MAX_LOADERS {
        if loader == 0 {
            break;
        }
        let mut class = machine.get(loader, ("ClassLoaderData", "_klasses"))?;
        while class != 0 && classes < MAX_CLASSES {
            classes += 1;
            found.see_class(class);
            if let Err(error) = see_parts(machine, class, found) {
                last = Err(error);
            }
            match machine.get(class, ("Klass", "_next_link")) {
                Ok(next) => class = next,
                Err(error) => {
                    last = Err(error);
                    break;
                }
            }
        }
        loader = machine.get(loader, ("ClassLoaderData", "_next"))?;
    }
    match classes {
        0 => Err(Unknown::Odd(WHAT)),
        _ => last,
    }
}

/// Notes where the parts of a class lie. Classes of arrays have none.
fn see_parts(machine: &Machine<'_>, class: u64, found: &mut Found) -> Known<()> {
    let layout = machine.half(machine.at(class, ("Klass", "_layout_helper"))?)?;
    if layout as i32 <= 0 {
        return Ok(());
    }
    for name in ["_constants", "_methods"] {
        let part = machine.get(class, ("InstanceKlass", name))?;
        found.see_other(part);
    }
    Ok(())
}
