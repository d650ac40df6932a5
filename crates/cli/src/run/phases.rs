//! `--phases`: finds the Java machine of a program, and orders its threads in a thread of ours.

use super::principal::Member;
use super::undo;
use crate::args;
use plimsoll_kernel::process::Process;
use plimsoll_phases::{AllocationError, Ended, FollowError, News, Options, follow};
use plimsoll_policy::phases::Rule;
use plimsoll_programs::hotspot::is_machine;
use plimsoll_runtimes::family;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The hidden command that undoes everything if we are killed.
const UNDO: &str = "undo-phases";
/// How long to wait until everything is undone.
const LET_GO: Duration = Duration::from_secs(3);
/// The pauses between two searches for a machine: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long the tables of a machine that is starting may be missing.
const STARTS: Duration = Duration::from_secs(10);
/// The longest sleep, after which is seen that we are to stop.
const GRAIN: Duration = Duration::from_millis(20);

/// A thread that orders the threads of a program.
#[derive(Debug)]
pub(super) struct Ordered {
    stop: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Ordered {
    /// Starts it for a program and its descendants, and tells the broker of it through `member`. `None` if
    /// the user does not want it.
    pub(super) fn start(
        pid: u32,
        wanted: &args::Phases,
        member: Option<Member>,
    ) -> Option<Ordered> {
        let options = options(wanted)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel();
        let stops = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(format!("phases-{pid}"));
        let order = move || {
            seek(pid, &options, &stops, &mut |news| {
                say(news, options.rule, member.as_ref());
            });
            let _ = end.send(());
        };
        match thread.spawn(order) {
            Ok(_) => Some(Ordered { stop, ended }),
            Err(error) => {
                warn!("the threads of process {pid} are not ordered, no thread: {error}");
                None
            }
        }
    }

    /// Undoes everything, which matters to processes that the program leaves behind.
    pub(super) fn let_go(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.ended.recv_timeout(LET_GO);
    }
}

fn options(wanted: &args::Phases) -> Option<Options> {
    let mut options = Options::of(Rule::from(wanted.phases?));
    options.quanta.bytes = Bytes(wanted.phases_quantum);
    options.lever = wanted.phases_lever.map(Into::into);
    options.always = wanted.phases_always;
    let own = std::env::current_exe().ok();
    options.guard = own.map(|own| (own, UNDO));
    options.notes = undo::notes();
    Some(options)
}

/// Looks for a machine among the processes of a program, and orders its threads, again and again.
fn seek(root: u32, options: &Options, stop: &AtomicBool, say: &mut dyn FnMut(&News)) {
    let mut pause = PAUSES.0;
    // Machines whose threads cannot be ordered: number and time of start.
    let mut given_up: Vec<(i32, u64)> = Vec::new();
    let mut since = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let found = largest(root).filter(|it| !given_up.contains(&(it.pid(), it.start_time())));
        let Some(process) = found.map(Arc::new) else {
            rest(pause, stop);
            pause = (pause * 2).min(PAUSES.1);
            since = Instant::now();
            continue;
        };
        match follow(&process, options, stop, say) {
            Ok(Ended::Stopped) => return,
            Ok(Ended::ProgramGone) => pause = PAUSES.0,
            Err(FollowError::Kernel(error)) if error.is_gone() => pause = PAUSES.0,
            Err(error) if may_pass(&error) && since.elapsed() < STARTS => {
                rest(PAUSES.0, stop);
            }
            Err(error) => {
                warn!("{error}");
                given_up.push((process.pid(), process.start_time()));
            }
        }
    }
}

/// Sleeps, unless we are to stop.
fn rest(pause: Duration, stop: &AtomicBool) {
    let until = Instant::now() + pause;
    while let Some(left) = until.checked_duration_since(Instant::now())
        && !left.is_zero()
        && !stop.load(Ordering::Acquire)
    {
        std::thread::sleep(left.min(GRAIN));
    }
}

/// Whether a machine that is just starting may be the reason.
fn may_pass(error: &FollowError) -> bool {
    let FollowError::Allocation(error) = error else {
        return false;
    };
    matches!(
        error,
        AllocationError::Tables { .. }
            | AllocationError::Field { .. }
            | AllocationError::NotHotSpot(_)
    )
}

/// The machine that uses the most memory.
fn largest(root: u32) -> Option<Process> {
    let mut family = family::of(root);
    family.retain(|&pid| {
        let process = plimsoll_runtimes::process::Process::new(pid);
        process.is_ok_and(|process| is_machine(&process))
    });
    let largest = family.into_iter().max_by_key(|&pid| family::uses(pid))?;
    Process::open(i32::try_from(largest).ok()?).ok()
}

/// Tells people, and the broker if it knows the program.
fn say(news: &News, rule: Rule, member: Option<&Member>) {
    if news.is_important() {
        warn!("{news}");
    } else {
        info!("{news}");
    }
    if let Some(member) = member
        && let Some(order) = changed(news, rule)
    {
        member.report_order(order);
    }
}

/// The order of threads from now on, if that is news.
fn changed(news: &News, rule: Rule) -> Option<Option<Order>> {
    let shown = match rule {
        Rule::RoundRobin => None,
        Rule::Larf => Some(Order::Larf),
        Rule::Mqrr => Some(Order::Mqrr),
    };
    match news {
        News::Follows { .. } | News::Stood(..) => Some(shown),
        News::NothingToDo { .. } => Some(Some(Order::Nothing)),
        News::Withdrawn(..) => Some(Some(Order::Withdrawn)),
        News::Ends { .. } => Some(None),
        News::TooMany { .. } | News::NoGuard(_) => None,
    }
}
