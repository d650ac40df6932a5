//! The trait of all runtimes. A new runtime is a recogniser in the crate `programs`, a folder here that
//! implements [`Runtime`] for it, and a line in [`crate::ALL`]; if it is steered, one in
//! [`plimsoll_programs::STEERED`], too. `docs/src/adding-a-runtime.md` explains [`crate::example`] step by
//! step.

use crate::lever::Begin;
use crate::lever_options::{Choice, Chosen, LeverOption};
use crate::process::Process;
use plimsoll_programs::{Command, Recognise};
use plimsoll_unit::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// A kind of memory management in programs, and how such programs are found and steered.
///
/// The phases of a program's life, in order:
///
/// 1. **recognise a command**: [`Recognise::starts`], before the program starts. The first runtime in the
///    list that says yes gets the program. The user's choice (`--adapter`) takes precedence if
///    [`Runtime::gives_way`].
/// 2. **prepare**: [`Runtime::prepare`], once, for the runtime that was recognised or chosen.
///    Its additions go to the command line and to the environment; then the program starts.
/// 3. **recognise a process**: [`Recognise::runs`], for the program and each of its descendants, a
///    few times in the first two seconds and then every two seconds. An adopted program begins with
///    this phase.
/// 4. **steer**: the one loop of this crate, in a thread of its own, pulls the lever of
///    [`Runtime::steered`], for the process that uses the most memory of those that can be steered from
///    outside.
///
/// `ps` shows the runtime's name while the program is steered; it must satisfy the broker's rules for names
/// of adapters. All methods return at once; they read at most some megabytes of files.
/// None fails: to a program that cannot be read nothing is added.
pub trait Runtime: Recognise {
    /// The values of `--adapter` that choose this runtime. A steered runtime has at least one, and
    /// the first is its name. A runtime that is not steered has none.
    fn choices(&self) -> &'static [Choice] {
        &[]
    }

    /// Further options of the lever. Each of them is a flag of `run` and `adopt`, and a key in files of
    /// programs.
    fn options(&self) -> &'static [LeverOption] {
        &[]
    }

    /// Whether what the user chose of [`Runtime::options`] steers a program even without a broker. If so, no
    /// broker is started for it.
    fn needs_no_broker(&self, _chosen: &Chosen) -> bool {
        false
    }

    /// Phase 1. Whether the user's `--adapter` overrides [`Recognise::starts`]. Yes if the command
    /// may only serve to start a program of another runtime, as build tools do. No if it would not
    /// understand what is added for another runtime.
    fn gives_way(&self) -> bool {
        false
    }

    /// Phase 2. The additions before the program starts. The user's own arguments and variables
    /// win, wherever they stand. A program that fails by itself must fail in the same way with the
    /// additions. A program that is not steered may get additions too. There is no limit yet;
    /// [`Plan::budget`] is the number to start with.
    fn prepare(&self, _start: &Start<'_>) -> Addition {
        Addition::default()
    }

    /// Phase 4. How a program of this runtime is steered. The same at each call.
    fn steered(&self) -> Steered;

    /// Afterwards, in another process of ours. Puts back what the lever changed in a program before the
    /// adapter was killed: `note` is the lever's text ([`crate::lever::Target::note`]). The program still
    /// runs. False if that cannot be done now: the note stays, and the next command tries again.
    fn put_back(&self, _process: Process, _note: &str) -> bool {
        false
    }

    /// The memory that a program of this runtime takes, if nobody steers it, where it sees `memory`.
    /// [`Plan::budget`] is no less: a maximum that is fixed for the program's life must not be.
    fn takes_alone(&self, _memory: Bytes) -> Bytes {
        Bytes::ZERO
    }

    /// The disadvantage of a program that was adopted to one that was prepared, for people, after "steered as
    /// NAME". `None` if there is none.
    fn adopted(&self) -> Option<&'static str> {
        None
    }

    /// The adapter's name as `Register` takes it; `None` for a passive program.
    fn adapter(&self) -> Option<&'static str> {
        match self.steered() {
            Steered::Outside(_) | Steered::Inside => Some(self.name()),
            Steered::LeftAlone(_) | Steered::Passive => None,
        }
    }

    /// Why a program that looks steerable is left alone, if it is.
    fn left_alone(&self) -> Option<&'static str> {
        match self.steered() {
            Steered::LeftAlone(why) => Some(why),
            _ => None,
        }
    }
}

/// How a program is steered.
#[derive(Clone, Copy, Debug)]
pub enum Steered {
    /// By us, in a thread outside the program, by the lever that this begins to reach.
    Outside(Begin),
    /// By a library that [`Runtime::prepare`] had loaded at the start.
    Inside,
    /// Not at all, although it looks steerable. The user is told this reason.
    LeftAlone(&'static str),
    /// Not at all.
    Passive,
}

/// The facts that are known before a program starts.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The part of the broker's memory that the program could use if it was alone; `None` if unknown.
    /// The limit is not known before the start, and changes while the program runs.
    pub budget: Option<Bytes>,
    /// The memory of the broker, if one tells it. It may raise the budget: see [`Runtime::takes_alone`].
    pub shared: Option<Shared>,
    /// The memory that a virtual machine will see: the computer's memory, or the lowest limit
    /// of the cgroups above.
    pub memory: Option<Bytes>,
    /// The lowest limit of the cgroups above, if it is below the computer's memory.
    pub group: Option<Bytes>,
    /// Memory that can be paged out beyond `group`, where the broker shares out no more than the group
    /// has; 0 elsewhere.
    pub beyond: Bytes,
    /// Nothing can be paged out where the program will run, so an excess over a limit ends it.
    pub cliff: bool,
    /// No limit is expected unless the program itself runs into a shortage (`--policy isla-vista`
    /// without a broker). Until then the runtime must behave as it does alone.
    pub own_rule: bool,
    /// The [`Choice`] that the user made, which helps where the program does not show its runtime:
    /// a script, a build tool, a program with libraries of its own. An unknown name is ignored.
    pub said: Option<&'static str>,
    /// The values that the user gave to options of levers.
    pub chosen: Chosen,
    /// Our own program file. Libraries for programs lie beside it or in the place of installation.
    pub own: Option<PathBuf>,
}

/// The memory that a broker shares out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// All that there is.
    pub capacity: Bytes,
    /// The budget of today, and what programs have that the broker does not know: they may be gone some day.
    pub some_day: Bytes,
}

impl Plan {
    /// This plan for a program of `runtime`. The maximum of a heap is fixed for the program's life, and one
    /// below what the program takes without us might end it. So the budget is at least that, as far as the
    /// program can have it some day.
    pub(crate) fn of(&self, runtime: &dyn Runtime) -> Plan {
        let alone = |it: Shared| runtime.takes_alone(it.capacity).min(it.some_day);
        let alone = self.shared.map_or(Bytes::ZERO, alone);
        Plan {
            budget: self.budget.map(|budget| budget.max(alone)),
            ..self.clone()
        }
    }
}

/// The argument of [`Runtime::prepare`].
pub struct Start<'a> {
    /// The command line.
    pub command: &'a Command<'a>,
    /// The facts about the place where it starts.
    pub plan: &'a Plan,
    /// Whether the command line itself was recognised. If not, the user says that it starts a
    /// program of this runtime.
    pub recognised: bool,
}

/// Additions to a program before it starts.
#[derive(Clone, Debug, Default)]
pub struct Addition {
    /// Arguments to insert before the program's own.
    pub arguments: Vec<OsString>,
    /// Variables to set. A new value contains the user's old one.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether the program will be steered ([`Runtime::steered`] says how). If not, it is
    /// registered as passive.
    pub steered: bool,
    /// The additions and their reasons, in one line each, for `-v`.
    pub notes: Vec<String>,
}
