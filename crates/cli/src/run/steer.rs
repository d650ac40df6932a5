//! What the adapters add to a program before it starts, and the thread in which one steers it.

use super::member::{Member, capacity};
use crate::args::AdapterChoice;
use crate::control::Control;
use crate::embed::Place;
use plimsoll_runtimes::launch::{self, Plan};
use plimsoll_runtimes::setting::Setting;
use plimsoll_runtimes::{Options, Runtime};
use std::ffi::OsString;
use std::path::PathBuf;
use tracing::{info, warn};

/// The library that is preloaded into programs that use libgc.
const LIBGC_AGENT: &str = "libplimsoll_libgc.so";

/// A command line as it will be started.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    /// Program and arguments, with what was added.
    pub(crate) argv: Vec<OsString>,
    /// Added to the environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The adapter's name for the broker; none for passive programs.
    pub(crate) adapter: Option<&'static str>,
}

/// A command line to which nothing is added.
pub(crate) fn untouched(argv: &[OsString]) -> Steered {
    Steered {
        argv: argv.to_vec(),
        environment: Vec::new(),
        adapter: None,
    }
}

/// Adds what makes a program elastic, and says what. `budget` is what it could use alone, bytes;
/// the broker's when absent.
pub(crate) fn prepare(
    argv: &[OsString],
    choice: AdapterChoice,
    budget: Option<u64>,
    setting: &Setting<'_>,
    place: &Place,
) -> Steered {
    if choice == AdapterChoice::None {
        return untouched(argv);
    }
    let told = || {
        Control::connect(&place.socket)
            .and_then(|mut c| c.list())
            .ok()
    };
    let budget = budget.or_else(|| told().map(|listing| listing.budget));
    let plan = Plan {
        budget,
        memory: Some(capacity()).filter(|&bytes| bytes < u64::MAX),
        java: choice == AdapterChoice::Hotspot,
        libgc_agent: libgc_agent(),
    };
    let prepared = launch::prepare_in(argv, &plan, setting);
    for note in &prepared.notes {
        info!("{note}");
    }
    let adapter = match choice {
        AdapterChoice::Hotspot => Runtime::HotSpot.adapter(),
        AdapterChoice::Libgc => Runtime::LibGc.adapter(),
        AdapterChoice::Auto | AdapterChoice::None => prepared.runtime.adapter(),
    };
    Steered {
        argv: prepared.argv,
        environment: prepared.environment,
        adapter,
    }
}

/// Beside our own program, or where it is installed.
fn libgc_agent() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let dir = own.parent()?;
    let places = [
        dir.join(LIBGC_AGENT),
        dir.join("../lib/plimsoll").join(LIBGC_AGENT),
    ];
    places.into_iter().find(|path| path.is_file())
}

/// Starts the thread that steers a program until it ends. It ends with us, too.
pub(crate) fn start(member: &Member, pid: u32, choice: AdapterChoice) {
    if choice == AdapterChoice::None {
        return;
    }
    let mut link = member.link();
    let steer = move || {
        let ended = plimsoll_runtimes::run(&mut link, pid, &Options::default());
        info!("steering of process {pid} ended: {ended:?}");
    };
    let thread = std::thread::Builder::new().name(format!("steer-{pid}"));
    if let Err(error) = thread.spawn(steer) {
        warn!("process {pid} is not steered, no thread: {error}");
    }
}
