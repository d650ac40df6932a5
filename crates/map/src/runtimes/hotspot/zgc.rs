//! Heaps of ZGC. The heap is a file in memory that is mapped at one place or, without generations, at
//! three. Each of those views has the same offsets; a table tells the page (a range of offsets) that
//! a granule of 2 MiB belongs to.

use super::fields::{Known, Machine, Name, Unknown, page_after};
use crate::area::Kind;
use crate::labels::Labels;
use crate::snapshot::Snapshot;
use plimsoll_kernel::smaps::{Addresses, Area};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

const WHAT: &str = "the pages of the heap";
/// Most granules that are looked at, over all views: 64 TiB of heap have as many.
const MAX_GRANULES: usize = 1 << 25;

/// The names that a version has for the fields.
struct Names {
    heap: Name,
    tables: [Name; 2],
    map: Name,
    entries: [Name; 2],
    kind: Name,
    range: Name,
    start: Name,
    end: Name,
    size: Name,
    top: Name,
    globals: Name,
    mask: Name,
    constants: [&'static str; 2],
    large: [&'static str; 2],
}

const Z: Names = Names {
    heap: ("ZCollectedHeap", "_heap"),
    tables: [("ZHeap", "_page_table"), ("ZHeap", "_pagetable")],
    map: ("ZPageTable", "_map"),
    entries: [
        ("ZGranuleMapForPageTable", "_map"),
        ("ZAddressRangeMapForPageTable", "_map"),
    ],
    kind: ("ZPage", "_type"),
    range: ("ZPage", "_virtual"),
    start: ("ZVirtualMemory", "_start"),
    end: ("ZVirtualMemory", "_end"),
    size: ("ZVirtualMemory", "_size"),
    top: ("ZPage", "_top"),
    globals: ("ZGlobalsForVMStructs", "_instance_p"),
    mask: ("ZGlobalsForVMStructs", "_ZAddressOffsetMask"),
    constants: ["ZAddressOffsetMask", "ZGranuleSizeShift"],
    large: ["ZPageTypeLarge", "ZPageType::large"],
};
/// ZGC without generations, in versions that have both.
const X: Names = Names {
    heap: ("XCollectedHeap", "_heap"),
    tables: [("XHeap", "_page_table"), ("XHeap", "_page_table")],
    map: ("XPageTable", "_map"),
    entries: [
        ("XGranuleMapForPageTable", "_map"),
        ("XGranuleMapForPageTable", "_map"),
    ],
    kind: ("XPage", "_type"),
    range: ("XPage", "_virtual"),
    start: ("XVirtualMemory", "_start"),
    end: ("XVirtualMemory", "_end"),
    size: ("XVirtualMemory", "_size"),
    top: ("XPage", "_top"),
    globals: ("XGlobalsForVMStructs", "_instance_p"),
    mask: ("XGlobalsForVMStructs", "_XAddressOffsetMask"),
    constants: ["XAddressOffsetMask", "XGranuleSizeShift"],
    large: ["XPageTypeLarge", "XPageTypeLarge"],
};

/// Whether a mapping is a view of the heap.
pub(super) fn is_heap(area: &Area) -> bool {
    let name = area.name.as_str();
    name.starts_with("/memfd:java_heap") || name.starts_with("/dev/shm/java_heap")
}

/// Labels the views by their pages.
pub(super) fn label(
    machine: &Machine<'_>,
    heap: u64,
    snapshot: &Snapshot,
    labels: &mut Labels,
) -> Known<()> {
    let names = if machine.has_flag("ZGenerational")
        && machine.has(X.heap)
        && !machine.is_set("ZGenerational")?
    {
        X
    } else {
        Z
    };
    let table = Table::read(machine, heap, names)?;
    let mut pages = Pages::default();
    let mut views = HashSet::new();
    let mut granules = 0;
    for area in snapshot.mappings.iter().filter(|area| is_heap(area)) {
        views.insert(area.addresses.start & !table.mask);
        granules += (area.size() >> table.shift) as usize + 1;
        if granules > MAX_GRANULES {
            return Err(Unknown::Odd(WHAT));
        }
        label_view(machine, &table, &area.addresses, &mut pages, labels);
    }
    let is_reserved = |area: &&Area| {
        !area.readable
            && area.name.is_empty()
            && views.contains(&(area.addresses.start & !table.mask))
    };
    for area in snapshot.mappings.iter().filter(is_reserved) {
        labels.add(area.addresses.clone(), Kind::FreeHeap);
    }
    note(&table, &pages, machine, labels);
    Ok(())
}

fn note(table: &Table, pages: &Pages, machine: &Machine<'_>, labels: &mut Labels) {
    if pages.unread > 0 {
        labels.note(format!(
            "the JVM's data about {} of the ZGC heap's granules of 2 MiB is not in memory: they are shown \
             as heap",
            pages.unread
        ));
    }
    let has_generations =
        machine.has_flag("ZGenerational") || machine.has_flag("ZTenuringThreshold");
    if has_generations && table.names.heap == Z.heap {
        labels.note(
            "which pages of the ZGC heap are young or old is not told by the JVM: both are shown as heap",
        );
    }
    if !machine.has(table.names.top) {
        labels.note(
            "how full the pages of the ZGC heap are is not told by this JVM: all of a page is shown as heap",
        );
    }
}

/// The table of pages.
struct Table {
    entries: u64,
    /// The bits of an address that are its offset in the heap.
    mask: u64,
    /// Bytes of a granule, as a power of 2.
    shift: u32,
    large: Option<i64>,
    names: Names,
}

impl Table {
    fn read(machine: &Machine<'_>, heap: u64, names: Names) -> Known<Table> {
        let inner = machine.at(heap, names.heap)?;
        let table = machine.at_any(inner, &names.tables)?;
        let map = machine.at(table, names.map)?;
        let entries = machine.get_any(map, &names.entries)?;
        let constant = |name: &str| machine.constant(name).filter(|&value| value > 0);
        let mask = match constant(names.constants[0]) {
            Some(mask) => mask as u64,
            None => {
                let globals = machine.static_pointer(names.globals)?;
                machine.word(machine.get(globals, names.mask)?)?
            }
        };
        let is_mask = mask > 1 << 30 && mask < 1 << 47 && (mask + 1).is_power_of_two();
        let granule = constant(names.constants[1]).or_else(|| constant("ZPageSizeMinShift"));
        let shift = granule.filter(|shift| (16..=30).contains(shift));
        match (is_mask, shift) {
            (true, Some(shift)) => Ok(Table {
                entries,
                mask,
                shift: shift as u32,
                large: names.large.iter().find_map(|name| machine.constant(name)),
                names,
            }),
            _ => Err(Unknown::Odd(WHAT)),
        }
    }

    /// The page that a granule belongs to.
    fn page(&self, machine: &Machine<'_>, granule: u64) -> Known<Option<Page>> {
        let entry = granule
            .checked_mul(8)
            .and_then(|at| at.checked_add(self.entries));
        let entry = machine.word(entry.ok_or(Unknown::Odd(WHAT))?)?;
        // The lowest bit is a mark in JDK 11.
        let page = entry & !1;
        if page == 0 {
            return Ok(None);
        }
        let names = &self.names;
        let range = machine.at(page, names.range)?;
        let start = machine.get(range, names.start)?;
        let end = if machine.has(names.end) {
            machine.get(range, names.end)?
        } else {
            start.saturating_add(machine.get(range, names.size)?)
        };
        let kind = machine.byte(machine.at(page, names.kind)?)?;
        let top = if machine.has(names.top) {
            machine.get(page, names.top)? & self.mask
        } else {
            end
        };
        let offset = granule << self.shift;
        let is_page = start <= offset && offset < end && end <= self.mask && start <= top;
        // An empty page at the end of all offsets has a top of 0.
        if !is_page || top > end {
            return Err(Unknown::Odd(WHAT));
        }
        let kind = if Some(i64::from(kind)) == self.large {
            Kind::Humongous
        } else {
            Kind::Heap
        };
        Ok(Some(Page {
            offsets: start..end,
            top: page_after(top).min(end),
            kind,
        }))
    }
}

/// A page of the heap, as offsets.
#[derive(Clone)]
struct Page {
    offsets: Addresses,
    top: u64,
    kind: Kind,
}

/// The granules read so far: each is read once for all views.
#[derive(Default)]
struct Pages {
    known: HashMap<u64, Option<Page>>,
    unread: usize,
}

impl Pages {
    /// The page of a granule; `Err` if it is not known.
    fn of(
        &mut self,
        machine: &Machine<'_>,
        table: &Table,
        granule: u64,
    ) -> Result<Option<Page>, ()> {
        match self.known.entry(granule) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(place) => match table.page(machine, granule) {
                Ok(page) => Ok(place.insert(page).clone()),
                Err(_) => {
                    self.unread += 1;
                    Err(())
                }
            },
        }
    }
}

fn label_view(
    machine: &Machine<'_>,
    table: &Table,
    view: &Addresses,
    pages: &mut Pages,
    labels: &mut Labels,
) {
    let base = view.start & !table.mask;
    let mut at = view.start;
    while at < view.end {
        let granule = (at & table.mask) >> table.shift;
        let next = base + ((granule + 1) << table.shift);
        let page = pages.of(machine, table, granule);
        let (top, end, kind) = match &page {
            Ok(Some(page)) => (base + page.top, base + page.offsets.end, page.kind),
            Ok(None) => (at, next, Kind::FreeHeap),
            Err(()) => (next, next, Kind::Heap),
        };
        // A page is made of whole granules: it has all of this one, even if it claims to end within it.
        let end = end.max(next).min(view.end);
        let top = top.clamp(at, end);
        labels.add(at..top, kind);
        labels.add(top..end, Kind::FreeHeap);
        at = end;
    }
}
