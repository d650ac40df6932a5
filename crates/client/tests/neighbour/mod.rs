//! The examples of the book, beside a neighbour that starts: a cache that was told a debt gives it back once,
//! and then has what its limit allows.

use plimsoll_client::{Connection, Socket};
use plimsoll_unit::MIB;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A cache that runs, and a thread that reads what it says. It is killed when this is dropped.
struct Cache(Child, Option<JoinHandle<Vec<String>>>);

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cache {
    fn start(program: &Path, socket: &Path) -> Cache {
        let mut command = Command::new(program);
        command.arg("600").env("PLIMSOLL_SOCKET", socket);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the example starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = std::thread::spawn(|| output.lines().map_while(Result::ok).collect());
        Cache(child, Some(lines))
    }

    /// Its use, its limit and its debt, bytes.
    fn numbers(&self, control: &mut Connection) -> Option<(u64, u64, u64)> {
        let listing = control.list().expect("the broker answers");
        let all = listing.principals.iter();
        let own = all.filter(|principal| principal.pid == Some(self.0.id()));
        own.map(|it| (it.uses, it.limit, it.owed)).next()
    }

    /// Ends it; what it said.
    fn end(mut self) -> Vec<String> {
        let lines = self.1.take();
        drop(self);
        let lines = lines.expect("it was not ended before").join();
        lines.expect("its output is read")
    }
}

/// Waits until `holds`.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The numbers of MiB in a line `limit 64 MiB, owed 190 MiB, cached 62 MiB…`: limit, owed, cached.
fn amounts(line: &str) -> [u64; 3] {
    ["limit ", "owed ", "cached "].map(|name| {
        let rest = line
            .split(name)
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let amount = rest.and_then(|number| number.parse().ok());
        amount.unwrap_or_else(|| panic!("no {name}in {line}"))
    })
}

/// Runs an example under a broker that shares out 256 MiB. When its cache is full, another one starts.
pub(crate) fn keeps_its_limit(program: &Path, socket: &Path) {
    let mut control = Connection::open(&Socket::at(socket), PATIENCE).expect("a broker");
    let cache = Cache::start(program, socket);
    until("the cache is full", || {
        cache
            .numbers(&mut control)
            .is_some_and(|(uses, ..)| uses > 190 * MIB)
    });
    let neighbour = Cache::start(program, socket);
    until("the neighbour has its half", || {
        let its = neighbour.numbers(&mut control);
        its.is_some_and(|(uses, ..)| uses > 110 * MIB)
    });
    until("the cache owes nothing", || {
        cache
            .numbers(&mut control)
            .is_some_and(|(.., owed)| owed == 0)
    });
    let (uses, limit, _) = cache.numbers(&mut control).expect("it runs");
    assert!(uses * 10 > limit * 8, "it uses {uses} of {limit}");
    let told: Vec<[u64; 3]> = cache.end().iter().map(|line| amounts(line)).collect();
    let first = told.iter().position(|&[_, owed, _]| owed > 60);
    let first = first.unwrap_or_else(|| panic!("it was told no debt: {told:?}"));
    // A limit that has just risen is not filled yet.
    for pair in told[first..].windows(2) {
        let ([was, ..], [limit, _, cached]) = (pair[0], pair[1]);
        assert!(
            limit > was || cached * 10 > limit * 8,
            "{cached} of {limit}: {told:?}"
        );
    }
}
