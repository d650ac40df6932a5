//! Jobs: programs that run to their end, and their outcomes.

use super::ground::Ground;
use super::interrupt;
use super::pauses::Pauses;
use crate::progress::Progress;
use crate::{Error, Result};
use plimsoll_testbed::children::{end_with_us, signal};
use plimsoll_testbed::{Refused, refuse};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at the running jobs.
const PACE: Duration = Duration::from_millis(2);

/// A program to run, and the file in which it notes its pauses.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The command: program and arguments.
    pub command: Vec<String>,
    /// Variables that are added to its environment.
    pub env: BTreeMap<String, String>,
    /// The file in which it notes its pauses.
    pub pauses: PathBuf,
    /// The system call that the kernel refuses it, if any.
    pub refused: Option<Refused>,
}

/// The conditions under which jobs run.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Limit of the cgroup that they share, bytes.
    pub limit: Option<u64>,
    /// The command of a program that takes memory in the same cgroup until all jobs have ended.
    pub beside: Option<Vec<String>>,
    /// Seconds after which jobs that still run are killed.
    pub longest: f64,
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It ended by itself, with success.
    #[default]
    Finished,
    /// The kernel killed it, because there was no memory for it.
    Killed,
    /// We killed it, because it took too long.
    TooLong,
    /// It ended by itself, with a failure: its status and the last line of its standard error.
    Failed(String),
}

/// Resources that a job used, besides memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds of processors, of the program and of its children that it waited for.
    pub processor: f64,
    /// Number of minor faults.
    pub minor: u64,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Largest resident memory, bytes.
    pub resident: u64,
    /// Number of major faults.
    pub faults: u64,
    /// Other resources that it used.
    pub usage: Usage,
    /// The pauses of its collections.
    pub pauses: Pauses,
    /// The last line that it wrote.
    pub said: String,
    /// Checksum (CRC-32) of all that it wrote to its standard output.
    pub printed: u32,
}

impl Outcome {
    /// A number that its last line gives under this name.
    pub fn told(&self, name: &str) -> Option<u64> {
        let (_, rest) = self.said.split_once(name)?;
        let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    }

    /// The outcome of two jobs that ran at the same time, taken together. It is good only if both are.
    pub fn with(self, other: Outcome) -> Outcome {
        Outcome {
            ending: match self.ending {
                Ending::Finished => other.ending,
                ending => ending,
            },
            seconds: self.seconds.max(other.seconds),
            resident: self.resident + other.resident,
            faults: self.faults + other.faults,
            usage: Usage {
                processor: self.usage.processor + other.usage.processor,
                minor: self.usage.minor + other.usage.minor,
            },
            pauses: self.pauses.merged(other.pauses),
            said: self.said,
            printed: self.printed,
        }
    }
}

/// Runs jobs at the same time, until all have ended.
///
/// # Errors
/// When something cannot be set up or started. Everything that was started by then is ended.
pub fn run(
    ground: &Ground,
    jobs: &[Job],
    conditions: &Conditions,
    progress: &Progress,
) -> Result<Vec<Outcome>> {
    run_watched(ground, jobs, conditions, progress, &mut |_| Ok(false))
}

/// As [`run`]. `look` is called every few milliseconds with the processes that were started for the jobs, and
/// says whether their work is done: jobs that serve others do not end by themselves. Then they are asked to
/// end (SIGTERM), and have finished at that time.
///
/// # Errors
/// As [`run`], and what `look` returns.
pub fn run_watched(
    ground: &Ground,
    jobs: &[Job],
    conditions: &Conditions,
    progress: &Progress,
    look: &mut dyn FnMut(&[u32]) -> Result<bool>,
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
    let pids: Vec<u32> = running.iter().map(|one| one.child.id()).collect();
    let begin = Instant::now();
    // Unlike `any`, this looks at every job, because looking at a job notes the time of its end.
    while running
        .iter_mut()
        .fold(false, |any, one| !one.has_ended() | any)
    {
        interrupt::check()?;
        let now = begin.elapsed().as_secs_f64();
        if now >= conditions.longest {
            running.iter_mut().for_each(Running::stop);
        }
        if look(&pids)? {
            running.iter_mut().for_each(Running::finish);
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
    /// Seconds from its start to when its work was done, if it does not end by itself.
    done: Option<f64>,
    ended: Option<End>,
}

struct End {
    status: ExitStatus,
    seconds: f64,
    resident: u64,
    faults: u64,
    usage: Usage,
}

impl Running {
    fn start(ground: &Ground, job: &Job, name: &str) -> Result<Running> {
        let file = |path: &Path| File::create(path).map_err(Error::file("write", path));
        let output = ground.folder().join(format!("{name}.out"));
        let log = ground.folder().join(format!("{name}.log"));
        // An earlier run may have left its notes there.
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
            done: None,
            ended: None,
        })
    }

    /// Whether the program has ended. If it has, its status and its use of resources are noted.
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
                usage: Usage {
                    processor: seconds(usage.ru_utime) + seconds(usage.ru_stime),
                    minor: usage.ru_minflt as u64,
                },
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

    /// Asks it to end, because its work is done.
    fn finish(&mut self) {
        if self.done.is_none() && !self.stopped && !self.has_ended() {
            self.done = Some(self.begin.elapsed().as_secs_f64());
            signal(self.child.id(), Signal::TERM);
        }
    }

    fn outcome(&self, job: &Job) -> Outcome {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let printed = std::fs::read(&self.output).unwrap_or_default();
        let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
        let end = self.ended.as_ref().expect("asked when it has ended");
        let ending = match end.status.signal() {
            _ if self.done.is_some() => Ending::Finished,
            Some(_) if self.stopped => Ending::TooLong,
            Some(libc::SIGKILL) => Ending::Killed,
            None if end.status.success() => Ending::Finished,
            _ => Ending::Failed(format!("{}: {}", end.status, last(&read(&self.log)))),
        };
        Outcome {
            ending,
            seconds: self.done.unwrap_or(end.seconds),
            resident: end.resident,
            faults: end.faults,
            usage: end.usage,
            pauses: Pauses::read(&read(&job.pauses)),
            said: last(&String::from_utf8_lossy(&printed)),
            printed: crc32fast::hash(&printed),
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once the process was reaped, its id may belong to another process.
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
            usage: Usage {
                processor: 0.5,
                minor: 7,
            },
            pauses: Pauses::read(pauses),
            said: "{\"heap\":12,\"checksum\":345}".into(),
            printed: 0,
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
        let first = outcome(Ending::Finished, 2.0, "1 0.1 0 1\n");
        let second = outcome(Ending::Killed, 1.0, "0.5 0.2 3 1\n");
        let both = first.with(second);
        assert_eq!((both.ending, both.seconds), (Ending::Killed, 2.0));
        assert_eq!(
            (both.resident, both.faults, both.pauses.0.len()),
            (20, 2, 2)
        );
        assert_eq!((both.usage.processor, both.usage.minor), (1.0, 14));
    }
}
