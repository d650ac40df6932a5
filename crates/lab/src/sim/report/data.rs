//! The data of a report: runs by program, collector, heap and scheduler.

use super::super::run::Run;
use super::super::table::{collector, names};
use plimsoll_sim::threads::Outcome;
use std::collections::BTreeMap;
use std::path::Path;

/// The heap that stands for others where one has to be chosen, in largest live sizes: the paper's.
const TYPICAL: f64 = 3.0;
/// The collector that stands for others: the paper's.
const TYPICAL_COLLECTOR: &str = "GenMC";

/// Runs, and the axes of their sweep. Programs, collectors and schedulers are named by their numbers.
pub(super) struct Data<'a> {
    /// Names of programs: those of their files.
    pub(super) programs: Vec<String>,
    pub(super) collectors: Vec<String>,
    /// Names of schedulers, with their quanta where one has several.
    pub(super) schedulers: Vec<String>,
    /// By program, collector, heap in hundredths of the largest live size, scheduler.
    runs: BTreeMap<(usize, usize, u64, usize), &'a Run>,
}

/// The runs of a row of a picture, one for each scheduler; `None` where there is none.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) name: String,
    pub(super) runs: Vec<Option<&'a Run>>,
}

impl Group<'_> {
    pub(super) fn outcome(&self, scheduler: usize) -> Option<&Outcome> {
        self.runs
            .get(scheduler)
            .copied()
            .flatten()?
            .outcome
            .as_ref()
    }
}

/// The number of a value in a list, to which it is added if it is new.
fn number<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    let known = list.iter().position(|one| *one == value);
    known.unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

impl<'a> Data<'a> {
    pub(super) fn of(all: &'a [Run]) -> Data<'a> {
        let (mut programs, mut collectors, mut schedulers) = (Vec::new(), Vec::new(), Vec::new());
        // The first run of each scheduler, by which it is named.
        let mut examples: Vec<&Run> = Vec::new();
        let mut runs = BTreeMap::new();
        for run in all {
            let cell = &run.cell;
            let program = number(
                &mut programs,
                (cell.trace.as_str(), cell.fingerprint.as_str()),
            );
            let collector = number(&mut collectors, collector(cell));
            let quanta = (
                &cell.scheduler,
                cell.turns.quantum,
                cell.turns.memory_quantum,
                &cell.turns.ties,
            );
            let scheduler = number(&mut schedulers, quanta);
            if examples.len() < schedulers.len() {
                examples.push(run);
            }
            runs.insert((program, collector, hundredths(run), scheduler), run);
        }
        Data {
            programs: programs.iter().map(|(path, _)| stem(path)).collect(),
            collectors,
            schedulers: names(&examples),
            runs,
        }
    }

    /// The heaps of a program under a collector, in hundredths of its largest live size.
    pub(super) fn heaps(&self, program: usize, collector: usize) -> Vec<u64> {
        let range = (program, collector, 0, 0)..(program, collector + 1, 0, 0);
        let mut heaps: Vec<u64> = self
            .runs
            .range(range)
            .map(|((_, _, heap, _), _)| *heap)
            .collect();
        heaps.dedup();
        heaps
    }

    /// The heap of a program that stands for the others: the one nearest to the paper's.
    pub(super) fn typical_heap(&self, program: usize, collector: usize) -> Option<u64> {
        let far = |heap: &u64| (*heap as f64 / 100.0 / TYPICAL).ln().abs();
        let heaps = self.heaps(program, collector);
        heaps.into_iter().min_by(|a, b| far(a).total_cmp(&far(b)))
    }

    /// The numbers of the collectors, the one that stands for the others first.
    pub(super) fn by_importance(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.collectors.len()).collect();
        all.sort_by_key(|it| (self.collectors[*it] != TYPICAL_COLLECTOR, *it));
        all
    }

    /// All schedulers with this program, collector and heap.
    pub(super) fn group(
        &self,
        program: usize,
        collector: usize,
        heap: u64,
        name: String,
    ) -> Group<'a> {
        let run = |scheduler| {
            self.runs
                .get(&(program, collector, heap, scheduler))
                .copied()
        };
        Group {
            name,
            runs: (0..self.schedulers.len()).map(run).collect(),
        }
    }

    /// A group for each program, with a collector and the typical heap.
    pub(super) fn by_program(&self, collector: usize) -> Vec<Group<'a>> {
        let group = |(program, name): (usize, &String)| {
            let heap = self.typical_heap(program, collector)?;
            Some(self.group(program, collector, heap, name.clone()))
        };
        self.programs.iter().enumerate().filter_map(group).collect()
    }

    /// A group for each collector, with a program and its typical heap.
    pub(super) fn by_collector(&self, program: usize) -> Vec<Group<'a>> {
        let group = |(collector, name): (usize, &String)| {
            let heap = self.typical_heap(program, collector)?;
            Some(self.group(program, collector, heap, name.clone()))
        };
        self.collectors
            .iter()
            .enumerate()
            .filter_map(group)
            .collect()
    }
}

/// The size of a heap, in hundredths of the largest live size.
fn hundredths(run: &Run) -> u64 {
    let live = run.cell.recorded_largest_live.max(1);
    (run.cell.heap as f64 / live as f64 * 100.0).round() as u64
}

/// The name of a program: that of its file without the end.
pub(super) fn stem(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}
