//! The programs of `plimsoll-misbehave`, and of test binaries that start themselves again. Each
//! prints a line of JSON now and then (see [`Progress`]), and ends on SIGTERM with a last line.
//!
//! ```text
//! hog   --bytes N [--rate R] [--hold SECONDS] [--release-rate R] [--delay SECONDS]
//!       [--lock] [--huge] [--repeat N]
//!       takes N bytes at R bytes a second (all at once without), holds them (for ever without), gives
//!       them back at a rate, ends
//! touch --bytes N [--part 0.3] [--every MS] [--read] [--huge]
//!       takes N bytes and touches that part of them over and over
//! share --path FILE --bytes N [--rate R] [--on MS --off MS] [--read] [--private] [--untouched]
//!       maps a file together with others and touches each page R times a second on average, in bursts
//!       if asked; only for reading, in a mapping of its own, or never, if asked
//! share --path FILE --bytes N --unpaced
//!       the same as fast as it can; a round is as many touches as there are pages
//! mix   --path FILE --bytes N [--part 0.5] [--stream] [--delay SECONDS]
//!       takes N bytes and touches random pages of them and of the file, that part of the touches in the
//!       file; or reads on in the file for each touch of the bytes; a round is 1000 touches
//! pages --path FILE --bytes N [--part 0.3] [--every MS]
//!       maps that much of a file for random reading, and reads a byte of each page of that part of it
//!       over and over
//! stream --path FILE [--rate R]
//!       reads a file from beginning to end over and over, R bytes a second
//! shift --path FILE
//!       maps two pages of a file, writes to the first one over and over, and changes the rights of the
//!       second one meanwhile. When the file system stands still, so does whoever needs the program's
//!       mmap lock
//! lock  --path LIST
//!       locks all pages of the files that LIST names, one a line, and holds them
//! churn --bytes N [--width 4] [--every MS]
//!       starts that many threads, each of which takes N bytes and ends, over and over; a round is a
//!       generation of them
//! tree  --depth D --width W
//!       starts W children that each start W more, D levels deep, and waits
//! ```
//! Sizes take K, M, G (powers of 1024). `--report MS` sets how often they print (100 ms).

use crate::Progress;
use crate::children::signal;
use crate::memory::Memory;
use crate::options::Options;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::{Faults, Process, page_size};
use plimsoll_unit::float::SECOND;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(2);
/// A hog without a rate takes this much between two looks at the clock.
const CHUNK: u64 = 8 << 20;

/// The variable that tells a test binary which program to run, with arguments; see
/// [`run_as_asked`].
pub const VARIABLE: &str = "PLIMSOLL_TEST_PROGRAM";

/// The body of a test that checks nothing. If [`VARIABLE`] is set, this binary was started again
/// (see [`crate::Child::start_again`]) to run the program named there, and ends with that program.
pub fn run_as_asked() {
    let Ok(line) = std::env::var(VARIABLE) else {
        return;
    };
    let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    std::process::exit(i32::from(!ends_well(&arguments)));
}

/// A command that starts this binary again, with other arguments for the program.
fn again(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    match std::env::var_os(VARIABLE) {
        Some(_) => command
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, arguments.join(" ")),
        None => command.args(arguments),
    };
    Ok(command)
}

/// Runs the program that the arguments (without the binary's own name) name.
pub fn run(arguments: &[String]) -> ExitCode {
    if ends_well(arguments) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs it; where that fails, says why on standard error.
fn ends_well(arguments: &[String]) -> bool {
    let result = Options::parse(arguments).and_then(|options| match options.program.as_str() {
        "hog" => hog(&options),
        "touch" => touch(&options),
        "share" => share(&options),
        "mix" => mix(&options),
        "pages" => crate::files::pages(&options),
        "stream" => crate::files::stream(&options),
        "shift" => crate::files::shift(&options),
        "lock" => lock(&options),
        "churn" => crate::threads::churn(&options),
        "tree" => tree(&options),
        other => Err(io::Error::other(format!(
            "there is no program `{other}`: give hog, touch, share, mix, pages, stream, \
             shift, lock, churn or tree"
        ))),
    });
    if let Err(e) = &result {
        // Standard error may be closed; there is nobody else to tell.
        let _ = writeln!(io::stderr(), "plimsoll-misbehave: {e}");
    }
    result.is_ok()
}

/// Prints now and then, and knows when to end.
pub(crate) struct Reporter {
    end: Arc<AtomicBool>,
    own: Option<Process>,
    every_ns: u64,
    next_ns: u64,
    /// Major faults within the rounds of `touch` so far.
    faults_in_use: u64,
}

impl Reporter {
    pub(crate) fn new(options: &Options) -> io::Result<Reporter> {
        let end = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&end))?;
        signal_hook::flag::register(SIGINT, Arc::clone(&end))?;
        let every_ms = options.number("report")?.unwrap_or(100.0);
        Ok(Reporter {
            end,
            own: Process::own().ok(),
            every_ns: (every_ms * 1e6) as u64,
            next_ns: 0,
            faults_in_use: 0,
        })
    }

    fn faults(&self) -> Faults {
        let faults = self.own.as_ref().and_then(|own| own.faults().ok());
        faults.unwrap_or_default()
    }

    /// Does one round of touches, and counts its major faults.
    fn round(&mut self, touches: impl FnOnce()) {
        let before = self.faults().major;
        touches();
        self.faults_in_use += self.faults().major - before;
    }

    pub(crate) fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Prints when it is time. A reader that went away ends the program.
    pub(crate) fn report(&mut self, bytes: u64, rounds: u64, holding: bool) {
        if clock::now().0 >= self.next_ns {
            self.report_now(bytes, rounds, holding);
        }
    }

    pub(crate) fn report_now(&mut self, bytes: u64, rounds: u64, holding: bool) {
        let now = clock::now().0;
        self.next_ns = now + self.every_ns;
        let faults = self.faults();
        let (major_faults, minor_faults) = (faults.major, faults.minor);
        let progress = Progress {
            time_ns: now,
            bytes,
            major_faults,
            minor_faults,
            processor_ns: clock::thread_cpu().0,
            rounds,
            faults_in_use: self.faults_in_use,
            holding,
        };
        let mut out = io::stdout().lock();
        if writeln!(out, "{}", progress.to_json())
            .and_then(|()| out.flush())
            .is_err()
        {
            self.end.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for this many seconds and goes on printing. Returns false if the program is to end.
    pub(crate) fn wait(&mut self, seconds: f64, bytes: u64, rounds: u64, holding: bool) -> bool {
        let end = clock::now().0.saturating_add((seconds * SECOND) as u64);
        while clock::now().0 < end && !self.ended() {
            self.report(bytes, rounds, holding);
            std::thread::sleep(
                TICK.max(Duration::from_nanos(self.every_ns / 4))
                    .min(Duration::from_millis(20)),
            );
        }
        !self.ended()
    }
}

/// The bytes due after `elapsed_ns` at a rate (bytes a second), in whole pages.
fn due(total: u64, rate: Option<f64>, elapsed_ns: u64, done: u64) -> u64 {
    let due = match rate {
        Some(rate) => (rate * (elapsed_ns as f64 / SECOND)) as u64,
        None => done + CHUNK,
    };
    (due / page_size() * page_size()).min(total)
}

fn hog(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let (rate, release) = (options.number("rate")?, options.number("release-rate")?);
    let hold = options.number("hold")?;
    let repeat = options.number("repeat")?.unwrap_or(1.0) as u64;
    let mut reporter = Reporter::new(options)?;
    let mut memory = Memory::anonymous(bytes, options.has("huge"))?;
    let mut held = 0;
    for _ in 0..repeat {
        if !reporter.wait(options.number("delay")?.unwrap_or(0.0), 0, 0, false) {
            break;
        }
        let start = clock::now().0;
        while held < bytes && !reporter.ended() {
            let to = due(bytes, rate, clock::now().0 - start, held).min(held + CHUNK);
            if to > held {
                memory.fill(held, to);
                if options.has("lock") {
                    memory.lock(held, to)?;
                }
                held = to;
            } else {
                std::thread::sleep(TICK);
            }
            reporter.report(held, 0, false);
        }
        reporter.report_now(held, 0, held == bytes);
        if !reporter.wait(hold.unwrap_or(1e9), held, 0, true) {
            break;
        }
        let start = clock::now().0;
        let mut given = 0;
        while given < bytes && !reporter.ended() {
            let to = due(bytes, release, clock::now().0 - start, given);
            if to > given {
                memory.give_back(given, to)?;
                given = to;
                held = bytes - given;
            } else {
                std::thread::sleep(TICK);
            }
            reporter.report(held, 0, false);
        }
    }
    reporter.report_now(held, 0, false);
    Ok(())
}

fn touch(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let part = options.number("part")?.unwrap_or(1.0).min(1.0);
    let every = options.number("every")?.unwrap_or(100.0) / 1000.0;
    let write = !options.has("read");
    let mut reporter = Reporter::new(options)?;
    let mut memory = Memory::anonymous(bytes, options.has("huge"))?;
    for from in (0..bytes).step_by(CHUNK as usize) {
        memory.fill(from, (from + CHUNK).min(bytes));
        reporter.report(from, 0, false);
        if reporter.ended() {
            return Ok(());
        }
    }
    let page = page_size();
    let touched = (bytes as f64 * part) as u64 / page * page;
    let mut rounds = 0;
    loop {
        reporter.round(|| {
            for at in (0..touched).step_by(page as usize) {
                memory.touch(at, write);
            }
        });
        rounds += 1;
        reporter.report(bytes, rounds, true);
        if !reporter.wait(every, bytes, rounds, true) {
            reporter.report_now(bytes, rounds, false);
            return Ok(());
        }
    }
}

fn share(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let path = options
        .values
        .get("path")
        .ok_or_else(|| io::Error::other("`--path` is missing: which file to map"))?;
    let rate = options.number("rate")?.unwrap_or(1.0);
    let (on, off) = (
        options.number("on")?.unwrap_or(0.0),
        options.number("off")?.unwrap_or(0.0),
    );
    let mut reporter = Reporter::new(options)?;
    let write = !options.has("read");
    let mut memory = if write {
        Memory::shared(path, bytes)?
    } else {
        Memory::readable(path, bytes, options.has("private"))?
    };
    if options.has("untouched") {
        reporter.report_now(bytes, 0, true);
        reporter.wait(1e9, bytes, 0, true);
        return Ok(());
    }
    if let Some(seed) = options.number("seed")? {
        memory.state = seed as u64 | 1;
    }
    let page = page_size();
    let pages = bytes / page;
    // Touch all pages first. Otherwise a fault would map neighbours too, which would count as
    // touched.
    for at in (0..bytes).step_by(page as usize) {
        memory.touch(at, write);
    }
    if options.has("unpaced") {
        return share_unpaced(&mut memory, &mut reporter, bytes);
    }
    let start = clock::now().0;
    // Touches fall due one by one at random pages, which gives a Poisson process.
    let mut done = 0u64;
    while !reporter.ended() {
        let elapsed = clock::now().0 - start;
        let due = (rate * pages as f64 * (elapsed as f64 / SECOND)) as u64;
        let bursting = on > 0.0 && off > 0.0;
        let in_burst = (elapsed as f64 / 1e6) % (on + off).max(1e-9) < on;
        if !bursting || in_burst {
            for _ in done..due {
                let at = memory.random() % pages * page;
                memory.touch(at, write);
            }
        }
        // Touches that fell due in a pause are not made up for.
        done = due;
        reporter.report(bytes, done / pages.max(1), true);
        std::thread::sleep(TICK);
    }
    reporter.report_now(bytes, done / pages.max(1), false);
    Ok(())
}

/// Touches random pages until it is to end. Reports only between rounds, so that reports are exact.
fn share_unpaced(memory: &mut Memory, reporter: &mut Reporter, bytes: u64) -> io::Result<()> {
    let page = page_size();
    let pages = bytes / page;
    let mut rounds = 0;
    while !reporter.ended() {
        for _ in 0..pages {
            let at = memory.random() % pages * page;
            memory.touch(at, true);
        }
        rounds += 1;
        reporter.report(bytes, rounds, true);
    }
    reporter.report_now(bytes, rounds, false);
    Ok(())
}

fn lock(options: &Options) -> io::Result<()> {
    let list = options
        .values
        .get("path")
        .ok_or_else(|| io::Error::other("`--path` is missing: which file names the files"))?;
    let mut reporter = Reporter::new(options)?;
    let mut held = Vec::new();
    let mut bytes = 0;
    for path in std::fs::read_to_string(list)?.lines() {
        if reporter.ended() {
            break;
        }
        let memory = Memory::whole_file(path)?;
        memory.lock(0, memory.bytes())?;
        bytes += memory.bytes();
        held.push(memory);
        reporter.report(bytes, 0, false);
    }
    reporter.report_now(bytes, 0, true);
    reporter.wait(1e9, bytes, 0, true);
    Ok(())
}

fn mix(options: &Options) -> io::Result<()> {
    let bytes = options.bytes()?;
    let path = options
        .values
        .get("path")
        .ok_or_else(|| io::Error::other("`--path` is missing: which file to read"))?;
    let part = options.number("part")?.unwrap_or(0.5);
    let mut reporter = Reporter::new(options)?;
    reporter.wait(options.number("delay")?.unwrap_or(0.0), 0, 0, false);
    let file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut memory = Memory::anonymous(bytes, false)?;
    memory.fill(0, bytes);
    let mapped = Memory::file(path, length)?;
    let page = page_size();
    let (mut rounds, mut at, mut buffer) = (0, 0, vec![0; 64 << 10]);
    while !reporter.ended() {
        for _ in 0..1000 {
            let place = memory.random();
            let in_file = (memory.random() % 1_000_000) as f64 >= (1.0 - part) * 1e6;
            if in_file && !options.has("stream") {
                mapped.touch(place % (length / page) * page, false);
            } else {
                memory.touch(place % (bytes / page) * page, place & 1 << 40 != 0);
            }
        }
        if options.has("stream") {
            rustix::io::pread(&file, &mut buffer, at)?;
            at = (at + buffer.len() as u64) % length;
        }
        rounds += 1;
        reporter.report(bytes, rounds, true);
    }
    reporter.report_now(bytes, rounds, false);
    Ok(())
}

fn tree(options: &Options) -> io::Result<()> {
    let depth = options.number("depth")?.unwrap_or(1.0) as u32;
    let width = options.number("width")?.unwrap_or(1.0).min(100.0) as u32;
    let mut reporter = Reporter::new(options)?;
    // Nobody is left behind when a test is killed.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let mut children = Vec::new();
    if depth > 0 {
        let (next, width_again) = ((depth - 1).to_string(), width.to_string());
        for _ in 0..width {
            let mut command = again(&["tree", "--depth", &next, "--width", &width_again])?;
            children.push(command.stdout(std::process::Stdio::null()).spawn()?);
        }
    }
    reporter.wait(1e9, 0, 0, true);
    for mut child in children {
        signal(child.id(), rustix::process::Signal::TERM);
        child.wait()?;
    }
    Ok(())
}
