//! The costs of a switch of threads and of a contention for a lock: two threads of one processor hand a
//! token to each other, by pipes and by a futex.
//!
//! Time is that of the processor, so what other programs do in between is not in it. The time of a switch
//! itself is in it: the kernel charges it to the thread that comes.

use crate::error::LabError;
use plimsoll_kernel::clock;
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the token goes there and back.
const ROUNDS: u32 = 5_000;

/// Nanoseconds of a switch, and of what a contention costs beyond the switches that it leads to: the calls
/// that wait for a lock and wake what waits.
///
/// # Errors
/// The kernel gives no pipe or no thread, or lets no thread stay on one processor.
pub(super) fn measure() -> Result<[f64; 2], LabError> {
    let alone = pipe_alone()?;
    let switch = (pipe_between()? - alone).max(0.0);
    let contention = (futex_between()? - switch).max(0.0);
    Ok([switch, contention])
}

/// A byte into a pipe and out of it, in one thread.
fn pipe_alone() -> Result<f64, LabError> {
    let (read, write) = pipe().map_err(LabError::system("pipe"))?;
    let before = clock::process_cpu().0;
    for _ in 0..2 * ROUNDS {
        put(&write)?;
        take(&read)?;
    }
    Ok(each(before))
}

/// Nanoseconds of processor time since `before`, for each time that the token changes hands.
fn each(before: u64) -> f64 {
    (clock::process_cpu().0 - before) as f64 / f64::from(2 * ROUNDS)
}

fn put(pipe: &OwnedFd) -> Result<(), LabError> {
    rustix::io::write(pipe, &[1]).map_err(LabError::system("write to a pipe"))?;
    Ok(())
}

fn take(pipe: &OwnedFd) -> Result<(), LabError> {
    // At the end of the pipe the other thread has failed, and says why.
    rustix::io::read(pipe, &mut [0]).map_err(LabError::system("read from a pipe"))?;
    Ok(())
}

/// The token goes through pipes: each time, one thread writes, and waits.
fn pipe_between() -> Result<f64, LabError> {
    let there = pipe().map_err(LabError::system("pipe"))?;
    let back = pipe().map_err(LabError::system("pipe"))?;
    let (read, write) = (back.0, there.1);
    let other = move || -> Result<(), LabError> {
        for _ in 0..ROUNDS {
            take(&there.0)?;
            put(&back.1)?;
        }
        Ok(())
    };
    let this = move || -> Result<(), LabError> {
        for _ in 0..ROUNDS {
            put(&write)?;
            take(&read)?;
        }
        Ok(())
    };
    between(this, other)
}

/// The token is a futex: each time, one thread wakes the other one, and waits.
fn futex_between() -> Result<f64, LabError> {
    let token = Arc::new(AtomicU32::new(0));
    let player = |mine: u32| {
        let token = Arc::clone(&token);
        move || -> Result<(), LabError> {
            for _ in 0..ROUNDS {
                while token.load(Ordering::Acquire) != mine {
                    // It returns at once where the token has come already.
                    let _ = futex::wait(&token, futex::Flags::PRIVATE, 1 - mine, None);
                }
                token.store(1 - mine, Ordering::Release);
                futex::wake(&token, futex::Flags::PRIVATE, 1).map_err(LabError::system("futex"))?;
            }
            Ok(())
        }
    };
    between(player(0), player(1))
}

/// Runs two threads on one processor. Returns nanoseconds for each time that the token changes hands.
fn between(
    this: impl FnOnce() -> Result<(), LabError> + Send + 'static,
    other: impl FnOnce() -> Result<(), LabError> + Send + 'static,
) -> Result<f64, LabError> {
    let allowed = sched_getaffinity(None).map_err(LabError::system("sched_getaffinity"))?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    let mut one = CpuSet::new();
    one.set(first.unwrap_or(0));
    // Nothing here may fail once one of them waits for the other.
    let pair = move || -> Result<f64, LabError> {
        sched_setaffinity(None, &one).map_err(LabError::system("sched_setaffinity"))?;
        let before = clock::process_cpu().0;
        // It stays where its creator does.
        let other = std::thread::Builder::new()
            .spawn(other)
            .map_err(LabError::system("a thread"))?;
        let (this, other) = (this(), other.join());
        this.and(other.unwrap_or_else(|_| Err(panicked())))?;
        Ok(each(before))
    };
    let pair = std::thread::Builder::new()
        .spawn(pair)
        .map_err(LabError::system("a thread"))?;
    pair.join().unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> LabError {
    LabError::Simulation("a measuring thread panicked".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_and_goes() {
        let [switch, contention] = measure().unwrap();
        assert!(switch.is_finite() && contention.is_finite());
    }
}
