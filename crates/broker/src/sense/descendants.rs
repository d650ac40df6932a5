//! The thread that searches for descendants. A program may have very many threads and children, and
//! may report changes all the time. So the search takes no time of the deciding thread, users take
//! turns, and each user's searches get a bounded part of one processor.

use super::tree::{Found, Instance, MAX_PROCESSES};
use crate::background::{Bell, Companion, Monitor, Next};
use crate::descriptors::PROCESS;
use crate::error::Error;
use crate::fair_queue::{FairQueue, Spending};
use crate::user_quota::Account;
use plimsoll_kernel as kernel;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::{Process, descendants_within};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Most threads of one principal that are searched for children (5 us each); the others are
/// skipped.
const MAX_THREADS: usize = 8192;
/// Bound on one user's searches: one in this many nanoseconds, and the longest burst.
const ONE_IN: u64 = 10;
const BURST: Nanos = Nanos::millis(20);
/// Bound on the searches of all users together: one in this many nanoseconds. A user that has to
/// wait loses only time.
const ALL_ONE_IN: u64 = 3;
/// Uid under which the searches of all users together are counted.
const ALL: u32 = u32::MAX;

/// A request to search for the descendants of a principal.
#[derive(Debug)]
pub struct Request {
    /// The principal.
    pub id: Id,
    /// Its known processes, the root first.
    pub known: Vec<Instance>,
    /// Process ids of all principals, in order.
    pub principals: Arc<[i32]>,
    /// Account for the descriptors of processes that are found.
    pub account: Account,
}

/// State that the deciding thread and the searching thread share.
#[derive(Debug, Default)]
struct Shared {
    /// Requests that wait, by user.
    queue: FairQueue<Request>,
    /// Results that the deciding thread has not taken yet.
    found: Vec<(Id, kernel::Result<Found>)>,
}

impl Shared {
    /// The next request, when its user may have a turn.
    fn next(&mut self, spending: &Spending) -> Next<Option<(u32, Request)>> {
        let now = clock::now();
        let all = spending.due(ALL);
        if all <= now
            && let Some(next) = self.queue.next_of(|uid| spending.may(uid, now))
        {
            return Next::Do(Some(next));
        }
        let due = self.queue.users().map(|uid| spending.due(uid).max(all));
        let wait = |due: Nanos| (due - now).max(Nanos(1)).duration();
        Next::Sleep(due.min().map(wait))
    }
}

/// The thread, its requests and its results.
#[derive(Debug)]
pub struct Scanner {
    thread: Companion<Shared>,
    bell: Arc<Bell>,
}

impl Scanner {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::System`] when a thread or descriptor cannot be created.
    pub fn start() -> Result<Scanner, Error> {
        let bell = Bell::new()?;
        let theirs = Arc::clone(&bell);
        let thread = Companion::start("plimsoll-scan", move |monitor| work(&monitor, &theirs))?;
        Ok(Scanner { thread, bell })
    }

    /// Requests a search for a principal of that user. There is at most one request per principal.
    pub fn ask(&self, uid: u32, request: Request) {
        self.thread.lock().queue.push(uid, request);
        self.thread.wake();
    }

    /// The results since the last call.
    pub fn take(&self) -> Vec<(Id, kernel::Result<Found>)> {
        self.bell.silence();
        std::mem::take(&mut self.thread.lock().found)
    }
}

impl AsFd for Scanner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn work(monitor: &Monitor<Shared>, bell: &Bell) {
    let mut spending = Spending::new(ONE_IN, BURST);
    let next = |shared: &mut Shared, stop, spending: &Spending| {
        if stop {
            Next::Do(None)
        } else {
            shared.next(spending)
        }
    };
    while let Some((uid, request)) = monitor.wait(|shared, stop| next(shared, stop, &spending)) {
        let began = clock::now();
        let found = find(&request.known, &request.principals, &request.account);
        let ended = clock::now();
        let took = ended - began;
        spending.spend(uid, took, ended);
        spending.spend(ALL, took * ALL_ONE_IN / ONE_IN, ended);
        spending.sweep(ended);
        monitor.lock().found.push((request.id, found));
        bell.ring();
    }
}

/// Searches for the descendants of a principal, leaving out those that are `principals` themselves
/// and the descendants of those.
///
/// # Errors
/// When `/proc` cannot be read.
fn find(known: &[Instance], principals: &[i32], account: &Account) -> kernel::Result<Found> {
    let mut threads = MAX_THREADS;
    let mut pids: Vec<i32> = Vec::new();
    let root = known.first().map_or(0, |root| root.0);
    for &(pid, start_time) in known {
        // Orphans of an exited process have another parent now; they stay known. Their process ids
        // may be reused by now.
        let is_new = pid == root || !pids.contains(&pid);
        if is_new && pids.len() < MAX_PROCESSES && is_alive(pid, start_time) {
            pids.push(pid);
            descendants_within(pid, MAX_PROCESSES - pids.len(), &mut threads, &mut pids)?;
        }
    }
    let is_other = |pid: &i32| *pid != root && principals.binary_search(pid).is_ok();
    let mut excluded: Vec<i32> = pids.iter().copied().filter(is_other).collect();
    // A separate budget: processes below other principals must not be taken for this principal's.
    let mut threads = MAX_THREADS;
    for index in 0..excluded.len() {
        descendants_within(excluded[index], MAX_PROCESSES, &mut threads, &mut excluded)?;
    }
    let missed = threads == 0;
    if missed {
        pids.retain(|pid| known.iter().any(|&(known, _)| known == *pid));
    }
    pids.retain(|pid| !excluded.contains(pid));
    pids.sort_unstable();
    pids.dedup();
    let family: HashSet<i32> = pids.iter().copied().collect();
    let mut found = Found {
        new: Vec::new(),
        excluded,
        missed,
    };
    for pid in pids {
        if known.iter().any(|&(known, _)| known == pid) {
            continue;
        }
        // The use of a user that holds all descriptors that it may is underestimated.
        let Some(descriptors) = account.take(PROCESS) else {
            break;
        };
        match Process::open(pid) {
            // The process id may have been reused between the two looks.
            Ok(process) => match process.ids() {
                Ok(ids) if family.contains(&ids.parent) => {
                    found.new.push((process, descriptors));
                }
                _ => found.missed = true,
            },
            // The process exists but could not be opened at present.
            Err(kernel::Error::Io { .. } | kernel::Error::Call { .. }) => found.missed = true,
            Err(_) => {}
        }
    }
    Ok(found)
}

fn is_alive(pid: i32, start_time: u64) -> bool {
    Process::open_known(pid, start_time).is_ok_and(|process| process.alive())
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Tree, open};
    use super::*;
    use crate::server::users::Users;
    use plimsoll_unit::Bytes;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;
    use std::time::Instant;

    fn account() -> Account {
        Users::new(0).get(7, Nanos(1)).descriptors().clone()
    }

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn instance(process: &Process) -> Instance {
        (process.pid(), process.start_time())
    }

    fn has(found: &Found, pid: i32) -> bool {
        found.new.iter().any(|(process, _)| process.pid() == pid)
    }

    /// Does the work of the scanning thread.
    fn scan(tree: &mut Tree, now: Nanos, principals: &[i32]) -> bool {
        let Some(known) = tree.due_scan(now) else {
            return false;
        };
        assert_eq!(tree.due_scan(Nanos(u64::MAX)), None, "one look at a time");
        let found = find(&known, principals, tree.account());
        tree.take_over(found, now, &|pid| principals.contains(&pid));
        true
    }

    #[test]
    fn children_are_counted_until_they_are_principals_of_their_own() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let mut tree = Tree::new(Process::own().unwrap(), account());
        let has = |tree: &Tree| tree.processes().any(|process| process.pid() == pid);
        assert!(scan(&mut tree, Nanos(1), &[]) && has(&tree));
        tree.hurry();
        assert!(scan(&mut tree, Nanos(2), &[pid]) && !has(&tree));
        tree.hurry();
        assert!(scan(&mut tree, Nanos(3), &[]) && has(&tree));
        tree.let_go(pid);
        assert!(!has(&tree));
        assert!(tree.read(Nanos(4), true).anon > Bytes::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_idle_tree_is_looked_at_less_and_less() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut tree = Tree::new(open(child.id()).unwrap(), account());
        let mut now = Nanos(1);
        let mut scans = 0;
        while now < Nanos::seconds(100) {
            scans += usize::from(scan(&mut tree, now, &[]));
            now += Nanos::millis(500);
        }
        assert!(scans < 15, "{scans}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!tree.alive());
        assert_eq!(tree.read(now, true).processes, 0);
    }

    #[test]
    fn children_are_found_unless_they_are_principals_of_their_own() {
        let child = sleeper();
        let (own, pid) = (Process::own().unwrap(), child.id() as i32);
        let root = [instance(&own)];
        assert!(has(&find(&root, &[], &account()).unwrap(), pid));
        let mut principals = [own.pid(), pid];
        principals.sort_unstable();
        let found = find(&root, &principals, &account()).unwrap();
        assert!(!has(&found, pid) && found.excluded.contains(&pid));
        assert!(!found.excluded.contains(&own.pid()));
        // A known process is not opened again.
        let known = Process::open(pid).unwrap();
        let found = find(&[root[0], instance(&known)], &[], &account()).unwrap();
        assert!(!has(&found, pid));
        end(child);
    }

    #[test]
    fn who_lost_its_parent_stays_and_what_it_starts_is_found() {
        let mut parent = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 & echo $!; wait' & echo $!"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(parent.stdout.take().unwrap());
        let mut pids: Vec<i32> = std::io::BufRead::lines(lines)
            .take(2)
            .map(|line| line.unwrap().parse().unwrap())
            .collect();
        // It is not waited for yet, so that its process id is not reused.
        let root = Process::open(parent.id() as i32).unwrap();
        while root.alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
        pids.sort_unstable();
        let orphan = Process::open(pids[0]).unwrap();
        let known = [instance(&root), instance(&orphan)];
        assert!(
            has(&find(&known, &[], &account()).unwrap(), pids[1]),
            "{pids:?}"
        );
        assert!(
            !has(&find(&known[..1], &[], &account()).unwrap(), pids[1]),
            "nobody knows of it"
        );
        for pid in pids {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        parent.wait().unwrap();
    }

    #[test]
    fn a_number_that_is_anothers_by_now_is_no_root() {
        let child = sleeper();
        let own = Process::own().unwrap();
        let found = find(&[(own.pid(), own.start_time() + 1)], &[], &account()).unwrap();
        assert!(found.new.is_empty() && found.excluded.is_empty());
        assert!(find(&[], &[], &account()).unwrap().new.is_empty());
        end(child);
    }

    /// How many looks one user asks for before another asks for one.
    const BEFORE: usize = 1000;

    #[test]
    fn one_users_looks_do_not_keep_another_waiting() {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let (done, place) = turn_of_the_other();
            if place < BEFORE {
                break;
            }
            // On a busy machine, nearly all may be done before the other asks.
            let late = done > BEFORE * 9 / 10;
            assert!(
                late && Instant::now() < until,
                "the other's {done} were all first"
            );
        }
    }

    /// How many looks were done when the other had just asked, and how many were before its own.
    fn turn_of_the_other() -> (usize, usize) {
        let scanner = Scanner::start().unwrap();
        let own = Process::own().unwrap();
        let request = |id| Request {
            id,
            known: vec![instance(&own)],
            principals: Arc::from([]),
            account: account(),
        };
        for id in 0..BEFORE {
            scanner.ask(7, request(id as Id));
        }
        scanner.ask(8, request(5000));
        let until = Instant::now() + Duration::from_secs(60);
        let mut order: Vec<Id> = Vec::new();
        let mut take = || {
            order.extend(scanner.take().into_iter().map(|(id, _)| id));
            (order.len(), order.iter().position(|&id| id == 5000))
        };
        let (done, mut place) = take();
        while place.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            (_, place) = take();
        }
        (done, place.expect("it gets its turn"))
    }
}
