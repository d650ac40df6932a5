//! Programs that read files, and one that writes to a file.

use crate::memory::Memory;
use crate::options::Options;
use crate::programs::Reporter;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use rustix::mm::{MprotectFlags, mprotect};
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that are read in one call.
const PIECE: usize = 256 << 10;

/// Reads pages of a mapped file over and over.
pub(crate) fn pages(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let part = options.number("part")?.unwrap_or(1.0).min(1.0);
    let every = options.number("every")?.unwrap_or(10.0) / 1000.0;
    let mut reporter = Reporter::new(options)?;
    let memory = Memory::file(path(options)?, bytes)?;
    let page = page_size();
    let read = (bytes as f64 * part) as u64 / page * page;
    let mut rounds = 0;
    loop {
        for at in (0..read).step_by(page as usize) {
            memory.touch(at, false);
        }
        rounds += 1;
        reporter.report(read, rounds, true);
        if !reporter.wait(every, read, rounds, true) {
            reporter.report_now(read, rounds, false);
            return Ok(());
        }
    }
}

/// Reads a file from beginning to end over and over.
pub(crate) fn stream(options: &Options) -> io::Result<()> {
    let rate = options.number("rate")?.unwrap_or(f64::INFINITY);
    let mut reporter = Reporter::new(options)?;
    let mut file = File::open(path(options)?)?;
    let mut buffer = vec![0; PIECE];
    let (start, mut bytes, mut rounds) = (clock::now().0, 0u64, 0);
    while !reporter.ended() {
        match file.read(&mut buffer)? {
            0 => {
                file.rewind()?;
                rounds += 1;
            }
            count => bytes += count as u64,
        }
        reporter.report(bytes, rounds, true);
        while bytes as f64 > rate * ((clock::now().0 - start) as f64 / 1e9) && !reporter.ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    reporter.report_now(bytes, rounds, false);
    Ok(())
}

/// Writes to one page of a file while another thread changes the rights of the next page. If the file
/// system is frozen, the write waits in its page fault, and with it the change of rights, which has
/// the mmap lock by then.
pub(crate) fn shift(options: &Options) -> io::Result<()> {
    let mut reporter = Reporter::new(options)?;
    let page = page_size();
    let memory = Memory::shared(path(options)?, 2 * page)?;
    let (start, end) = (memory.address() as usize, Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&end);
    let changer = std::thread::spawn(move || {
        let (second, size) = ((start + page as usize) as *mut c_void, page as usize);
        let rights = [
            MprotectFlags::READ | MprotectFlags::WRITE,
            MprotectFlags::READ,
        ];
        for rights in rights.iter().cycle() {
            // SAFETY: the page is mapped until this thread was joined, and nobody touches it.
            let changed = unsafe { mprotect(second, size, *rights) };
            if changed.is_err() || ended.load(Ordering::Relaxed) {
                return changed;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let mut rounds = 0;
    while !reporter.ended() {
        memory.touch(0, true);
        rounds += 1;
        reporter.report(2 * page, rounds, true);
        std::thread::sleep(Duration::from_millis(1));
    }
    end.store(true, Ordering::Relaxed);
    let changed = changer.join();
    changed.map_err(|_| io::Error::other("the thread panicked"))??;
    reporter.report_now(2 * page, rounds, false);
    Ok(())
}

fn path(options: &Options) -> io::Result<&str> {
    let missing = || io::Error::other("`--path` is missing: which file to read");
    Ok(options.values.get("path").ok_or_else(missing)?)
}
