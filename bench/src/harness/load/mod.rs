//! Load on HTTP servers at a fixed rate, whatever the answers (an *open loop*).
//!
//! A request is due at a time that does not depend on earlier answers. Its latency counts from then,
//! so the time that it waits for a free connection is part of it. A generator that sends the next
//! request only after an answer would hide that wait.
//!
//! - `http`: the least of HTTP/1.1 that keeps a connection open.

mod http;

use super::interrupt;
use crate::{Error, Result};
use http::Connection;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread sleeps or waits for an answer before it looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before a connection that failed is opened again.
const RETRY: Duration = Duration::from_millis(200);
/// How long [`answers`] waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most requests to one server. At the rates used here no run reaches it.
const MOST: usize = 1_000_000;

/// The page to ask for, the servers to ask, and how often.
#[derive(Clone, Debug)]
pub struct Rate {
    /// The servers.
    pub servers: Vec<SocketAddr>,
    /// Path of the page that is asked for, with its slash.
    pub path: String,
    /// Requests a second, to all servers together. Each gets the same part.
    pub per_second: f64,
    /// Connections to each server: as many requests as it may work on at once.
    pub connections: usize,
}

/// A load that goes on until it is dropped.
#[derive(Debug)]
pub struct Load {
    begin: Instant,
    servers: Vec<Arc<Server>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The results of the requests that were due in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Length of the window, seconds.
    pub seconds: f64,
    /// Good answers that arrived in the window, whenever their requests were due.
    pub answers: u64,
    /// Requests due in the window that failed: no connection, or another status than 200.
    pub failed: u64,
    /// Requests due in the window that were not answered by its end.
    pub open: u64,
    /// Seconds from when each request of the window was due to its answer. For an open request, the
    /// time that it has waited so far, which is too little. Failed requests are left out.
    pub latencies: Vec<f64>,
}

/// Whether a server gives a good answer within a few seconds.
pub fn answers(server: SocketAddr, path: &str) -> bool {
    let begin = Instant::now();
    let late = || begin.elapsed() > PATIENCE;
    let answer = Connection::open(server, LOOK)
        .and_then(|mut connection| connection.ask(&http::request(path, server), late));
    answer.is_ok_and(|answer| answer.status == 200)
}

/// An address that nobody listened at a moment ago.
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map_err(|e| Error::program("a server", format!("no free port: {e}")))
}

/// Asks a server for a page on several connections: the given number of times on each, one request after
/// another.
///
/// # Errors
/// When a request gets no good answer, or a signal came.
pub fn ask(server: SocketAddr, path: &str, connections: usize, each: u32) -> Result<()> {
    let request = http::request(path, server);
    let one = || -> Result<()> {
        let failed = |source| Error::NoAnswer { server, source };
        let mut connection = None;
        for _ in 0..each {
            interrupt::check()?;
            let mut open = match connection.take() {
                Some(open) => open,
                None => Connection::open(server, LOOK).map_err(failed)?,
            };
            let answer = open.ask(&request, || interrupt::check().is_err());
            let answer = answer.map_err(failed)?;
            if answer.status != 200 {
                let what = format!("status {}", answer.status);
                return Err(Error::program("the server under load", what));
            }
            connection = answer.keep.then_some(open);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.unwrap_or(Err(Error::Panicked("the load"))))
    })
}

impl Window {
    /// Good answers a second.
    pub fn throughput(&self) -> f64 {
        self.answers as f64 / self.seconds.max(1e-9)
    }
}

/// The requests to one server.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    request: Vec<u8>,
    /// Nanoseconds after the begin at which request 0 is due.
    first_ns: u64,
    /// Nanoseconds from one request to the next.
    interval_ns: u64,
    /// The next request that no connection has taken.
    next: AtomicU64,
    ended: Mutex<Vec<Ended>>,
}

/// A request that was answered or failed.
#[derive(Clone, Copy, Debug)]
struct Ended {
    number: u64,
    /// Nanoseconds after the begin.
    at_ns: u64,
    good: bool,
}

impl Load {
    /// Starts it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(rate: &Rate) -> Result<Load> {
        let count = rate.servers.len().max(1) as u64;
        let interval_ns = (1e9 * count as f64 / rate.per_second.max(1e-3)) as u64;
        let mut load = Load {
            begin: Instant::now(),
            servers: Vec::new(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for (index, address) in rate.servers.iter().enumerate() {
            let server = Arc::new(Server {
                address: *address,
                request: http::request(&rate.path, *address),
                // Servers take turns, so that requests do not arrive in bursts.
                first_ns: interval_ns * index as u64 / count,
                interval_ns: interval_ns.max(1),
                next: AtomicU64::new(0),
                ended: Mutex::default(),
            });
            load.servers.push(Arc::clone(&server));
            for _ in 0..rate.connections.max(1) {
                let (server, stop, begin) =
                    (Arc::clone(&server), Arc::clone(&load.stop), load.begin);
                let thread = std::thread::Builder::new().name("load".to_owned());
                // The threads only send and wait. 100 of them with the usual 2 MiB would be seen.
                let thread = thread.stack_size(128 << 10);
                let thread = thread.spawn(move || server.serve(begin, &stop));
                let failed = |source| Error::Thread {
                    what: "the load",
                    source,
                };
                load.threads.push(thread.map_err(failed)?);
            }
        }
        Ok(load)
    }

    /// Seconds since it was started.
    pub fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// The results of the requests between two times, seconds after the start.
    pub fn window(&self, from: f64, to: f64) -> Window {
        let mut window = Window {
            seconds: to - from,
            ..Window::default()
        };
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
        for server in &self.servers {
            let ended = server.ended.lock().unwrap_or_else(PoisonError::into_inner);
            server.count(&ended, (ns(from), ns(to)), &mut window);
        }
        window
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has answered nothing since, which the windows show.
            let _ = thread.join();
        }
    }
}

impl Server {
    /// One connection: takes the next request, waits until it is due, sends it, waits for the answer.
    /// Since requests are taken in order, those that are due wait in order for a free connection.
    fn serve(&self, begin: Instant, stop: &AtomicBool) {
        let mut connection: Option<Connection> = None;
        while !stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= MOST as u64 {
                return;
            }
            if !sleep_until(begin + Duration::from_nanos(self.due_ns(number)), stop) {
                return;
            }
            let good = self.ask(&mut connection, stop);
            if stop.load(Ordering::Relaxed) {
                // It was given up, not answered.
                return;
            }
            let ended = Ended {
                number,
                at_ns: begin.elapsed().as_nanos() as u64,
                good,
            };
            self.ended
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(ended);
            if !good {
                std::thread::sleep(RETRY);
            }
        }
    }

    /// Whether a good answer came.
    fn ask(&self, connection: &mut Option<Connection>, stop: &AtomicBool) -> bool {
        if connection.is_none() {
            *connection = Connection::open(self.address, LOOK).ok();
        }
        let Some(open) = connection else { return false };
        match open.ask(&self.request, || stop.load(Ordering::Relaxed)) {
            Ok(answer) => {
                if !answer.keep {
                    *connection = None;
                }
                answer.status == 200
            }
            Err(_) => {
                *connection = None;
                false
            }
        }
    }

    fn due_ns(&self, number: u64) -> u64 {
        self.first_ns
            .saturating_add(number.saturating_mul(self.interval_ns))
    }

    /// Adds the requests of a window, nanoseconds after the begin.
    fn count(&self, ended: &[Ended], (from, to): (u64, u64), window: &mut Window) {
        let within = |ns: u64| (from..to).contains(&ns);
        // Numbers of the requests due in the window.
        let first = from
            .saturating_sub(self.first_ns)
            .div_ceil(self.interval_ns);
        let end = to.saturating_sub(self.first_ns).div_ceil(self.interval_ns);
        let mut known = vec![false; end.saturating_sub(first).min(MOST as u64) as usize];
        for one in ended {
            let due = self.due_ns(one.number);
            let in_time = one.at_ns < to;
            window.answers += u64::from(one.good && within(one.at_ns));
            if !within(due) || !in_time {
                continue;
            }
            if let Some(known) = known.get_mut((one.number - first) as usize) {
                *known = true;
            }
            if one.good {
                window.latencies.push((one.at_ns - due) as f64 / 1e9);
            } else {
                window.failed += 1;
            }
        }
        for number in (first..end)
            .zip(known)
            .filter_map(|(n, known)| (!known).then_some(n))
        {
            window.open += 1;
            let waited = to.saturating_sub(self.due_ns(number));
            window.latencies.push(waited as f64 / 1e9);
        }
    }
}

/// Sleeps until then; `false` if it should stop first.
fn sleep_until(then: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests;
