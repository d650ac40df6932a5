//! Several users and one broker. The tests check the honest user's program: its resident memory,
//! its faults, and that it continues.

use crate::common::{Broker, Client, PATIENCE, Swap, swap, until};
use crate::ladder::{FEW, PROGRAM};
use plimsoll_kernel::process::Process;
use plimsoll_testbed::{Child, TestCgroup, skip};
use plimsoll_unit::{Bytes, MIB};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Uids without names that no other test uses.
pub(crate) const HONEST_USER: u32 = 20_001;
pub(crate) const FIRST_USER: u32 = 20_002;
pub(crate) const SECOND_USER: u32 = 20_003;
const THIRD_USER: u32 = 20_004;

const SETPRIV: &str = "/usr/bin/setpriv";
/// Set for [`threads`]: the number of threads.
const THREADS: &str = "PLIMSOLL_TEST_THREADS";

/// No test by itself: with [`THREADS`] set, this binary is a program with very many threads.
#[test]
fn threads() {
    let Some(count) = std::env::var(THREADS)
        .ok()
        .and_then(|count| count.parse().ok())
    else {
        return;
    };
    let start = |_: usize| {
        let thread = std::thread::Builder::new().stack_size(32 << 10);
        thread.spawn(|| std::thread::sleep(PATIENCE * 10)).ok()
    };
    let started: Vec<_> = (0..count).map_while(start).collect();
    println!("{{\"rounds\":{},\"holding\":true}}", started.len());
    std::thread::sleep(PATIENCE * 10);
}

/// Runs `work` as another user, on a thread of its own.
fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    let become_it = || {
        let uid = libc::c_long::from(uid);
        // SAFETY: setresuid takes three numbers and touches no memory of ours; the raw call changes the
        // calling thread alone, which ends with `work`.
        let code = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        assert_eq!(code, 0);
        work()
    };
    std::thread::scope(|scope| scope.spawn(become_it).join().expect("it ends well"))
}

/// The system's broker, and the cgroup in which programs start.
pub(crate) struct Ground {
    pub(crate) broker: Broker,
    group: Option<TestCgroup>,
    pub(crate) own: tempfile::TempDir,
}

/// The domain that the broker shares out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Machine,
    /// The cgroup in which programs start.
    Group,
}

impl Ground {
    pub(crate) fn new(group: Option<TestCgroup>, domain: Domain, config: &str) -> Option<Ground> {
        if !rustix::process::geteuid().is_root() {
            skip("only root can become other users for this test");
            return None;
        }
        if !Path::new(SETPRIV).exists() {
            skip("there is no setpriv to start programs of other users with");
            return None;
        }
        let own = tempfile::tempdir().expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(own.path(), open).expect("it can");
        let path = own.path().join("plimsoll.toml");
        std::fs::write(&path, config).expect("it can");
        let mut arguments = vec!["--config".to_owned(), path.display().to_string()];
        arguments.push("--system".into());
        if let Some(group) = group.as_ref().filter(|_| domain == Domain::Group) {
            arguments.push("--domain".into());
            arguments.push(group.cgroup().dir().display().to_string());
        }
        Some(Ground {
            broker: Broker::start_in(&own.path().join("run"), arguments),
            group,
            own,
        })
    }

    pub(crate) fn client(&self, uid: u32) -> Client {
        let socket = self.broker.socket();
        as_user(uid, || Client::connect(&socket))
    }

    /// Starts a program of that user in the cgroup.
    fn begin(&self, uid: u32, variable: &str, test: &str) -> Child {
        let uid = uid.to_string();
        let binary = std::env::current_exe().expect("our path");
        let binary = binary.display().to_string();
        let uid = uid.as_str();
        let mut arguments = vec![
            "--reuid",
            uid,
            "--regid",
            uid,
            "--clear-groups",
            "env",
            variable,
        ];
        arguments.extend([binary.as_str(), "--exact", test, "--nocapture"]);
        let child = Child::start(Path::new(SETPRIV), &arguments, self.group.as_ref());
        let child = child.expect("it starts");
        until("it is that user's", || {
            process(&child).uid().is_ok_and(|own| own != 0)
        });
        child
    }

    fn program(&self, uid: u32, line: &str) -> Child {
        self.begin(uid, &format!("{PROGRAM}={line}"), "ladder::program")
    }

    /// Starts a program as this user, and waits until it holds the requested memory.
    pub(crate) fn start(&self, uid: u32, line: &str) -> Child {
        let mut child = self.program(uid, line);
        child
            .until(PATIENCE, |progress| progress.holding)
            .expect("it gets its memory");
        child
    }

    /// Registers a principal of that user; returns the connection on which it lives, and its id.
    pub(crate) fn register(&self, uid: u32, parameters: Value) -> (Client, u64) {
        let mut life = self.client(uid);
        let registered = life.call("Register", parameters).expect("it is registered");
        let id = registered["id"].as_u64().expect("a number");
        (life, id)
    }
}

/// A cgroup with room, and swap.
fn room() -> Option<(TestCgroup, Swap)> {
    let Ok(group) = TestCgroup::new("broker-users", Some(Bytes::mib(320))) else {
        skip("no cgroup of our own here");
        return None;
    };
    let Some(swap) = swap() else {
        skip("no swap of our own here");
        return None;
    };
    Some((group, swap))
}

/// The honest user's program, which uses all of its memory all the time.
struct Honest {
    child: Child,
    life: Client,
    id: u64,
    bytes: u64,
}

impl Honest {
    fn start(ground: &Ground, megabytes: u64) -> Honest {
        let line = format!("touch --bytes {megabytes}M --part 1.0 --every 20");
        let child = ground.start(HONEST_USER, &line);
        let parameters = json!({"name": "honest", "pid": child.pid()});
        let (life, id) = ground.register(HONEST_USER, parameters);
        Honest {
            child,
            life,
            id,
            bytes: megabytes * MIB,
        }
    }

    fn shown(&mut self) -> Value {
        self.life.find(self.id).expect("it is listed")
    }

    /// Checks that it continues for some rounds and owes nothing, while others `do` their work.
    #[track_caller]
    fn goes_on(&mut self, rounds: u64, mut others: impl FnMut()) {
        let next = |child: &mut Child| child.next(PATIENCE).expect("it lives").expect("it goes on");
        // Reports from the time when nobody listened are old.
        let newest = self.child.latest(PATIENCE).expect("it lives");
        let first = newest.expect("it goes on").rounds;
        while next(&mut self.child).rounds < first + rounds {
            others();
            let shown = self.shown();
            assert_eq!(shown["owed"], json!(0), "{}", self.life.list());
        }
    }

    #[track_caller]
    fn assert_unharmed(&mut self) {
        let process = process(&self.child);
        let memory = process.memory().expect("it lives");
        // In a full cgroup the kernel reclaims memory that was not touched since the start, and pages of
        // the program's file. That is no harm.
        assert!(
            memory.anon >= Bytes(self.bytes) && memory.swap < Bytes(MIB),
            "{memory:?}"
        );
        let newest = self.child.latest(PATIENCE).expect("it lives");
        let faults = newest.expect("it goes on").faults_in_use;
        assert!(faults <= FEW, "{faults} major faults: {memory:?}");
        assert_eq!(self.shown()["owed"], json!(0));
    }
}

fn process(child: &Child) -> Process {
    Process::open(child.pid()).expect("it lives")
}

pub(crate) fn number(shown: &Value, field: &str) -> u64 {
    shown[field].as_u64().expect("a number")
}

/// The group of a user, in a listing.
pub(crate) fn group_of(listing: &Value, uid: u32) -> Value {
    let name = json!(format!("user {uid}"));
    let groups = listing["principals"].as_array().expect("principals");
    let group = groups.iter().find(|group| group["name"] == name);
    group.expect("it has a group").clone()
}

/// Checks the weight and priority of a group.
#[track_caller]
pub(crate) fn assert_stands(group: &Value, weight: u32, priority: i32) {
    assert_eq!(group["weight"], json!(weight), "{group}");
    assert_eq!(group["priority"], json!(priority), "{group}");
}

/// Parameters of a principal that asks for as much as the protocol allows.
fn loud(name: &str) -> Value {
    json!({"name": name, "weight": 10_000, "priority": 100, "adapter": "self"})
}

/// Principals that want everything and have no process.
fn hollow(ground: &Ground, uid: u32, count: u32) -> Vec<Client> {
    let socket = ground.broker.socket();
    as_user(uid, || {
        let register = |n: u32| {
            let mut life = Client::connect(&socket);
            let name = format!("hollow{n}");
            let id = life.call("Register", loud(&name)).expect("it may")["id"].clone();
            life.call("Report", json!({"id": id, "demand": 1u64 << 40}))
                .expect("it may");
            life
        };
        (0..count).map(register).collect()
    })
}

/// Principals with the greatest weight and idle processes.
fn idle(ground: &Ground, uid: u32, count: u32) -> Vec<(Client, Child)> {
    let start = |_| {
        let sleeper = ground.program(uid, "hog --bytes 4K");
        let parameters = json!({"name": "s", "pid": sleeper.pid(), "weight": 10_000});
        (ground.register(uid, parameters).0, sleeper)
    };
    (0..count).map(start).collect()
}

#[test]
fn what_hostile_users_ask_for_takes_nothing_of_an_honest_one() {
    let Some((group, _swap)) = room() else { return };
    let Some(ground) = Ground::new(Some(group), Domain::Group, "") else {
        return;
    };
    let mut honest = Honest::start(&ground, 56);
    let hollow = hollow(&ground, FIRST_USER, 200);
    // The second user has one that wants everything and keeps growing.
    let mut greedy = ground.program(SECOND_USER, "hog --bytes 120M --rate 20M");
    let mut parameters = loud("greedy");
    parameters["pid"] = json!(greedy.pid());
    let (mut life, id) = ground.register(SECOND_USER, parameters);
    let idle = idle(&ground, THIRD_USER, 30);
    let mut ask = || {
        life.call(
            "Report",
            json!({"id": id, "demand": 1u64 << 40, "floor": 1u64 << 40}),
        )
        .expect("it may");
    };
    honest.goes_on(100, &mut ask);
    greedy
        .until(PATIENCE, |progress| progress.holding)
        .expect("there is room for it");
    honest.goes_on(100, &mut ask);
    honest.assert_unharmed();
    let listing = honest.life.list();
    let share = number(&honest.shown(), "share");
    let budget = number(&listing, "budget");
    assert!(share + MIB >= budget / 3, "{share} of {budget}");
    let first = group_of(&listing, FIRST_USER);
    assert_eq!(number(&first, "share"), 0, "nobody is there");
    assert_eq!(number(&first, "limit"), 0);
    for uid in [HONEST_USER, FIRST_USER, SECOND_USER, THIRD_USER] {
        let group = group_of(&listing, uid);
        assert_stands(&group, 100, 0);
        assert_eq!(
            (&group["kind"], &group["pid"]),
            (&json!("group"), &json!(null))
        );
    }
    let (lives, _sleepers): (Vec<Client>, Vec<Child>) = idle.into_iter().unzip();
    drop((hollow, lives));
    until("their groups are gone", || {
        let listing = honest.life.list();
        listing["principals"].as_array().map(Vec::len) == Some(2)
    });
    honest.assert_unharmed();
}

#[test]
fn who_takes_more_than_its_part_is_paged_whatever_its_priority_and_nobody_else() {
    a_greedy_one_pays_alone(Domain::Group);
}

/// Like a container with programs of several users.
#[test]
fn of_a_limit_that_users_share_who_takes_more_than_its_part_pays_alone() {
    a_greedy_one_pays_alone(Domain::Machine);
}

fn a_greedy_one_pays_alone(domain: Domain) {
    let Some((group, _swap)) = room() else { return };
    let limit = group.cgroup().dir().file_name().expect("a name");
    let limit = limit.to_string_lossy().into_owned();
    let Some(ground) = Ground::new(Some(group), domain, "") else {
        return;
    };
    let mut honest = Honest::start(&ground, 96);
    let greedy = ground.program(SECOND_USER, "hog --bytes 240M --rate 10M");
    let mut parameters = loud("greedy");
    parameters["pid"] = json!(greedy.pid());
    parameters["adapter"] = json!(null);
    let (mut life, id) = ground.register(SECOND_USER, parameters);
    until("it is paged", || {
        honest.goes_on(1, || ());
        number(&life.find(id).expect("listed"), "swapped") >= 16 * MIB
    });
    honest.goes_on(50, || ());
    honest.assert_unharmed();
    assert!(process(&greedy).alive(), "it was killed");
    let listing = honest.life.list();
    let users = listing["principals"].as_array().expect("principals");
    assert_eq!(users.len(), 2);
    for user in users {
        let below = &user["children"][0];
        assert_eq!(
            below["name"] == json!(limit),
            domain == Domain::Machine,
            "{below}"
        );
    }
}

/// Processor time of one thread of the broker.
fn spent(broker: &Broker, thread: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", broker.pid())).expect("it runs");
    let is_it = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim_end() == thread)
    };
    let task = tasks.flatten().find(is_it).expect("it has such a thread");
    let stat = std::fs::read(task.path().join("stat")).expect("it runs");
    let stat = plimsoll_kernel::process::parse_stat(&stat).expect("as documented");
    Duration::from_millis(stat.cpu_ticks * 1000 / rustix::param::clock_ticks_per_second())
}

#[test]
fn very_many_threads_and_a_loop_of_released_do_not_hold_the_thread_that_decides() {
    let Some(ground) = Ground::new(None, Domain::Machine, "") else {
        return;
    };
    let mut honest = Honest::start(&ground, 16);
    let mut many = ground.begin(FIRST_USER, &format!("{THREADS}=3000"), "users::threads");
    let progress = many
        .until(PATIENCE, |progress| progress.holding)
        .expect("it starts");
    let (mut life, id) = ground.register(FIRST_USER, json!({"name": "many", "pid": many.pid()}));
    let broker = &ground.broker;
    let all = || ["plimsolld", "plimsoll-scan"].map(|thread| spent(broker, thread));
    let (before, began) = (all(), Instant::now());
    honest.goes_on(150, || {
        for _ in 0..50 {
            life.call("Released", json!({"id": id, "bytes": 1}))
                .expect("it may");
        }
    });
    let passed = began.elapsed();
    for (used, before) in all().into_iter().zip(before) {
        // A broker that examined all of them each time would use all of the time.
        let used = used.saturating_sub(before);
        assert!(
            used < passed / 2,
            "{used:?} of {passed:?}, {} threads",
            progress.rounds
        );
    }
    honest.assert_unharmed();
}
