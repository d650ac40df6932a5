//! What a runtime is to us. A new one is a folder with a type that implements [`Runtime`], and a line in
//! [`crate::ALL`]; `docs/src/adding-a-runtime.md` goes through [`crate::example`].

use crate::detect::{Candidate, Command};
use crate::link::{Ended, Link, Options};
use crate::process::Process;
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;

/// What manages the memory of a program, and how such a program is found and steered.
///
/// The phases of a program's life, in order:
///
/// 1. **recognise a command**: [`Runtime::starts`], before the program starts. What the user said
///    (`--adapter`) comes before that where [`Runtime::gives_way`].
/// 2. **prepare**: [`Runtime::prepare`], once, for the runtime that was recognised or said. What it returns
///    is added to the command line and to the environment; then the program starts.
/// 3. **recognise a process**: [`Runtime::runs`], for the program and each of its descendants, a few times in
///    the first two seconds and then every two seconds. A program that was adopted begins here.
/// 4. **steer**: the loop in [`Runtime::steered`], in a thread of its own, for the process that uses the most
///    memory of those that can be steered from outside.
///
/// All but the loop come back at once: they read files of at most some megabytes. Nothing fails: what cannot
/// be read is not recognised, and nothing is added for it.
pub trait Runtime: Debug + Sync {
    /// Its name, like no other's: 1 to 32 bytes of `a` to `z`, `0` to `9` and `-`. `ps` shows it while
    /// somebody steers the program, and the broker's rules take it.
    fn name(&self) -> &'static str;

    /// What a user may give as `--adapter` for programs of this runtime. A runtime that somebody steers has
    /// at least one, and the first is its name. A runtime that nobody steers has none.
    fn choices(&self) -> &'static [Choice] {
        &[]
    }

    /// Phase 1. Whether the command line starts a program of this runtime, by the file that it names
    /// ([`Command::executable`]). The first in the list that says so has it. A script is no runtime's
    /// program: what it starts is found when it runs.
    fn starts(&self, command: &Command<'_>) -> bool;

    /// Phase 1. Whether the user's `--adapter` counts for more than [`Runtime::starts`]. Yes where the
    /// command may only be there to start a program of another runtime, as build tools are. No where it
    /// would not understand what is added for another runtime.
    fn gives_way(&self) -> bool {
        false
    }

    /// Phase 2. What is added before the program starts. What the user gave wins, wherever it stands. A
    /// program that fails without us has to fail in the same way with what is added. A program that nobody
    /// steers may get something, too. There is no limit yet: [`Plan::budget`] is the number to start with.
    fn prepare(&self, _start: &Start<'_>) -> Addition {
        Addition::default()
    }

    /// Phase 3. Whether this process has the runtime now, by the files that it has mapped
    /// ([`Candidate::names`]) or by its executable (`exe` of [`Candidate::path`]). Neither can be seen where
    /// we may not look into it ([`Candidate::is_closed`]). A process may become another program.
    fn runs(&self, process: &Candidate) -> bool;

    /// Phase 4. Who steers a program of this runtime; the same at each call.
    fn steered(&self) -> Steered;

    /// The adapter's name as `Register` takes it; `None` for a passive program.
    fn adapter(&self) -> Option<&'static str> {
        match self.steered() {
            Steered::Outside(_) | Steered::Inside => Some(self.name()),
            Steered::LeftAlone(_) | Steered::Passive => None,
        }
    }

    /// Why a program that looks as if it could be steered is left alone.
    fn left_alone(&self) -> Option<&'static str> {
        match self.steered() {
            Steered::LeftAlone(why) => Some(why),
            _ => None,
        }
    }
}

/// A value of `--adapter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is given.
    pub name: &'static str,
    /// What it means, for the help: one line without a full stop.
    pub help: &'static str,
}

/// Who steers a program.
#[derive(Clone, Copy, Debug)]
pub enum Steered {
    /// We do, in a thread beside it.
    Outside(Steer),
    /// What [`Runtime::prepare`] loaded into it at its start.
    Inside,
    /// Nobody, although it looks as if it could be steered; the user is told this reason.
    LeftAlone(&'static str),
    /// Nobody.
    Passive,
}

/// Steers one process until it is gone ([`Ended::ProgramGone`]), or is another program, or the link is
/// stopped ([`Ended::Stopped`]; what was changed is given back before).
///
/// In each turn of its loop it asks [`Link::stopped`], reads [`Link::numbers`], does what they call for,
/// leaves a [`Link::report`], and sleeps by [`Link::wait`], half a second at the most. It says
/// [`Link::steered_by`] with its name as soon as it can steer, with none before it returns, and
/// [`Link::not_steered`] each time that it tried in vain to reach the program.
pub type Steer = fn(&Target<'_>, &mut dyn Link) -> Ended;

/// What is to be steered.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The process that has the runtime.
    pub process: Process,
    /// The process that the principal was registered with, itself or an ancestor. The numbers are for all
    /// that descends from it.
    pub root: u32,
    /// What a person set.
    pub options: &'a Options,
}

/// What is known before the start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Bytes that a program alone could use of what the broker shares out; `None` where that is not known.
    /// Limits are not known before the start, and change while the program runs.
    pub budget: Option<u64>,
    /// Bytes of memory of the machine, or of the lowest limit above: what a virtual machine takes for its
    /// memory.
    pub memory: Option<u64>,
    /// Bytes of the lowest limit of a group above, where that is below the machine's memory.
    pub group: Option<u64>,
    /// Nothing can be paged out where the program will be: who is over the limit there is killed.
    pub cliff: bool,
    /// The [`Choice`] that the user made, whatever the program looks like: a script, a build tool, a program
    /// with libraries of its own. A name that no runtime has is as if nothing was said.
    pub said: Option<&'static str>,
    /// Our own program file: what is loaded into programs lies beside it, or where it is installed.
    pub own: Option<PathBuf>,
}

/// What [`Runtime::prepare`] is asked for.
pub struct Start<'a> {
    /// The command line.
    pub command: &'a Command<'a>,
    /// What is known of the place where it starts.
    pub plan: &'a Plan,
    /// The command line is of this runtime; else the user says that what it starts will be.
    pub recognised: bool,
}

/// What is added to a program at its start.
#[derive(Clone, Debug, Default)]
pub struct Addition {
    /// Stand before the program's own arguments.
    pub arguments: Vec<OsString>,
    /// Variables to set. The new value holds what the user had in the old one.
    pub environment: Vec<(OsString, OsString)>,
    /// Somebody will steer the program ([`Runtime::steered`] says who); else it is registered as passive.
    pub steered: bool,
    /// What was added and why, one line each, for `-v`.
    pub notes: Vec<String>,
}
