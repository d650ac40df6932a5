//! Which threads have other parameters than they had, and what they had.

use crate::deprioritise::Lever;
use plimsoll_kernel::sched::{Parameters, Policy, Rights, parameters, set_parameters};
use plimsoll_kernel::{Error, Result};
use plimsoll_policy::phases::live::Place;
use plimsoll_unit::Nanos;

/// A thread whose parameters we set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    tid: i32,
    /// Its own parameters, as they are set: the slice is 0 where it had the kernel's.
    own: Parameters,
    /// Its parameters now, as the kernel shows them; `None` while it is left alone, because it has a special
    /// policy, or somebody else changed them.
    now: Option<Parameters>,
}

/// The own parameters of a program's threads, and the way to put them back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setter {
    lever: Lever,
    rights: Rights,
    /// The parameters that threads inherit from the program's first one, as they are set.
    base: Parameters,
}

impl Setter {
    /// For a process that we have changed nothing of yet.
    ///
    /// # Errors
    /// As [`parameters`].
    pub(crate) fn new(pid: i32, lever: Lever, rights: Rights) -> Result<Setter> {
        let mut setter = Setter {
            lever,
            rights,
            base: parameters(pid)?,
        };
        setter.base = setter.settable(setter.base);
        Ok(setter)
    }

    pub(crate) fn base(&self) -> &Parameters {
        &self.base
    }

    pub(crate) fn lever(&self) -> Lever {
        self.lever
    }

    /// A thread that we have not seen before. One that has what we set is a child of a thread that we set it
    /// for.
    ///
    /// # Errors
    /// As [`parameters`].
    pub(crate) fn take(&self, tid: i32) -> Result<Held> {
        let now = parameters(tid)?;
        let own = if self.is_inherited(&now) {
            self.base
        } else {
            self.settable(now)
        };
        Ok(Held {
            tid,
            own,
            now: self.lever.fits(&own).then_some(now),
        })
    }

    /// Whether these are parameters that only we set.
    pub(crate) fn is_inherited(&self, now: &Parameters) -> bool {
        let ours = [self.lever.back(&self.base), self.lever.front(&self.base)];
        let own = self.shown(&self.base);
        *now != own && ours.iter().any(|wanted| self.shown(wanted) == *now)
    }

    /// Gives a thread its place. Returns whether something was changed.
    ///
    /// # Errors
    /// As [`set_parameters`]; [`Error::Gone`] if the thread has ended.
    pub(crate) fn place(&self, held: &mut Held, place: Place) -> Result<bool> {
        let wanted = match place {
            Place::Front => self.lever.front(&held.own),
            Place::Back => self.lever.back(&held.own),
        };
        self.set(held, &wanted)
    }

    /// Gives a thread back what it had.
    ///
    /// # Errors
    /// As [`Setter::place`].
    pub(crate) fn restore(&self, held: &mut Held) -> Result<bool> {
        let own = held.own;
        self.set(held, &own)
    }

    fn set(&self, held: &mut Held, wanted: &Parameters) -> Result<bool> {
        let (Some(now), shown) = (held.now, self.shown(wanted)) else {
            return Ok(false);
        };
        if now == shown {
            return Ok(false);
        }
        if parameters(held.tid)? != now {
            held.now = None;
            return Ok(false);
        }
        match set_parameters(held.tid, wanted) {
            Ok(()) => {}
            Err(error @ (Error::Gone { .. } | Error::NotPermitted { .. })) => return Err(error),
            // A parameter that the kernel does not take for this thread.
            Err(_) => {
                held.now = None;
                return Ok(false);
            }
        }
        held.now = Some(shown);
        Ok(true)
    }

    /// Gives a thread, or a process, what the program has, if it has inherited what we set.
    pub(crate) fn restore_heir(&self, tid: i32) {
        let inherited = parameters(tid).is_ok_and(|now| self.is_inherited(&now));
        if inherited {
            // It may have ended; then there is nothing to restore.
            let _ = set_parameters(tid, &self.base);
        }
    }

    /// All of it in words, for another process.
    pub(crate) fn words(&self) -> [String; 5] {
        let policy = match self.base.policy {
            Policy::Batch => "batch",
            _ => "other",
        };
        [
            self.lever.word().to_owned(),
            policy.to_owned(),
            self.base.nice.to_string(),
            self.base.slice.0.to_string(),
            self.rights.slice.0.to_string(),
        ]
    }

    /// From [`Setter::words`].
    pub(crate) fn from_words(words: &[String]) -> Option<Setter> {
        let [lever, policy, nice, slice, kernels] = words else {
            return None;
        };
        Some(Setter {
            lever: Lever::ALL.into_iter().find(|it| it.word() == lever)?,
            base: Parameters {
                policy: match policy.as_str() {
                    "other" => Policy::Other,
                    "batch" => Policy::Batch,
                    _ => return None,
                },
                nice: nice.parse().ok()?,
                slice: slice.parse().map(Nanos).ok()?,
            },
            rights: Rights {
                lower: true,
                slices: true,
                slice: kernels.parse().map(Nanos).ok()?,
            },
        })
    }

    /// Parameters as they are set, from those that were read.
    fn settable(&self, read: Parameters) -> Parameters {
        let slice = match read.slice {
            slice if slice == self.rights.slice => Nanos::ZERO,
            slice => slice,
        };
        Parameters { slice, ..read }
    }

    /// The parameters that the kernel shows after these were set.
    fn shown(&self, set: &Parameters) -> Parameters {
        let slice = match set.slice {
            Nanos::ZERO => self.rights.slice,
            slice => slice,
        };
        Parameters { slice, ..*set }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Parameters = Parameters {
        policy: Policy::Other,
        nice: 10,
        slice: Nanos::ZERO,
    };

    /// Runs a test in a thread of its own with a setter for it, which may lower nice levels.
    fn aside(test: impl FnOnce(&Setter, i32) + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let rights = Rights::find();
                if !rights.lower || set_parameters(0, &PLAIN).is_err() {
                    return plimsoll_testbed::skip("we have no right to lower nice levels");
                }
                // 0 is the calling thread.
                test(&Setter::new(0, Lever::Nice, rights).unwrap(), 0);
            });
        });
    }

    #[test]
    fn a_thread_gets_back_what_it_had() {
        aside(|setter, tid| {
            let mut held = setter.take(tid).unwrap();
            assert!(setter.place(&mut held, Place::Back).unwrap());
            assert!(!setter.place(&mut held, Place::Back).unwrap());
            assert_eq!(parameters(tid).unwrap().nice, 19);
            // One that is seen first now has inherited it.
            let mut heir = setter.take(tid).unwrap();
            assert!(setter.restore(&mut heir).unwrap());
            assert_eq!(parameters(tid).unwrap().nice, PLAIN.nice);
        });
    }

    #[test]
    fn a_thread_that_somebody_else_changed_is_left_alone() {
        aside(|setter, tid| {
            let mut held = setter.take(tid).unwrap();
            assert!(setter.place(&mut held, Place::Back).unwrap());
            let changed = Parameters { nice: 15, ..PLAIN };
            set_parameters(tid, &changed).unwrap();
            for place in [Place::Front, Place::Back] {
                assert!(!setter.place(&mut held, place).unwrap());
            }
            assert!(!setter.restore(&mut held).unwrap());
            setter.restore_heir(tid);
            assert_eq!(parameters(tid).unwrap().nice, 15);
        });
    }

    #[test]
    fn words_say_all_of_it() {
        aside(|setter, tid| {
            let again = Setter::from_words(&setter.words()).unwrap();
            assert_eq!(again.words(), setter.words());
            let mut held = setter.take(tid).unwrap();
            setter.place(&mut held, Place::Back).unwrap();
            again.restore_heir(tid);
            assert_eq!(parameters(tid).unwrap().nice, PLAIN.nice);
        });
        let none = ["nice", "fifo", "1", "0", "0"].map(str::to_owned);
        assert!(Setter::from_words(&none).is_none() && Setter::from_words(&[]).is_none());
    }
}
