//! Programs that run to their end, and what came of them.

use super::ground::Ground;
use super::interrupt;
use super::pauses::Pauses;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_testbed::children::end_with_us;
use plimsoll_testbed::{Refused, refuse};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at what runs.
const PACE: Duration = Duration::from_millis(2);

/// A program, and where it notes its pauses.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// What is run.
    pub command: Vec<String>,
    /// Added to its environment.
    pub env: BTreeMap<String, String>,
    /// Where it notes its pauses.
    pub pauses: PathBuf,
    /// What the kernel refuses it.
    pub refused: Option<Refused>,
}

/// How jobs are run.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Bytes of the cgroup that they share.
    pub limit: Option<u64>,
    /// Who takes memory in the same cgroup until all of them have ended.
    pub beside: Option<Vec<String>>,
    /// Seconds after which they are ended.
    pub longest: f64,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// As it should.
    Finished,
    /// By the kernel, which had no memory for it.
    Killed,
    /// By us: it took too long.
    TooLong,
    /// With a message of its own.
    Failed(String),
}

/// What came of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// The most bytes that were ever resident.
    pub resident: u64,
    /// Major faults.
    pub faults: u64,
    /// Its collections.
    pub pauses: Pauses,
    /// The last line that it wrote.
    pub said: String,
}

impl Outcome {
    /// A number that it told by this name.
    pub fn told(&self, name: &str) -> Option<u64> {
        let (_, rest) = self.said.split_once(name)?;
        let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    }

    /// Of two jobs that ran at once: it ended well if both did.
    pub fn with(self, other: Outcome) -> Outcome {
        Outcome {
            ending: match self.ending {
                Ending::Finished => other.ending,
                ending => ending,
            },
            seconds: self.seconds.max(other.seconds),
            resident: self.resident + other.resident,
            faults: self.faults + other.faults,
            pauses: self.pauses.merged(other.pauses),
            said: self.said,
        }
    }
}

/// Runs jobs at once, to the end of all of them.
///
/// # Errors
/// When something cannot be set up or started; everything that was started is ended.
pub fn run(
    ground: &Ground,
    jobs: &[Job],
    conditions: &Conditions,
    progress: &Progress,
) -> Result<Vec<Outcome>> {
    ground.limit(conditions.limit)?;
    let start = |job: (usize, &Job)| Running::start(ground, job.1, &job.0.to_string());
    let hog = match &conditions.beside {
        Some(command) => {
            let job = Job {
                command: command.clone(),
                ..Job::default()
            };
            Some(Running::start(ground, &job, "beside")?)
        }
        None => None,
    };
    let mut running = jobs
        .iter()
        .enumerate()
        .map(start)
        .collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    // Each is looked at: the times of both are noted.
    while running
        .iter_mut()
        .fold(false, |any, one| !one.has_ended() | any)
    {
        interrupt::check()?;
        let now = begin.elapsed().as_secs_f64();
        if now >= conditions.longest {
            running.iter_mut().for_each(Running::stop);
        }
        progress.tell(format_args!("{now:.0} s"));
        std::thread::sleep(PACE);
    }
    drop(hog);
    let outcomes = running.iter().zip(jobs);
    Ok(outcomes.map(|(one, job)| one.outcome(job)).collect())
}

struct Running {
    child: Child,
    begin: Instant,
    output: PathBuf,
    log: PathBuf,
    stopped: bool,
    ended: Option<End>,
}

struct End {
    status: ExitStatus,
    seconds: f64,
    resident: u64,
    faults: u64,
}

impl Running {
    fn start(ground: &Ground, job: &Job, name: &str) -> Result<Running> {
        let file = |path: &Path| File::create(path).map_err(Error::file("write", path));
        let output = ground.folder().join(format!("{name}.out"));
        let log = ground.folder().join(format!("{name}.log"));
        // What an earlier run noted is not this one's.
        let _ = std::fs::remove_file(&job.pauses);
        let mut command = Command::new(&job.command[0]);
        command
            .args(&job.command[1..])
            .envs(&job.env)
            .current_dir(ground.folder())
            .stdin(Stdio::null())
            .stdout(file(&output)?)
            .stderr(file(&log)?);
        end_with_us(&mut command);
        ground.enter(&mut command)?;
        if let Some(refused) = job.refused {
            refuse(&mut command, refused);
        }
        let begin = Instant::now();
        let child = command.spawn().map_err(Error::start(&command))?;
        Ok(Running {
            child,
            begin,
            output,
            log,
            stopped: false,
            ended: None,
        })
    }

    /// Whether it has; what it used is noted when it has.
    fn has_ended(&mut self) -> bool {
        if self.ended.is_some() {
            return true;
        }
        let mut status = 0;
        // SAFETY: a plain structure of numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: waits for our own child, which nobody has reaped; both places are ours.
        let reaped = unsafe {
            libc::wait4(
                self.child.id() as i32,
                &raw mut status,
                libc::WNOHANG,
                &raw mut usage,
            )
        };
        if reaped > 0 {
            self.ended = Some(End {
                status: ExitStatus::from_raw(status),
                seconds: self.begin.elapsed().as_secs_f64(),
                resident: usage.ru_maxrss as u64 * 1024,
                faults: usage.ru_majflt as u64,
            });
        }
        reaped > 0
    }

    fn stop(&mut self) {
        if !self.stopped && !self.has_ended() {
            self.stopped = true;
            let _ = self.child.kill();
        }
    }

    fn outcome(&self, job: &Job) -> Outcome {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
        let end = self.ended.as_ref().expect("asked when it has ended");
        let ending = match end.status.signal() {
            Some(_) if self.stopped => Ending::TooLong,
            Some(libc::SIGKILL) => Ending::Killed,
            None if end.status.success() => Ending::Finished,
            _ => Ending::Failed(format!("{}: {}", end.status, last(&read(&self.log)))),
        };
        Outcome {
            ending,
            seconds: end.seconds,
            resident: end.resident,
            faults: end.faults,
            pauses: Pauses::read(&read(&job.pauses)),
            said: last(&read(&self.output)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once it was reaped its number may be another's.
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: Ending, seconds: f64, pauses: &str) -> Outcome {
        Outcome {
            ending,
            seconds,
            resident: 10,
            faults: 1,
            pauses: Pauses::read(pauses),
            said: "{\"heap\":12,\"checksum\":345}".into(),
        }
    }

    #[test]
    fn numbers_are_found_however_they_are_quoted() {
        let mut outcome = outcome(Ending::Finished, 1.0, "");
        assert_eq!(outcome.told("checksum"), Some(345));
        outcome.said = "\"{\\\"checksum\\\":998394547}\"".into();
        assert_eq!(outcome.told("checksum"), Some(998_394_547));
        assert_eq!(outcome.told("heap"), None);
    }

    #[test]
    fn two_at_once_end_well_if_both_do() {
        let first = outcome(Ending::Finished, 2.0, "1 0.1 0\n");
        let second = outcome(Ending::Killed, 1.0, "0.5 0.2 3\n");
        let both = first.with(second);
        assert_eq!((both.ending, both.seconds), (Ending::Killed, 2.0));
        assert_eq!(
            (both.resident, both.faults, both.pauses.0.len()),
            (20, 2, 2)
        );
    }
}
