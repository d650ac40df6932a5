//! `plimsoll trace -- java …`: programs are recorded on every JDK, and what goes wrong is told.

#[path = "../../../cli/tests/common/mod.rs"]
mod common;

mod bad;
mod good;

use common::{Place, library};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::java::{Jdk, compile_into, jdks};
use plimsoll_testbed::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests run one at a time, because several machines on two processors start slowly.
static TURN: Mutex<()> = Mutex::new(());

/// The recorder, as it is installed.
const RECORDER: &str = "libplimsoll_tracer.so";

/// A place with our program, the recorder beside it, and compiled test programs.
pub(crate) struct Stage {
    pub(crate) place: Place,
    own: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// `None`, and says so, where nothing can be compiled.
    pub(crate) fn new() -> Option<Stage> {
        Stage::with_recorder(RECORDER)
    }

    /// As [`Stage::new`], with another library in the recorder's place.
    pub(crate) fn with_recorder(recorder: &str) -> Option<Stage> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::new();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/tracer/tests/java");
        let sources = ["Shapes.java", "Lives.java", "Deep.java"].map(|source| sources.join(source));
        if !compile_into(&place.path(""), &sources) {
            skip("no javac");
            return None;
        }
        let own = place.path("bin/plimsoll-lab");
        std::fs::create_dir(place.path("bin")).unwrap();
        for (from, to) in [
            (PathBuf::from(common::OWN), own.clone()),
            (library(recorder), place.path("bin").join(RECORDER)),
        ] {
            if std::fs::hard_link(&from, &to).is_err() {
                copy_program(from, to).unwrap();
            }
        }
        Some(Stage {
            place,
            own,
            _turn: turn,
        })
    }

    /// `plimsoll trace`, with what is given before and after `--`.
    pub(crate) fn command(&self, args: &[&str], program: &[&str]) -> Command {
        let args = [&["trace"], args, &["--"], program].concat();
        self.place.program(self.own.to_str().unwrap(), &args)
    }

    /// Records a program to its end.
    pub(crate) fn record(&self, args: &[&str], program: &[&str]) -> Output {
        self.command(args, program).output().unwrap()
    }

    /// A command on a trace, which must succeed.
    pub(crate) fn text(&self, args: &[&str]) -> String {
        self.place.text(&[&["trace"], args].concat())
    }
}

/// The JDKs whose programs can be recorded.
pub(crate) fn recorded() -> Vec<Jdk> {
    let mut all = jdks();
    all.retain(|jdk| jdk.version >= 17);
    all
}

/// One of them, for tests that need only one.
pub(crate) fn java() -> Option<String> {
    let first = recorded().into_iter().next();
    first.map(|jdk| jdk.java().display().to_string())
}
