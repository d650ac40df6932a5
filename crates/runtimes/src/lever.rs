//! The lever of a runtime: its way to steer one running program. The loop (`steer`) pulls it, and tells
//! the broker.

use crate::link::Options;
use crate::process::Process;
use plimsoll_kernel::undo_notes::{About, Note};
use plimsoll_programs::Recognise;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;

/// Moves the memory of one running program. Used by one thread, the loop's.
///
/// The order of the calls: [`Lever::measure`] before the first [`Lever::sample`]; [`Lever::facts`] and
/// [`Lever::act`] after a sample, which they are about; last either [`Lever::restore`], even where moves
/// failed, or [`Lever::gone`]. Neither is called if we are killed: see [`Target::note`]. None may wait for
/// longer than the program takes to answer.
pub trait Lever {
    /// The adapter's name, as the broker is told it. It may change: the loop tells a new one.
    fn name(&self) -> &'static str;

    /// Measures the values that take long. Called now and then, so that all of it takes a small part of the
    /// time, and when a move asked for it.
    fn measure(&mut self) {}

    /// Looks at the program, whose memory is to come to `goal`. `None` if it shows nothing now.
    fn sample(&mut self, goal: &Goal) -> Option<Sample>;

    /// The report to the broker about the process, without its relatives.
    fn facts(&self) -> Report {
        Report::default()
    }

    /// Does what the last sample calls for.
    fn act(&mut self) -> Moved {
        Moved::Nothing
    }

    /// Undoes what was changed. Called if the program is let go, but not if it is gone.
    fn restore(&mut self) {}

    /// Called if the process is gone, or has become another program: removes what would stay of it outside,
    /// such as files. Nothing can be done to the program any more.
    fn gone(&mut self) {}

    /// One line about what decides, for `-v`.
    fn describe(&self) -> String {
        String::new()
    }
}

/// The process to steer.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The process that has the runtime.
    pub process: Process,
    /// The process that the principal was registered with: this one or an ancestor. The numbers are
    /// for that process and all its descendants together.
    pub root: u32,
    /// The user's settings.
    pub options: &'a Options,
}

impl Target<'_> {
    /// Notes what [`crate::Runtime::put_back`] is to put back if we are killed: write it before the first
    /// change. `text` is given an earlier note of this process that nobody could follow yet; that is empty if
    /// there is none. It returns the note, which is not empty. The note is removed when it is dropped. `None`
    /// if there is no place for notes.
    pub fn note(&self, runtime: &dyn Recognise, text: impl FnOnce(&str) -> String) -> Option<Note> {
        let about = About {
            pid: self.process.pid,
            started: self.process.started,
            kind: runtime.name().to_owned(),
        };
        let notes = self.options.notes.as_ref()?;
        notes.write(&about, text).ok()
    }
}

/// Where the memory of a process is to come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Memory that the process may use now: a little below the limit, without the memory of its relatives.
    /// 0 without a broker.
    pub limit: Bytes,
    /// Memory that it could have if it asked, without that of its relatives; 0 without a broker.
    pub available: Bytes,
    /// Memory that it must give back; 0 if none.
    pub owed: Bytes,
    /// The memory for all programs of the computer or the group, if nothing can be paged out there: then an
    /// excess ends the program.
    pub cliff: Option<Bytes>,
}

/// One look at a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory that it uses, bytes.
    pub uses: Bytes,
    /// Memory that it may use, bytes; below [`Goal::limit`] if the lever has its own reasons. 0: no limit.
    pub limit: Bytes,
    /// Memory that its heap has taken, bytes.
    pub heap: Bytes,
    /// Its collections since its start.
    pub collections: u64,
    /// It does not work at the moment.
    pub rests: bool,
}

/// The result of a move. `answered`: the program did something that it was asked for. Where it does not
/// reply, a change that could be made counts as an answer. After some [`Moved::Unanswered`] in a row without
/// one the program is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// There was nothing to do.
    Nothing,
    /// All was done.
    Done {
        /// See above.
        answered: bool,
        /// The values that take long to measure may have changed.
        measure: bool,
        /// The next look may call for more at once.
        again: bool,
    },
    /// The program did not answer in time, or the change could not be made.
    Unanswered {
        /// See above.
        answered: bool,
        /// Which question, for the person who reads the log.
        why: String,
    },
    /// The program ended.
    Gone,
}

/// Why there is no lever. No refusal is final while the program runs: a runtime whose programs can never be
/// steered says so by [`crate::runtime::Steered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The program ended.
    Gone,
    /// There may be one later: the loop asks again, ever more rarely, every 30 s at last.
    NotYet {
        /// Why there is none now, for the person who reads the log.
        why: String,
        /// The program may just be starting.
        early: bool,
        /// The program stands still: asking again sends nothing to it.
        still: bool,
        /// A signal was sent to it that it has not followed.
        signalled: bool,
    },
}

/// Asks for the lever of a process, again until there is one.
pub type Reach<'a> = Box<dyn FnMut() -> Result<Box<dyn Lever + 'a>, Refusal> + 'a>;

/// Begins to reach a process. Does nothing to it yet.
pub type Begin = for<'a> fn(Target<'a>) -> Reach<'a>;
