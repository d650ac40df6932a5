//! Programs that run now and whose memory a runtime manages, with the free heap that each keeps: memory
//! without objects, which it could give back without a collection.

use crate::rows::shown;
use crate::size::Human;
use crate::terminal_text::wrap;
use plimsoll_kernel::process::{Process, numbers};
use plimsoll_map::{Kind, Look, Options, look};
use plimsoll_unit::MIB;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Smaller programs are not looked at: they have little to give.
const LEAST: u64 = 16 * MIB;
/// The most programs that are looked at, the largest first.
const MOST: usize = 64;
/// How long looking at all of them may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// The programs of a recognised runtime: the user's own, or all users' where we are root.
#[derive(Debug, Default, Serialize)]
pub struct Running {
    /// The programs, those with the most free heap first.
    pub programs: Vec<Program>,
    /// How many programs were too many, or came too late, to be looked at.
    pub left_out: usize,
}

/// A program of a recognised runtime.
#[derive(Debug, Serialize)]
pub struct Program {
    /// Its process.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// The name of the runtime, as `plimsoll map` has it.
    pub runtime: String,
    /// Resident memory, bytes.
    pub resident: u64,
    /// Resident memory of its heap without objects, bytes.
    pub free: u64,
    /// How it comes under the broker: `adopt` (it is steered while it runs), `run` (it is steered if it is
    /// started so), or `counted` (it is not steered).
    pub joins: &'static str,
}

impl Running {
    /// Looks at what runs. Nothing of a program is touched.
    pub(super) fn examine() -> Running {
        let end = Instant::now() + PATIENCE;
        let mut candidates = candidates();
        let mut running = Running {
            left_out: candidates.len().saturating_sub(MOST),
            ..Running::default()
        };
        candidates.truncate(MOST);
        for pid in candidates {
            let limit = end.saturating_duration_since(Instant::now());
            if limit.is_zero() {
                running.left_out += 1;
                continue;
            }
            let options = Options {
                limit,
                ..Options::default()
            };
            // A program that has ended is none any more.
            running
                .programs
                .extend(look(pid, &options).ok().and_then(Program::of));
        }
        running
            .programs
            .sort_by_key(|it| (std::cmp::Reverse(it.free), it.pid));
        running
    }

    pub(super) fn text(&self, width: usize) -> String {
        let mut text = String::new();
        let head = "running  ";
        let about = match self.programs.as_slice() {
            [] => "no program of a runtime that is known here",
            _ => {
                "programs of runtimes that are known here, and the free heap that each could give back now"
            }
        };
        wrap(&mut text, head, about, head.len(), width);
        for it in &self.programs {
            let line = format!(
                "{} of {}: {} ({}, process {}), {}",
                Human(it.free),
                Human(it.resident),
                shown(&it.name, 40),
                it.runtime,
                it.pid,
                it.advice()
            );
            wrap(&mut text, "  ", &line, 4, width);
        }
        if self.left_out > 0 {
            let line = format!("{} more programs were not looked at", self.left_out);
            wrap(&mut text, "  ", &line, 4, width);
        }
        text
    }
}

impl Program {
    /// `None` where no runtime is recognised.
    fn of(look: Look) -> Option<Program> {
        let runtime = look.runtime?;
        let free = look.areas.iter().filter(|area| area.kind == Kind::FreeHeap);
        Some(Program {
            free: free.map(|area| area.states.resident).sum(),
            pid: look.pid,
            name: look.name,
            resident: look.total.resident,
            joins: joins(&runtime),
            runtime,
        })
    }

    fn advice(&self) -> String {
        match self.joins {
            "adopt" => format!("steered by `plimsoll adopt {}`", self.pid),
            "run" => "steered if `plimsoll run` starts it".to_owned(),
            _ => "counted, not steered".to_owned(),
        }
    }
}

/// How a program of this runtime comes under the broker: see [`Program::joins`].
fn joins(runtime: &str) -> &'static str {
    match runtime {
        "HotSpot" => "adopt",
        "libgc" => "run",
        _ => "counted",
    }
}

/// The processes that we may look at and that are large enough, the largest first.
fn candidates() -> Vec<i32> {
    let user = rustix::process::geteuid();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let resident = |pid: i32| {
        let process = Process::open(pid).ok()?;
        let may = user.is_root() || process.uid().ok()? == user.as_raw();
        let resident = process.memory_fast().ok()?.resident.0;
        (may && resident >= LEAST && pid != own).then_some((resident, pid))
    };
    let mut all: Vec<_> = numbers()
        .into_iter()
        .flatten()
        .filter_map(resident)
        .collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.into_iter().map(|(_, pid)| pid).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample() -> Running {
        let program = |pid, name: &str, runtime: &str, free| Program {
            pid,
            name: name.into(),
            runtime: runtime.into(),
            resident: 512 * MIB,
            free,
            joins: joins(runtime),
        };
        Running {
            programs: vec![
                program(7, "java", "HotSpot", 300 * MIB),
                program(8, "guile", "libgc", 20 * MIB),
                program(9, "node", "V8", 0),
            ],
            left_out: 2,
        }
    }

    #[test]
    fn tells_what_each_could_give_back_and_how_it_is_steered() {
        let expected = "\
running  programs of runtimes that are known here, and the free heap that each
         could give back now
  300M of 512M: java (HotSpot, process 7), steered by `plimsoll adopt 7`
  20.0M of 512M: guile (libgc, process 8), steered if `plimsoll run` starts it
  0 of 512M: node (V8, process 9), counted, not steered
  2 more programs were not looked at
";
        assert_eq!(sample().text(80), expected);
        assert!(Running::default().text(80).contains("no program"));
    }
}
