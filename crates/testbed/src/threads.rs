//! A program whose threads come and go.

use crate::memory::Memory;
use crate::options::Options;
use crate::programs::Reporter;
use std::io;
use std::time::Duration;

/// Most threads at one time.
const MAX_WIDTH: f64 = 64.0;

/// Generations of threads, each of which takes its memory and ends.
pub(crate) fn churn(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let width = options
        .number("width")?
        .unwrap_or(4.0)
        .clamp(1.0, MAX_WIDTH) as u64;
    let every = Duration::from_secs_f64(options.number("every")?.unwrap_or(0.0) / 1000.0);
    let mut reporter = Reporter::new(options)?;
    let mut rounds = 0;
    while !reporter.ended() {
        let take = || -> io::Result<()> {
            let mut memory = Memory::anonymous(bytes, false)?;
            memory.fill(0, bytes);
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..width).map(|_| scope.spawn(take)).collect();
            threads.into_iter().try_for_each(|thread| {
                let ended = thread.join();
                ended.map_err(|_| io::Error::other("a thread panicked"))?
            })
        })?;
        rounds += 1;
        reporter.report(bytes * width, rounds, true);
        std::thread::sleep(every);
    }
    reporter.report_now(bytes * width, rounds, false);
    Ok(())
}
