//! The lever of one program: its file with the limit.

use super::limit_file::LimitFile;
use crate::family;
use crate::lever::{Goal, Lever, Moved, Reach, Refusal, Sample, Target};
use plimsoll_kernel::process::variable_of;
use plimsoll_kernel::undo_notes::Note;
use plimsoll_programs::Recognise;
use plimsoll_programs::example::Example;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use tracing::warn;

/// The variable that tells the program how many bytes it could use alone.
pub(super) const BUDGET: &str = "PLIMSOLL_EXAMPLE_BUDGET";
/// A limit that grows by less than one part in this many is not worth telling.
const GRAIN: u64 = 64;

/// Begins to reach a program. It is reached at once if its file can be had. Other levers ask the program
/// what it is first, and refuse until it answers.
pub(super) fn begin(target: Target<'_>) -> Reach<'_> {
    Box::new(move || match LimitFile::of(&target.process) {
        Ok(file) => Ok(Box::new(ByFile {
            target,
            demand: number(variable_of(target.process.pid, BUDGET)).map(Bytes),
            file,
            wants: None,
            told: None,
            note: None,
        })),
        Err(_) if !target.process.alive() => Err(Refusal::Gone),
        Err(error) => Err(Refusal::NotYet {
            why: format!("the folder for its limit is closed to us: {error}"),
            early: false,
            still: false,
            signalled: false,
        }),
    })
}

struct ByFile<'a> {
    target: Target<'a>,
    file: LimitFile,
    /// The most that the program ever takes; `None` if unknown.
    demand: Option<Bytes>,
    /// The limit that the last look calls for; `None` for no limit.
    wants: Option<Bytes>,
    /// The limit that the program was told.
    told: Option<Bytes>,
    /// Says, if we are killed, that there is a file to remove.
    note: Option<Note>,
}

impl Lever for ByFile<'_> {
    fn name(&self) -> &'static str {
        Example.name()
    }

    fn sample(&mut self, goal: &Goal) -> Option<Sample> {
        let uses = family::uses(self.target.process.pid)?;
        // Without a broker there is no limit. Then the program sizes itself.
        self.wants = Some(goal.limit).filter(|&limit| limit > Bytes::ZERO);
        Some(Sample {
            uses,
            limit: goal.limit,
            ..Sample::default()
        })
    }

    /// Facts about the program itself, not about its limit: the broker gives no program more than its
    /// demand. A lever that does not know a fact leaves it out.
    fn facts(&self) -> Report {
        Report {
            demand: self.demand.map(|Bytes(demand)| demand),
            ..Report::default()
        }
    }

    fn act(&mut self) -> Moved {
        if !is_news(self.told, self.wants) {
            return Moved::Nothing;
        }
        let done = match self.wants {
            Some(limit) => {
                let target = &self.target;
                let note = || target.note(&Example, |_| "limit\n".to_owned());
                self.note = self.note.take().or_else(note);
                self.file.write(limit)
            }
            None => self.file.remove(),
        };
        match done {
            Ok(()) => {
                self.told = self.wants;
                Moved::Done {
                    answered: true,
                    measure: false,
                    again: false,
                }
            }
            Err(error) => Moved::Unanswered {
                answered: false,
                why: format!("the limit of an example cannot be told: {error}"),
            },
        }
    }

    fn restore(&mut self) {
        if self.told.is_none() {
            return;
        }
        match self.file.remove() {
            Ok(()) => self.told = None,
            Err(error) => warn!("the limit of an example stays: {error}"),
        }
    }

    /// The file would stay.
    fn gone(&mut self) {
        self.restore();
    }

    fn describe(&self) -> String {
        format!("limit {:?}", self.wants.map(|Bytes(limit)| limit))
    }
}

fn number(text: Option<Vec<u8>>) -> Option<u64> {
    std::str::from_utf8(&text?).ok()?.parse().ok()
}

/// Whether a program that was told `old` is to be told `new`.
fn is_news(old: Option<Bytes>, new: Option<Bytes>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => new < old || new - old > old / GRAIN,
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_smaller_limit_is_news_and_a_little_larger_one_is_none() {
        assert!(
            is_news(Some(Bytes(6400)), Some(Bytes(6399)))
                && is_news(Some(Bytes(6400)), Some(Bytes(6501)))
        );
        assert!(!is_news(Some(Bytes(6400)), Some(Bytes(6500))) && !is_news(None, None));
        assert!(is_news(None, Some(Bytes(1))) && is_news(Some(Bytes(1)), None));
    }
}
