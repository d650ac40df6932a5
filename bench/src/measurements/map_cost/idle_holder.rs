//! A program that holds memory, some of it in swap, and stands still.

use crate::harness::ground::Ground;
use crate::harness::interrupt;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_kernel::process::Process;
use plimsoll_kernel::smaps;
use plimsoll_testbed::children::{end_with_us, signal};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest that a program may take until it holds its memory.
const PATIENCE: Duration = Duration::from_secs(300);
/// After it holds it, so that threads of its runtime come to rest.
const SETTLE: Duration = Duration::from_secs(1);
/// Limits that are tried, to put memory into swap.
const TRIES: usize = 20;

/// Counters of the program, or how much they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Resident, bytes.
    pub(super) resident: u64,
    /// In swap, bytes.
    pub(super) swapped: u64,
    /// Resident in huge pages, bytes.
    pub(super) huge: u64,
    /// Major faults, count.
    pub(super) major: u64,
    /// Minor faults, count.
    pub(super) minor: u64,
}

impl State {
    fn both(self, other: State, of: fn(u64, u64) -> u64) -> State {
        State {
            resident: of(self.resident, other.resident),
            swapped: of(self.swapped, other.swapped),
            huge: of(self.huge, other.huge),
            major: of(self.major, other.major),
            minor: of(self.minor, other.minor),
        }
    }

    /// How much it differs.
    pub(super) fn since(self, before: State) -> State {
        self.both(before, u64::abs_diff)
    }

    /// The larger of each.
    pub(super) fn most(self, other: State) -> State {
        self.both(other, u64::max)
    }
}

/// The program; ended when dropped.
#[derive(Debug)]
pub(super) struct Held {
    child: Child,
    process: Process,
}

impl Held {
    /// Starts a program, waits until it says that it holds its memory, stops it, and puts
    /// `swapped` bytes of it into swap.
    ///
    /// # Errors
    /// When it cannot be started, does not say so, or the kernel puts nothing into swap.
    pub(super) fn start(
        ground: &Ground,
        words: &[String],
        swapped: u64,
        progress: &Progress,
    ) -> Result<Held> {
        ground.limit(None)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        end_with_us(&mut command);
        ground.enter(&mut command)?;
        let child = command.spawn().map_err(Error::start(&command))?;
        let process = Process::open(child.id() as i32)?;
        let mut held = Held { child, process };
        progress.tell(format_args!("it takes its memory"));
        held.wait_until_it_holds(&words[0])?;
        std::thread::sleep(SETTLE);
        signal(held.child.id(), Signal::STOP);
        progress.tell(format_args!("into swap"));
        held.swap_out(ground, swapped)?;
        Ok(held)
    }

    fn wait_until_it_holds(&mut self, name: &str) -> Result<()> {
        let (tell, told) = mpsc::channel();
        let output = self.child.stdout.take();
        // Reads on to the end, so that the program can go on writing.
        std::thread::spawn(move || {
            for line in output
                .into_iter()
                .flat_map(|output| BufReader::new(output).lines())
            {
                let Ok(line) = line else { return };
                let holds = ["held", "heap=", "\"holding\":true"];
                if holds.iter().any(|word| line.contains(word)) {
                    // Nobody listens after the first time.
                    let _ = tell.send(());
                }
            }
        });
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            interrupt::check()?;
            match told.recv_timeout(Duration::from_millis(100)) {
                Ok(()) => return Ok(()),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Error::program(name, "it ended before it held its memory"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        Err(Error::program(name, "it did not take its memory in time"))
    }

    /// Lowers the limit until enough is in swap, and takes it away.
    fn swap_out(&self, ground: &Ground, bytes: u64) -> Result<()> {
        for _ in 0..TRIES {
            let missing = bytes.saturating_sub(self.state()?.swapped);
            if missing == 0 {
                break;
            }
            let used = ground.cgroup().usage()?;
            // The kernel refuses a limit that it cannot reach at once, and has come closer then.
            let _ = ground.limit(used.0.saturating_sub(missing.max(1 << 20)));
        }
        ground.limit(None)?;
        match self.state()?.swapped {
            0 => Err(Error::program(
                "the kernel",
                "nothing of the program went into swap",
            )),
            _ => Ok(()),
        }
    }

    /// Its number.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Its counters now.
    pub(super) fn state(&self) -> Result<State> {
        let (sums, faults) = (smaps::rollup(&self.process)?, self.process.faults()?);
        Ok(State {
            resident: sums.rss,
            swapped: sums.swap,
            huge: sums.huge,
            major: faults.major,
            minor: faults.minor,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It is stopped, and hears nothing but this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the kernel says whether shared memory, which ZGC's heap is, may be in huge pages.
const HUGE_SHARED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Huge pages of shared memory for those who ask for them, as long as it lives.
#[derive(Debug)]
pub(super) struct HugeShared {
    before: Option<String>,
}

impl HugeShared {
    pub(super) fn on() -> HugeShared {
        let all = std::fs::read_to_string(HUGE_SHARED).unwrap_or_default();
        let before = all.split(['[', ']']).nth(1).map(str::to_owned);
        // Where it cannot be switched on, the table says how much is in huge pages.
        let _ = std::fs::write(HUGE_SHARED, "advise");
        HugeShared { before }
    }
}

impl Drop for HugeShared {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(HUGE_SHARED, before);
        }
    }
}
