//! `plimsoll run`: runs unmodified programs under the broker.
//!
//! # Glossary
//! - *member*: the principal of a program or a group, kept as long as that runs.
//! - *keeper*: the thread that restarts our broker if it was killed.
//! - *outsider*: a program of a file that the broker does not know.
//! - *budget*: a cgroup that binds all programs of a file.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `one` | one program, in the foreground |
//! | `many` | several programs of a file, under one budget |
//! | `child` | starts a program, and tells how it ended |
//! | `steer` | the program's adapter, and the thread that steers |
//! | `unbind` | lifts the bound of a program whose broker is gone |
//! | `undo` | what killed processes of ours left is undone |
//! | `phases` | the thread that orders a program's threads |
//! | `principal` | the principal of a program or a group |
//! | `restart_broker` | restarts our broker if it was killed |
//! | `budget_cgroup` | a cgroup for the programs of one file |
//! | `move_children` | moves early children to their program's cgroup |
//! | `orphans` | what the first process of a container has to do |
//! | `signals` | signals as a file to poll |
//! | `record` | `--record` |
//! | `log` | our own messages |

pub mod budget_cgroup;
pub mod child;
pub mod log;
pub mod many;
mod move_children;
mod one;
pub mod orphans;
mod phases;
pub mod principal;
pub mod record;
mod restart_broker;
pub mod signals;
mod steer;
mod unbind;
mod undo;

pub use one::plainly;
pub(crate) use undo::put_back;

/// Where is noted what to put back.
pub(crate) fn notes() -> Option<std::sync::Arc<plimsoll_kernel::undo_notes::Notes>> {
    undo::notes()
}

use crate::args;
use crate::error::CliError;
use crate::own_broker::Place;
use crate::programs::Programs;
use crate::{output::say, own_broker, top};
use many::Many;
use record::Recording;
use signals::Signals;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use restart_broker::keep;
pub(crate) use steer::{Choices, start as start_steering};

/// Runs one program, or those of a file.
///
/// # Errors
/// When it cannot be started, or the command line is invalid.
pub fn run(place: &Place, args: &args::Run) -> Result<u8, CliError> {
    match &args.file {
        Some(file) => run_file(place, args, file),
        None if args.top || args.record.is_some() => Err(CliError::Usage(
            "--top and --record are for the programs of a file (-f)".into(),
        )),
        None => one::run(place, args),
    }
}

fn run_file(place: &Place, args: &args::Run, file: &Path) -> Result<u8, CliError> {
    let programs = Programs::read(file)?;
    programs.check_bounds(file, principal::capacity())?;
    let heard: Vec<i32> = many::HEARD.into_iter().chain(orphans::heard()).collect();
    let signals = Signals::block(&heard)?;
    let outputs = args
        .top
        .then(|| make_outputs(programs.name.as_deref()))
        .transpose()?;
    let log = args
        .log
        .clone()
        .or_else(|| outputs.as_ref().map(|dir| dir.join("plimsoll.log")));
    log::start(log::Tone::of(args.quiet, args.verbose), log.as_deref())?;
    put_back();
    let interval = Duration::from_millis(args.interval);
    let record = |path: &PathBuf| Recording::begin(path, &place.socket, interval);
    let recording = args.record.as_ref().map(record).transpose()?;
    match own_broker::ensure(place) {
        Ok(_) => keep(place),
        Err(error) => tracing::warn!("the programs run without a broker: {error}"),
    }
    let mut many = Many::new(programs, place, recording, outputs.clone())?;
    let status = match outputs {
        None => many.run(&signals),
        Some(dir) => {
            let status = run_with_screen(place, &mut many, &signals);
            say(format_args!(
                "what the programs printed is in {}",
                dir.display()
            ));
            status
        }
    };
    drop(many);
    status
}

/// Shows the screen while the programs run behind it. Leaving the screen does not end the programs.
fn run_with_screen(place: &Place, many: &mut Many, signals: &Signals) -> Result<u8, CliError> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let programs = scope.spawn(|| {
            let status = many.run(signals);
            over.store(true, Ordering::Release);
            status
        });
        let done = || over.load(Ordering::Acquire);
        let shown = own_broker::ensure(place)
            .and_then(|_| top::run(&place.socket, Duration::from_secs(1), done));
        if let Err(error) = shown {
            say(format_args!("no screen: {error}"));
        }
        if !over.load(Ordering::Acquire) {
            say(format_args!("the programs go on; Ctrl-C ends them"));
        }
        let failed = |_| Err(CliError::Refused("the programs' thread panicked".into()));
        programs.join().unwrap_or_else(failed)
    })
}

/// Makes a directory for the programs' output, which would otherwise be printed across the screen.
fn make_outputs(name: Option<&str>) -> Result<PathBuf, CliError> {
    let name = many::file_name(name.unwrap_or("programs"));
    let plain = format!("plimsoll-{name}-{}", std::process::id());
    let again = (2..100).map(|n| format!("{plain}-{n}"));
    let mut dir = PathBuf::new();
    // In a container every run may have the same process number, so the name may be taken.
    for name in [plain.clone()].into_iter().chain(again) {
        dir = std::env::temp_dir().join(name);
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir.clone()).map_err(CliError::path(&dir)),
        }
    }
    Err(CliError::Refused(format!(
        "{} and all like it exist; remove them",
        dir.display()
    )))
}
