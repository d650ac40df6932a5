//! The order in which the loop calls a lever, as the trait says.

use super::*;
use crate::link::Options;
use crate::process::Process;
use crate::testing::Sleeper;
use plimsoll_programs::Recognise;
use plimsoll_wire::page::Numbers;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The calls of one run, in order.
#[derive(Default)]
struct Calls(RefCell<Vec<String>>);

impl Calls {
    fn add(&self, call: &str) {
        self.0.borrow_mut().push(call.to_owned());
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// A runtime whose programs it recognises until they are replaced.
#[derive(Debug)]
struct Made {
    is_replaced: bool,
}

impl Recognise for Made {
    fn name(&self) -> &'static str {
        "made-up"
    }

    fn runs(&self, _: &Candidate<'_>) -> bool {
        !self.is_replaced
    }
}

impl Runtime for Made {
    fn steered(&self) -> Steered {
        Steered::Passive
    }
}

/// A lever that follows a script, and then has nothing to do.
struct Scripted<'a> {
    calls: &'a Calls,
    moves: VecDeque<Moved>,
    /// Use of the program at each look, bytes.
    uses: VecDeque<u64>,
}

impl Lever for Scripted<'_> {
    fn name(&self) -> &'static str {
        "made-up"
    }

    fn measure(&mut self) {
        self.calls.add("measure");
    }

    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        let Goal {
            limit,
            available,
            owed,
            ..
        } = goal;
        self.calls
            .add(&format!("sample {} {} {}", limit.0, available.0, owed.0));
        Some(Sample {
            uses: Bytes(self.uses.pop_front().unwrap_or_default()),
            limit: goal.limit,
            ..Sample::default()
        })
    }

    fn facts(&self) -> Report {
        self.calls.add("facts");
        Report::default()
    }

    fn act(&mut self) -> Moved {
        self.calls.add("act");
        self.moves.pop_front().unwrap_or(Moved::Nothing)
    }

    fn restore(&mut self) {
        self.calls.add("restore");
    }

    fn gone(&mut self) {
        self.calls.add("gone");
    }
}

/// A link with a limit of 64 000 bytes. At the wait after this many turns it does `then`.
struct Scripting<'a> {
    calls: &'a Calls,
    turns: u32,
    then: &'a mut dyn FnMut(&Cell<bool>),
    stopped: Cell<bool>,
}

impl Link for Scripting<'_> {
    fn numbers(&mut self) -> Option<Numbers> {
        Some(Numbers {
            limit: 64_000,
            available: 128_000,
            owed: 7,
            ..Numbers::default()
        })
    }

    fn wait(&mut self, _: Duration) {
        self.calls.add("wait");
        self.turns -= 1;
        if self.turns == 0 {
            (self.then)(&self.stopped);
        }
    }

    fn report(&mut self, _: &Report) {
        self.calls.add("report");
    }

    fn released(&mut self, bytes: Bytes) {
        self.calls.add(&format!("released {}", bytes.0));
    }

    fn stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// The program's goal: 1/64 less than the link says.
const SAMPLE: &str = "sample 63000 126000 7";

fn done(again: bool) -> Moved {
    Moved::Done {
        answered: true,
        measure: false,
        again,
    }
}

fn unanswered() -> Moved {
    Moved::Unanswered {
        answered: false,
        why: "no answer".into(),
    }
}

/// Ends the steering; it may stop the link.
type Ending<'a> = &'a mut dyn FnMut(&Cell<bool>);

/// Steers a process with these moves until `then`, after this many turns, ends that. Returns how it ended,
/// and the calls.
fn run(
    runtime: &Made,
    process: Process,
    moves: impl IntoIterator<Item = Moved>,
    (turns, then): (u32, Ending<'_>),
) -> (Ended, Vec<String>) {
    let calls = Calls::default();
    let options = Options::default();
    let target = Target {
        process,
        root: process.pid,
        options: &options,
    };
    let lever = Scripted {
        calls: &calls,
        moves: moves.into_iter().collect(),
        uses: [70_000, 66_000, 60_000].into(),
    };
    let mut link = Scripting {
        calls: &calls,
        turns,
        then,
        stopped: Cell::new(false),
    };
    let ended = Steering::new(runtime, target, Box::new(lever)).run(&mut link);
    (ended, calls.take())
}

const MADE: Made = Made { is_replaced: false };

#[test]
fn a_turn_looks_reports_and_moves_and_the_end_restores() {
    let sleeper = Sleeper::start();
    let moves = [done(true), done(false), done(true)];
    let stop = &mut |stopped: &Cell<bool>| stopped.set(true);
    let (ended, calls) = run(&MADE, sleeper.process(), moves, (1, stop));
    assert_eq!(ended, Ended::Stopped);
    let expected = [
        "measure",
        SAMPLE,
        "facts",
        "report",
        "act",
        SAMPLE,
        "released 4000",
        // The first move called for another one, the second did not.
        "act",
        SAMPLE,
        "released 6000",
        "wait",
        "restore",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn moves_that_call_for_more_are_bounded() {
    let sleeper = Sleeper::start();
    let moves = std::iter::repeat_with(|| done(true)).take(99);
    let stop = &mut |stopped: &Cell<bool>| stopped.set(true);
    let (_, calls) = run(&MADE, sleeper.process(), moves, (1, stop));
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    assert_eq!(count("act"), MOST_MOVES as usize);
    assert_eq!(count(SAMPLE), 1 + MOST_MOVES as usize);
}

#[test]
fn one_that_does_not_answer_is_left_alone_and_restored_at_the_end() {
    let sleeper = Sleeper::start();
    let moves = std::iter::repeat_with(unanswered).take(99);
    let stop = &mut |stopped: &Cell<bool>| stopped.set(true);
    let (ended, calls) = run(&MADE, sleeper.process(), moves, (6, stop));
    assert_eq!(ended, Ended::Stopped);
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    assert_eq!(count("act"), 3);
    // It is looked at nevertheless.
    assert_eq!((count(SAMPLE), count("restore")), (6, 1));
    assert_eq!(calls.last().map(String::as_str), Some("restore"));
}

#[test]
fn nothing_is_done_to_what_is_gone_or_has_become_another_program() {
    let mut sleeper = Sleeper::start();
    let process = sleeper.process();
    let end = &mut |_: &Cell<bool>| sleeper.end();
    let (ended, calls) = run(&MADE, process, [Moved::Gone], (1, end));
    assert_eq!(ended, Ended::ProgramGone);
    let expected = ["measure", SAMPLE, "facts", "report", "act", "wait", "gone"];
    assert_eq!(calls, expected);

    let sleeper = Sleeper::start();
    let replaced = Made { is_replaced: true };
    let (ended, calls) = run(&replaced, sleeper.process(), [], (1, &mut |_| {}));
    assert_eq!(ended, Ended::ProgramGone);
    assert_eq!(calls, ["measure", "wait", "gone"]);
}
