//! A group with file pages and anonymous memory, for which the best swappiness can be found by
//! trying all. Time goes on in periods of one second; the programs wait for each refault, so they
//! touch less the more of them they have.

use super::{Costs, Period};

/// A part of a group's memory, touched evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Pages.
    pub(super) pages: f64,
    /// How often each page is touched per second for which the programs run.
    pub(super) rate: f64,
}

/// The group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Pages that fit in memory.
    pub(super) room: f64,
    /// File pages and anonymous pages.
    pub(super) files: Vec<Part>,
    pub(super) anon: Vec<Part>,
    /// Pages per second of running time that are read once only, as from a long file.
    pub(super) streamed: f64,
    /// Up to this swappiness the kernel takes file pages only.
    pub(super) knee: u32,
    pub(super) costs: Costs,
}

impl Group {
    /// Refaults per second of running time: of files and of anonymous memory. A kind that has
    /// `kept` pages keeps those that are touched most often.
    fn missed(parts: &[Part], mut kept: f64) -> f64 {
        let mut parts = parts.to_vec();
        parts.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        let mut missed = 0.0;
        for part in parts {
            let here = part.pages.min(kept);
            kept -= here;
            missed += (part.pages - here) * part.rate;
        }
        missed
    }

    /// Pages of files that stay in memory: the fewer, the lower the swappiness.
    fn files_kept(&self, swappiness: u32) -> f64 {
        let all = |parts: &[Part]| parts.iter().map(|part| part.pages).sum::<f64>();
        let (files, anon) = (all(&self.files), all(&self.anon));
        let short = (files + anon - self.room).max(0.0);
        let way = f64::from(swappiness.saturating_sub(self.knee)) / f64::from(200 - self.knee);
        let from_files = short * (1.0 - way);
        let from_files = from_files.clamp((short - anon).max(0.0), files.min(short));
        files - from_files
    }

    fn rates(&self, swappiness: u32) -> (f64, f64) {
        let files_kept = self.files_kept(swappiness);
        let anon_kept = (self.room - files_kept).max(0.0);
        (
            Group::missed(&self.files, files_kept) + self.streamed,
            Group::missed(&self.anon, anon_kept),
        )
    }

    /// Seconds waited per second of running time.
    pub(super) fn loss(&self, swappiness: u32) -> f64 {
        let (file, anon) = self.rates(swappiness);
        file * self.costs.file + anon * self.costs.anon
    }

    /// The least loss of all values.
    pub(super) fn best(&self) -> f64 {
        (super::LEAST..=super::MOST)
            .map(|swappiness| self.loss(swappiness))
            .fold(f64::INFINITY, f64::min)
    }

    /// One second at that swappiness. `noise` (about 1) multiplies the counts.
    pub(super) fn period(&self, swappiness: u32, noise: f64) -> Period {
        let (file, anon) = self.rates(swappiness);
        let ran = 1.0 / (1.0 + self.loss(swappiness));
        Period {
            length: 1.0,
            file: (file * ran * noise) as u64,
            anon: (anon * ran * noise) as u64,
            ran: Some(ran),
        }
    }
}
