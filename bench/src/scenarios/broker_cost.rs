//! What the broker costs: memory, idle processor time, how soon a subscriber wakes, how dear a look
//! at the page is.

use super::Options;
use crate::harness::broker::Broker;
use crate::harness::mapped::Mapped;
use crate::harness::processor::processor_ns;
use crate::harness::runner::{end, end_with_us};
use crate::report::results::Results;
use crate::report::statistics::{quantile, spread};
use plimsoll_client::{Connection, Stream};
use plimsoll_kernel::clock::now_ns;
use plimsoll_wire::messages::{Adapter, Changed, Id, Name, Register, Set};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const PRINCIPALS: usize = 100;
/// After its start the broker is left alone for so long.
const SETTLE: Duration = Duration::from_secs(30);
/// And is watched doing nothing for so long.
const IDLE: Duration = Duration::from_secs(20);
/// Weight changes whose echo is timed; each wakes every subscriber.
const CHANGES: usize = 40;
const READS: u32 = 20_000_000;

/// Runs the measurement.
///
/// # Errors
/// A sentence on what could not be set up or started.
pub fn measure(options: &Options) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("plimsoll-bench-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let mut figures: [Vec<f64>; 5] = Default::default();
    for repetition in 1..=options.repeat {
        eprint!("\rbroker-cost, {repetition} of {}   ", options.repeat);
        let found = once(&folder)?;
        for (all, one) in figures.iter_mut().zip(found) {
            all.push(one);
        }
    }
    eprint!("\r{:60}\r", "");
    let _ = std::fs::remove_dir_all(&folder);
    report(&figures, options.repeat)
        .save()
        .map_err(|e| e.to_string())
}

fn report(figures: &[Vec<f64>; 5], repeat: usize) -> Results {
    let mut results = Results::new(
        "broker-cost",
        "What the broker costs with 100 principals.",
        "Hundred sleeping processes are principals, hundred subscribers wait. Idle: processor time of \
         all its threads in 20 s, 30 s after the last came. Wake-up: from \
         the time that the broker wrote into the page to the return of the subscriber's poll, for 40 \
         changes of a weight that each wake all.",
        repeat,
    )
    .columns(&[("figure", ""), ("min", ""), ("median", ""), ("max", ""), ("unit", "")]);
    let names = [
        ("resident memory", "MiB"),
        ("idle processor time", "% of one core"),
        ("wake-up, median", "µs"),
        ("wake-up, p99", "µs"),
        ("reading the page", "ns"),
    ];
    let spreads = figures.each_ref().map(|f| spread(f));
    for ((name, unit), s) in names.iter().zip(spreads) {
        results.row([
            (*name).into(),
            s.min.into(),
            s.median.into(),
            s.max.into(),
            (*unit).into(),
        ]);
    }
    let [resident, idle, _, p99, read] = spreads.map(|s| s.median);
    results.target(
        "at most 6 MiB resident",
        format!("{resident:.1} MiB"),
        resident <= 6.0,
    );
    results.target(
        "below 0.1 % of one core, idle",
        format!("{idle:.3} %"),
        idle < 0.1,
    );
    results.target(
        "wake-up below 1 ms at p99",
        format!("{p99:.0} µs"),
        p99 < 1000.0,
    );
    results.target(
        "reading the page below 10 ns",
        format!("{read:.1} ns"),
        read < 10.0,
    );
    results
}

/// Resident MiB, idle percent, median and p99 of the wake-up in µs, ns a read.
fn once(folder: &Path) -> Result<[f64; 5], String> {
    let broker = Broker::start(folder, None)?;
    let mut sleepers = Sleepers(Vec::new());
    let mut owners = Vec::new();
    for index in 0..PRINCIPALS {
        let mut command = Command::new("sleep");
        command.arg("3600");
        end_with_us(&mut command);
        let child = command
            .spawn()
            .map_err(|e| format!("cannot start sleep: {e}"))?;
        let pid = Some(child.id());
        sleepers.0.push(child);
        let mut connection = broker.connect()?;
        let register = Register {
            name: Name::mend(&format!("idle-{index}")),
            pid,
            adapter: Adapter::new("self").ok(),
            ..Register::default()
        };
        let registered = connection.register(&register).map_err(|e| e.to_string())?;
        owners.push((connection, registered));
    }
    let ids: Vec<Id> = owners.iter().map(|(_, registered)| registered.id).collect();
    let mut streams = Vec::new();
    for id in &ids {
        streams.push(
            broker
                .connect()?
                .subscribe(*id)
                .map_err(|e| e.to_string())?,
        );
    }
    // The limits settle, and each process has been sampled once.
    std::thread::sleep(SETTLE);
    let before = processor_ns(broker.pid());
    std::thread::sleep(IDLE);
    let idle = (processor_ns(broker.pid()) - before) as f64 / IDLE.as_nanos() as f64 * 100.0;
    let resident = resident_mib(broker.pid());
    let mut pages = Vec::new();
    for (_, registered) in &owners {
        pages.push(Mapped::open(Path::new(&registered.page)).map_err(|e| e.to_string())?);
    }
    let latencies = wake(&mut broker.connect()?, ids[0], &mut streams, &pages)?;
    let read = read_ns(&pages[0]);
    let micros = |q| quantile(&latencies, q) / 1000.0;
    Ok([resident, idle, micros(0.5), micros(0.99), read])
}

struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            end(child, Duration::from_secs(1));
        }
    }
}

/// Nanoseconds from publication to wake-up.
fn wake(
    control: &mut Connection,
    id: Id,
    streams: &mut [Stream<Changed>],
    pages: &[Mapped],
) -> Result<Vec<f64>, String> {
    let mut latencies = Vec::new();
    drain(streams)?;
    for change in 0..CHANGES {
        let weight = Some(if change % 2 == 0 { 10_000 } else { 100 });
        control
            .set(&Set {
                id,
                weight,
                ..Set::default()
            })
            .map_err(|e| e.to_string())?;
        latencies.extend(arrivals(streams, pages)?);
        drain(streams)?;
    }
    // The slowest hundredth is asked for: as many that never came would make it look better.
    if latencies.len() < CHANGES * streams.len() / 100 * 99 {
        return Err(format!(
            "only {} wake-ups for {CHANGES} changes of {} subscribers",
            latencies.len(),
            streams.len()
        ));
    }
    Ok(latencies)
}

/// For each stream that gets something before a quiet time: how long after the publication its poll
/// returned. What came is read only afterwards, so that reading it does not delay the others.
fn arrivals(streams: &[Stream<Changed>], pages: &[Mapped]) -> Result<Vec<f64>, String> {
    const QUIET: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 300_000_000,
    };
    let mut waiting: Vec<usize> = (0..streams.len()).collect();
    let mut latencies = Vec::new();
    while !waiting.is_empty() {
        let borrow =
            |index: &usize| PollFd::from_borrowed_fd(streams[*index].as_fd(), PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = waiting.iter().map(borrow).collect();
        let ready = poll(&mut fds, Some(&QUIET)).map_err(|e| e.to_string())?;
        let now = now_ns();
        if ready == 0 {
            break;
        }
        let came: Vec<bool> = fds
            .iter()
            .map(|fd| fd.revents().contains(PollFlags::IN))
            .collect();
        for (index, _) in waiting.iter().zip(&came).filter(|(_, came)| **came) {
            let page = pages[*index].view().read();
            let published = page.ok_or("a page cannot be read")?.heartbeat;
            latencies.push(now.saturating_sub(published) as f64);
        }
        let mut came = came.into_iter();
        waiting.retain(|_| !came.next().unwrap_or(false));
    }
    Ok(latencies)
}

fn drain(streams: &mut [Stream<Changed>]) -> Result<(), String> {
    for stream in streams {
        while stream
            .next(Duration::ZERO)
            .map_err(|e| e.to_string())?
            .is_some()
        {}
    }
    Ok(())
}

fn read_ns(page: &Mapped) -> f64 {
    let view = page.view();
    let start = now_ns();
    let mut sum = 0u64;
    for _ in 0..READS {
        sum = sum.wrapping_add(
            std::hint::black_box(&view)
                .read()
                .map_or(0, |reading| reading.numbers.limit),
        );
    }
    std::hint::black_box(sum);
    (now_ns() - start) as f64 / f64::from(READS)
}

fn resident_mib(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|value| value.split_whitespace().next())
        .and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
