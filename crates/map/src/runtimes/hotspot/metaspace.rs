//! Metadata of classes. No table exports where it is; it is found by following the classes of all
//! class loaders: the mappings in which their parts lie are metaspace.

use super::fields::{Known, Machine, Name, Unknown};
use crate::area::Kind;
use crate::runtime::Labels;
use crate::runtimes::words::Ranges;
use crate::sight::Sight;
use plimsoll_kernel::smaps::{Addresses, Area};
use std::collections::BTreeSet;

/// Most class loaders, and most classes, that are followed.
const MAX_LOADERS: usize = 1 << 16;
const MAX_CLASSES: usize = 1 << 18;
const WHAT: &str = "the classes";
/// Most reserved memory between the class data sharing archive and the class space, bytes.
const MAX_GAP: u64 = 16 << 20;
const FIRST: Name = ("ClassLoaderDataGraph", "_head");

/// Labels the class space, other metaspace, and the archive.
pub(super) fn label(machine: &Machine<'_>, sight: &Sight, labels: &mut Labels) -> Known<()> {
    let archive = archive(machine).unwrap_or_default();
    labels.add(archive.clone(), Kind::ClassArchive);
    let told = labels.labels.iter().map(|label| label.addresses.clone());
    let told = Ranges::from(told.collect());
    let mut found = Found {
        sight,
        told: &told,
        classes: BTreeSet::new(),
        others: BTreeSet::new(),
    };
    let outcome = follow(machine, &mut found);
    let size = class_space_size(machine);
    if let Some(size) = size {
        // The class space follows the archive.
        if !archive.is_empty() {
            let next = sight
                .mappings
                .iter()
                .position(|a| a.addresses.start == archive.end);
            found
                .classes
                .extend(next.filter(|&at| found.may_be(&sight.mappings[at])));
        }
        let mut end = 0;
        for &at in &found.classes {
            if sight.mappings[at].addresses.start >= end {
                let space = class_space(&found, at, size);
                end = space.end;
                labels.add(space, Kind::ClassSpace);
            }
        }
    } else {
        let classes = std::mem::take(&mut found.classes);
        found.others.extend(classes);
    }
    for &at in &found.others {
        labels.add(sight.mappings[at].addresses.clone(), Kind::Metaspace);
    }
    outcome
}

/// Mappings in which metadata lies, by their places in the list.
struct Found<'a> {
    sight: &'a Sight,
    /// What is labelled already.
    told: &'a Ranges,
    classes: BTreeSet<usize>,
    others: BTreeSet<usize>,
}

impl Found<'_> {
    /// The place of the mapping that an address of metadata is in.
    fn mapping(&self, address: u64) -> Option<usize> {
        let mappings = &self.sight.mappings;
        let at = mappings.partition_point(|area| area.addresses.end <= address);
        let area = mappings.get(at)?;
        let is_it = area.addresses.contains(&address) && area.writable && self.may_be(area);
        is_it.then_some(at)
    }

    /// Whether a mapping can be metaspace: memory of no file, and not yet labelled.
    fn may_be(&self, area: &Area) -> bool {
        let is_plain = area.name.is_empty() && area.file.inode == 0 && !area.shared_mapping;
        is_plain && self.told.within(&area.addresses).next().is_none()
    }
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

/// The mappings around this one that can be the class space: what adjoins it, is not labelled, and is
/// no more than was reserved.
fn class_space(found: &Found<'_>, at: usize, size: u64) -> Addresses {
    let mappings = &found.sight.mappings;
    let most = size.saturating_add(MAX_GAP);
    let mut space = mappings[at].addresses.clone();
    for area in mappings[..at].iter().rev() {
        let adjoins = found.may_be(area) && area.addresses.end == space.start;
        if !adjoins || space.end - area.addresses.start > most {
            break;
        }
        space.start = area.addresses.start;
    }
    for area in &mappings[at + 1..] {
        let adjoins = found.may_be(area) && area.addresses.start == space.end;
        if !adjoins || area.addresses.end - space.start > most {
            break;
        }
        space.end = area.addresses.end;
    }
    space
}

/// Follows all classes of all class loaders, as far as they are in memory.
fn follow(machine: &Machine<'_>, found: &mut Found<'_>) -> Known<()> {
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
            found.classes.extend(found.mapping(class));
            if let Err(error) = add_parts(machine, class, found) {
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

/// Adds where the parts of a class lie. Classes of arrays have none.
fn add_parts(machine: &Machine<'_>, class: u64, found: &mut Found<'_>) -> Known<()> {
    let layout = machine.half(machine.at(class, ("Klass", "_layout_helper"))?)?;
    if layout as i32 <= 0 {
        return Ok(());
    }
    for name in ["_constants", "_methods"] {
        let part = machine.get(class, ("InstanceKlass", name))?;
        found.others.extend(found.mapping(part));
    }
    Ok(())
}
