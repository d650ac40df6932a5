//! How markers share work, in every order in which their threads can run (up to a number of preemptions, or
//! `LOOM_MAX_PREEMPTIONS`: `make model` tries more). The tests check the source that ships, over locks that
//! loom controls.

#[path = "../src/mark/sharing.rs"]
mod sharing;

/// In place of the module of the same name in the room.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sharing::{Given, Sharing, Worker};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The references of each object. Two of them refer to the last one, and one to an earlier one.
const GRAPH: [&[usize]; 5] = [&[1, 2], &[3, 0], &[4], &[4], &[]];

/// Objects that were given away, and how many were scanned by those without work.
#[derive(Default)]
struct Objects {
    given: Vec<usize>,
    scanned: usize,
}

impl Given for Objects {
    fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}

/// The graph's mark bits.
type Marks = Arc<Vec<AtomicUsize>>;

/// A marker of the graph.
struct Marker {
    marks: Marks,
    stack: Vec<usize>,
    scanned: usize,
    /// How many objects it scans in a turn at most.
    fuel: Option<usize>,
    spent: usize,
    left: bool,
    round: u32,
    /// It panics when it has scanned an object.
    panics: bool,
}

impl Marker {
    fn new(marks: &Marks, fuel: Option<usize>) -> Marker {
        Marker {
            marks: marks.clone(),
            stack: Vec::new(),
            scanned: 0,
            fuel,
            spent: 0,
            left: false,
            round: 0,
            panics: false,
        }
    }

    fn reach(&mut self, object: usize) {
        if self.marks[object].fetch_or(1, Relaxed) == 0 {
            self.stack.push(object);
        }
    }

    fn forget(&mut self) {
        self.stack.clear();
        self.left = false;
    }

    /// Leads one turn from the first object. True if nothing is left.
    fn lead(&mut self, sharing: &Sharing<Objects>) -> bool {
        sharing.begin(|_| ());
        self.spent = 0;
        self.reach(0);
        sharing.lead(self, |marker| marker.left)
    }

    fn help(&mut self, sharing: &Sharing<Objects>) -> bool {
        sharing.help(self, |marker, state| {
            if marker.round != state.round {
                marker.round = state.round;
                marker.forget();
            }
            marker.spent = 0;
            marker.left
        })
    }
}

impl Worker for Marker {
    type Given = Objects;

    fn drain(&mut self, sharing: &Sharing<Objects>) -> bool {
        self.left = true;
        while let Some(object) = self.stack.pop() {
            self.scanned += 1;
            if self.panics {
                // Without the report.
                std::panic::resume_unwind(Box::new(()));
            }
            GRAPH[object].iter().for_each(|&to| self.reach(to));
            if self.stack.len() > 1 && sharing.is_wanted() {
                sharing.give(|objects| objects.given.push(self.stack.remove(0)));
            }
            self.spent += 1;
            if self.fuel.is_some_and(|fuel| self.spent >= fuel) {
                return false;
            }
        }
        self.left = false;
        true
    }

    fn take(&mut self, objects: &mut Objects) {
        self.stack.append(&mut objects.given);
    }

    fn settle(&mut self, objects: &mut Objects) {
        objects.scanned += std::mem::take(&mut self.scanned);
    }
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// Has this many helpers, each of which scans at most `fuel` objects in a turn, while `body` leads.
fn with_helpers(helpers: usize, fuel: Option<usize>, body: impl FnOnce(&Sharing<Objects>, &Marks)) {
    let marks: Marks = Arc::new(GRAPH.iter().map(|_| AtomicUsize::new(0)).collect());
    let sharing = Arc::new(Sharing::new(Objects::default()));
    let help = |_| {
        let (sharing, mut marker) = (sharing.clone(), Marker::new(&marks, fuel));
        loom::thread::spawn(move || while marker.help(&sharing) {})
    };
    let all: Vec<_> = (0..helpers).map(help).collect();
    body(&sharing, &marks);
    sharing.end();
    all.into_iter().for_each(|helper| helper.join().unwrap());
}

fn assert_all_scanned(sharing: &Sharing<Objects>, marks: &Marks) {
    assert!(marks.iter().all(|mark| mark.load(Relaxed) == 1));
    let scanned = std::mem::take(&mut sharing.state().given.scanned);
    assert_eq!(scanned, GRAPH.len(), "each object is scanned once");
}

#[test]
fn all_is_marked_once_when_the_leader_returns() {
    for helpers in [1, 2] {
        check(2, move || {
            with_helpers(helpers, None, |sharing, marks| {
                assert!(Marker::new(marks, None).lead(sharing));
                assert_all_scanned(sharing, marks);
            });
        });
    }
}

/// Helpers that are late for one turn take part in the next.
#[test]
fn a_second_turn_is_as_the_first() {
    check(2, || {
        with_helpers(1, None, |sharing, marks| {
            let mut leader = Marker::new(marks, None);
            for _ in 0..2 {
                marks.iter().for_each(|mark| mark.store(0, Relaxed));
                assert!(leader.lead(sharing));
                assert_all_scanned(sharing, marks);
            }
        });
    });
}

#[test]
fn steps_leave_nothing_behind() {
    for (mine, theirs) in [(1, Some(1)), (2, None), (1, None)] {
        check(2, move || {
            with_helpers(1, theirs, |sharing, marks| {
                let mut leader = Marker::new(marks, Some(mine));
                let steps = (1..=2 * GRAPH.len()).find(|_| leader.lead(sharing));
                assert!(steps.is_some(), "they end");
                assert_all_scanned(sharing, marks);
            });
        });
    }
}

/// The work that a helper still has of a round that was given up is no part of the next.
#[test]
fn what_is_given_up_does_not_come_back() {
    check(3, || {
        with_helpers(1, Some(1), |sharing, marks| {
            let mut leader = Marker::new(marks, Some(1));
            leader.lead(sharing);
            sharing.forget(|objects| *objects = Objects::default());
            leader.forget();
            marks.iter().for_each(|mark| mark.store(0, Relaxed));
            while !leader.lead(sharing) {}
            assert_all_scanned(sharing, marks);
        });
    });
}

/// The leader does not wait for a helper that panics, and does not take its work for done.
#[test]
fn who_panics_is_not_waited_for() {
    check(2, || {
        let marks: Marks = Arc::new(GRAPH.iter().map(|_| AtomicUsize::new(0)).collect());
        let sharing = Arc::new(Sharing::new(Objects::default()));
        let (shared, mut helper) = (sharing.clone(), Marker::new(&marks, None));
        helper.panics = true;
        let helper = loom::thread::spawn(move || {
            catch_unwind(AssertUnwindSafe(|| while helper.help(&shared) {})).is_err()
        });
        let mut leader = Marker::new(&marks, None);
        let led = catch_unwind(AssertUnwindSafe(|| leader.lead(&sharing)));
        sharing.end();
        let panicked = helper.join().unwrap();
        assert_eq!(led.is_err(), panicked);
        if !panicked {
            assert_all_scanned(&sharing, &marks);
        }
    });
}
