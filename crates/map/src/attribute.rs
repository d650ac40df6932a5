//! Divides what the kernel counted of each mapping among its parts. Pure: data in, data out.
//!
//! The kernel's count of a mapping (`smaps`) is the truth, and the parts of a mapping always sum up
//! to it. Pages decide which part has how much of it. Where more was counted page by page than the
//! kernel says, pages of zeros and markers are left out first, then all are scaled. Where less was
//! counted, the rest is [`Kind::Unattributed`]: it changed between two reads.

use crate::apportion::{fit, fit_within, scaled, share};
use crate::area::{Kind, States};
use crate::cached_files::{Cache, has_file};
use crate::count::by_mapping;
use crate::parts::Part;
use crate::tally::{Counted, Tally};
use plimsoll_kernel::smaps::{Addresses, Area};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Numbers that were divided by share, because no page tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimated {
    /// `resident` and `anonymous`, by size: the pages could not be read.
    pub resident: bool,
    /// `swapped`, by what is not resident.
    pub swapped: bool,
    /// `shared`, by what is resident.
    pub shared: bool,
    /// `referenced`, by what is resident.
    pub referenced: bool,
}

impl Estimated {
    pub(crate) fn add(&mut self, other: Estimated) {
        self.resident |= other.resident;
        self.swapped |= other.swapped;
        self.shared |= other.shared;
        self.referenced |= other.referenced;
    }
}

/// One area of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaOf {
    /// Its purpose.
    pub kind: Kind,
    /// Its memory.
    #[serde(flatten)]
    pub states: States,
    /// Which of the numbers are estimated.
    pub estimated: Estimated,
}

/// A part of a mapping with its states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Its purpose.
    pub kind: Kind,
    /// The file, or what the kernel calls the mapping; empty for anonymous memory.
    pub name: String,
    /// Its memory.
    #[serde(flatten)]
    pub states: States,
}

/// The areas of a process with their states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// As the kernel counts the process (`smaps`). The areas sum up to it.
    pub total: States,
    /// The areas that have memory, in the order of [`Kind`].
    pub areas: Vec<AreaOf>,
    /// Sentences that say which memory could not be told apart, and why.
    pub notes: Vec<String>,
}

/// The memory of one mapping, divided.
struct Divided {
    /// The same order as its parts.
    parts: Vec<States>,
    /// Memory that the kernel counted and no part has.
    rest: States,
    estimated: Estimated,
}

/// Divides; `caches` has what is known of the page cache, by part (or nothing). Calls `each` with each
/// part and its states.
pub fn attribute(
    mappings: &[Area],
    parts: &[Part],
    counted: &Counted,
    caches: &[Option<Cache>],
    each: &mut dyn FnMut(&Part, &States),
) -> Picture {
    let mut areas: BTreeMap<Kind, (States, Estimated)> = BTreeMap::new();
    let mut total = States::default();
    for group in by_mapping(parts) {
        let area = &mappings[parts[group.start].mapping];
        let divided = divide(area, parts, group.clone(), counted, caches);
        for (part, states) in parts[group].iter().zip(&divided.parts) {
            each(part, states);
            let (sum, estimated) = areas.entry(part.kind).or_default();
            sum.add(states);
            estimated.add(divided.estimated);
            total.add(states);
        }
        if !divided.rest.is_empty() {
            let (sum, _) = areas.entry(Kind::Unattributed).or_default();
            sum.add(&divided.rest);
            total.add(&divided.rest);
        }
    }
    let areas = areas.into_iter();
    Picture {
        total,
        areas: areas
            .filter(|(_, (states, _))| !states.is_empty())
            .map(|(kind, (states, estimated))| AreaOf {
                kind,
                states,
                estimated,
            })
            .collect(),
        notes: Vec::new(),
    }
}

fn divide(
    area: &Area,
    parts: &[Part],
    group: std::ops::Range<usize>,
    counted: &Counted,
    caches: &[Option<Cache>],
) -> Divided {
    let own = &parts[group.clone()];
    let tallies = &counted.tallies[group.clone()];
    let cache = |index: usize| caches.get(group.start + index).copied().flatten();
    let mut divided = match own {
        [_] => whole(area),
        _ if tallies.iter().all(Option::is_some) => {
            let tallies: Vec<Tally> = tallies.iter().copied().flatten().collect();
            by_pages(area, own, &tallies, &cache)
        }
        _ => by_size(area, own),
    };
    divide_referenced(area, &mut divided);
    // Without an earlier look, nothing is missing.
    let compared = !counted.refaulted.is_empty();
    let before = counted.mapped_before.get(&parts[group.start].mapping);
    let again = |bytes: u64| before.map_or(0, |&before| share(bytes, before, area.size()));
    for (index, states) in divided.parts.iter_mut().enumerate() {
        states.repeated = counted.repeated[group.start + index].min(states.resident);
        states.repeated_swapped = again(states.swapped);
        let refaulted = counted.refaulted.get(group.start + index);
        states.refaulted = refaulted.copied().flatten().map(|b| b.min(states.resident));
        states.refaulted_unknown = compared && states.refaulted.is_none();
        states.cached_unknown = has_file(area) && cache(index).is_none();
        if let Some(cache) = cache(index) {
            states.cached = Some(cache.cached - again(cache.cached));
            states.evicted = Some(cache.evicted - again(cache.evicted));
        }
    }
    divided
}

/// A mapping with one part: the kernel's own numbers.
fn whole(area: &Area) -> Divided {
    Divided {
        parts: vec![States {
            size: area.size(),
            resident: area.rss,
            swapped: area.swap,
            shared: Some(area.shared()),
            anonymous: area.anonymous.min(area.rss),
            ..States::default()
        }],
        rest: States::default(),
        estimated: Estimated::default(),
    }
}

/// A mapping whose pages could not be read.
fn by_size(area: &Area, parts: &[Part]) -> Divided {
    let sizes: Vec<u64> = parts.iter().map(|part| size(&part.addresses)).collect();
    let resident = scaled(&sizes, area.rss);
    let swapped = scaled(&sizes, area.swap);
    let shared = scaled(&resident, area.shared());
    let anonymous = scaled(&resident, area.anonymous.min(area.rss));
    let states = |index: usize| States {
        size: sizes[index],
        resident: resident[index],
        swapped: swapped[index],
        shared: Some(shared[index]),
        anonymous: anonymous[index],
        ..States::default()
    };
    Divided {
        parts: (0..parts.len()).map(states).collect(),
        rest: States::default(),
        estimated: Estimated {
            resident: area.rss > 0,
            swapped: area.swap > 0,
            shared: area.shared() > 0,
            referenced: false,
        },
    }
}

fn by_pages(
    area: &Area,
    parts: &[Part],
    tallies: &[Tally],
    cache: &dyn Fn(usize) -> Option<Cache>,
) -> Divided {
    let certain = |all: fn(&Tally) -> u64, doubtful: fn(&Tally) -> u64| {
        let both = |tally: &Tally| {
            let (all, doubtful) = (all(tally), doubtful(tally));
            (all.saturating_sub(doubtful), all.min(doubtful))
        };
        tallies.iter().map(both).collect::<Vec<_>>()
    };
    let (resident, rest_resident) = fit(&certain(|t| t.present, |t| t.present_doubtful), area.rss);
    let (mut swapped, mut rest_swapped) =
        fit(&certain(|t| t.swapped, |t| t.swapped_doubtful), area.swap);
    let mut estimated = Estimated::default();
    if rest_swapped > 0 && hides_swap(area) {
        let (weights, exact) = unseen(parts, &resident, rest_swapped, cache);
        for (sum, more) in swapped.iter_mut().zip(scaled(&weights, rest_swapped)) {
            *sum += more;
        }
        rest_swapped = 0;
        estimated.swapped = !exact;
    }
    // A part has at most all of its resident memory as anonymous, and at most all of it as shared.
    let mut most = resident.clone();
    most.push(rest_resident);
    let private: Vec<u64> = tallies
        .iter()
        .map(|t| t.present.saturating_sub(t.file))
        .collect();
    let mut anonymous = fit_within(&private, &most, area.anonymous.min(area.rss));
    let mut shared = divide_shared(area, tallies, &most, &mut estimated);
    let rest = States {
        resident: rest_resident,
        swapped: rest_swapped,
        shared: shared.pop().filter(|&bytes| bytes > 0),
        anonymous: anonymous.pop().unwrap_or(0),
        ..States::default()
    };
    let states = |index: usize| States {
        size: size(&parts[index].addresses),
        resident: resident[index],
        swapped: swapped[index],
        shared: Some(shared[index]),
        anonymous: anonymous[index],
        ..States::default()
    };
    Divided {
        parts: (0..parts.len()).map(states).collect(),
        rest,
        estimated,
    }
}

/// Whether swapped pages of a mapping are not in the page map: those of tmpfs.
fn hides_swap(area: &Area) -> bool {
    let tmpfs = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    area.file.inode != 0
        && (area.shared_mapping || tmpfs.iter().any(|start| area.name.starts_with(start)))
}

/// Weights by which swapped pages that the page map does not show are divided, and whether they are
/// exact.
fn unseen(
    parts: &[Part],
    resident: &[u64],
    bytes: u64,
    cache: &dyn Fn(usize) -> Option<Cache>,
) -> (Vec<u64>, bool) {
    let swapped: Option<Vec<u64>> = (0..parts.len())
        .map(|index| cache(index).map(|cache| cache.swapped))
        .collect();
    if let Some(swapped) = swapped
        && swapped.iter().any(|&bytes| bytes > 0)
    {
        let exact = swapped.iter().sum::<u64>() == bytes;
        return (swapped, exact);
    }
    let absent = parts
        .iter()
        .zip(resident)
        .map(|(part, &resident)| size(&part.addresses).saturating_sub(resident));
    (absent.collect(), false)
}

/// Each part's shared memory and, last, that of the rest.
fn divide_shared(
    area: &Area,
    tallies: &[Tally],
    most: &[u64],
    estimated: &mut Estimated,
) -> Vec<u64> {
    let shared = area.shared();
    let counted: Option<Vec<u64>> = tallies
        .iter()
        .map(|t| Some(t.present.saturating_sub(t.exclusive?)))
        .collect();
    match counted {
        Some(counted) => fit_within(&counted, most, shared),
        None => {
            // All of it is shared, or nothing; else the pages would have been asked.
            estimated.shared = shared > 0 && area.private > 0;
            scaled(most, shared)
        }
    }
}

/// The reference bits of single pages are not shown, so each part gets a share.
fn divide_referenced(area: &Area, divided: &mut Divided) {
    let mut weights: Vec<u64> = divided.parts.iter().map(|part| part.resident).collect();
    weights.push(divided.rest.resident);
    let referenced = area.referenced.min(area.rss);
    divided.estimated.referenced = weights.len() > 2 && referenced > 0 && referenced < area.rss;
    let mut shares = scaled(&weights, referenced);
    let rest = shares.pop().unwrap_or(0);
    divided.rest.referenced = (rest > 0).then_some(rest);
    for (part, bytes) in divided.parts.iter_mut().zip(shares) {
        part.referenced = Some(bytes);
    }
}

fn size(addresses: &Addresses) -> u64 {
    addresses.end.saturating_sub(addresses.start)
}
