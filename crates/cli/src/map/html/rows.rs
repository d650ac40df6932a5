//! Which addresses are a row of the map over time. Addresses come in order, and what holds nothing
//! in any look takes no room, so that the height of a row is memory.

use super::space::Part;
use super::{Look, State};
use plimsoll_kernel::smaps::Addresses;
use plimsoll_map::Kind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most rows.
const MOST_ROWS: u64 = 160;
/// Most gaps that are marked, the largest ones.
const MOST_GAPS: usize = 10;
/// Smaller gaps are not marked, bytes.
const SMALLEST_GAP: u64 = 16 << 20;

/// A row of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Blocks, from the first to one past the last.
    pub(super) blocks: Range<u64>,
    /// The most KiB that each block held in any look, summed up.
    pub(super) kib: u64,
    /// Whether a gap is marked before it.
    pub(super) after_gap: bool,
}

/// The appearance of a row in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// The area and the state of most of it.
    pub(super) kind: Kind,
    pub(super) state: State,
}

/// The rows of all looks.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Bytes of a block.
    pub(super) block: u64,
    /// By address.
    pub(super) rows: Vec<Row>,
}

impl Rows {
    /// Rows for these looks.
    pub(super) fn of(looks: &[Look]) -> Rows {
        let block = looks
            .iter()
            .map(|look| look.space.block())
            .max()
            .unwrap_or(1);
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        for look in looks {
            let space = look.space.coarser(block);
            for parts in space.parts().chunk_by(|a, b| a.block == b.block) {
                let kib: u64 = parts.iter().map(Part::held).sum();
                let most = held.entry(parts[0].block).or_default();
                *most = kib.max(*most);
            }
        }
        let gaps = largest_gaps(block, held.keys().copied());
        let least = (held.values().sum::<u64>() / MOST_ROWS).max(1);
        let mut rows: Vec<Row> = Vec::new();
        for (at, kib) in held {
            match rows.last_mut() {
                Some(row) if row.kib < least && !gaps.contains(&at) => {
                    row.blocks.end = at + 1;
                    row.kib += kib;
                }
                _ => rows.push(Row {
                    blocks: at..at + 1,
                    kib,
                    after_gap: gaps.contains(&at),
                }),
            }
        }
        Rows { block, rows }
    }

    /// The cell of each row in a look; none where the row holds nothing.
    pub(super) fn cells(&self, look: &Look) -> Vec<Option<Cell>> {
        let space = look.space.coarser(self.block);
        let mut parts = space.parts();
        let cell = |row: &Row| {
            let before = parts.partition_point(|part| part.block < row.blocks.start);
            let end = parts.partition_point(|part| part.block < row.blocks.end);
            let within = &parts[before..end];
            parts = &parts[end..];
            cell(row, within)
        };
        self.rows.iter().map(cell).collect()
    }

    /// Addresses of a row.
    pub(super) fn addresses(&self, row: &Row) -> Addresses {
        row.blocks.start.saturating_mul(self.block)..row.blocks.end.saturating_mul(self.block)
    }

    /// The area of the mapped, empty range of a look that has most of the gap before a row.
    pub(super) fn in_gap(&self, index: usize, look: &Look) -> Option<Kind> {
        let row = self.rows.get(index).filter(|row| row.after_gap)?;
        let before = self.rows.get(index.checked_sub(1)?)?;
        let (start, end) = (self.addresses(before).end, self.addresses(row).start);
        let within = |range: &Addresses| range.end.min(end).saturating_sub(range.start.max(start));
        let ranges = look
            .space
            .empty()
            .iter()
            .map(|(range, kind)| (within(range), *kind));
        ranges
            .filter(|(size, _)| *size >= SMALLEST_GAP)
            .max_by_key(|(size, _)| *size)
            .map(|(_, kind)| kind)
    }
}

/// The blocks after the largest gaps.
fn largest_gaps(block: u64, blocks: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = None;
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for at in blocks {
        if let Some(last) = last.replace(at) {
            let gap = (at - last - 1).saturating_mul(block);
            if gap >= SMALLEST_GAP {
                gaps.push((gap, at));
            }
        }
    }
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    gaps.truncate(MOST_GAPS);
    gaps.into_iter().map(|(_, at)| at).collect()
}

/// The state of most of a row, and the area that has most of that.
fn cell(row: &Row, parts: &[Part]) -> Option<Cell> {
    let of = |state: State, part: &Part| match state {
        State::Resident => u64::from(part.resident),
        State::Swapped => u64::from(part.swapped),
        State::Cached => u64::from(part.cached),
        State::Absent => part.held(),
    };
    let held: u64 = parts.iter().map(Part::held).sum();
    let sum = |state| match state {
        State::Absent => row.kib.saturating_sub(held),
        state => parts.iter().map(|part| of(state, part)).sum(),
    };
    // The last of equal states wins, so the resident state comes last.
    let state = State::ALL
        .into_iter()
        .rev()
        .max_by_key(|&state| sum(state))?;
    let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
    for part in parts {
        *kinds.entry(part.kind).or_default() += of(state, part);
    }
    let (&kind, _) = kinds.iter().max_by_key(|(_, kib)| **kib)?;
    Some(Cell { kind, state })
}
