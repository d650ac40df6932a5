//! Principals of a broker that behaves well, dies and comes back.

mod fake;

use fake::{
    Fake, SOON, Script, await_event, builder, directory, eventually, is_joined, is_lost, numbers,
};
use plimsoll_client::messages::{Priority, Report, Set, Statistics, Weight};
use plimsoll_client::{
    Builder, Connection, Error, ErrorName, Event, Level, Numbers, Principal, Socket, Source,
};
use plimsoll_unit::{Bytes, MIB};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

#[test]
fn registers_reads_and_hears() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake)
        .weight(20)
        .priority(3)
        .max(Bytes(5 << 30))
        .adapter("self")
        .open()
        .unwrap();
    let asked = fake.state(|state| state.registered[0].clone());
    assert_eq!(
        (asked.weight, asked.priority, asked.max.bytes()),
        (
            Weight::new(20).ok(),
            Priority::new(3).ok(),
            Some(Bytes(5 << 30))
        )
    );
    assert_eq!(
        (asked.pid, &*asked.name),
        (Some(std::process::id()), "test")
    );
    assert_eq!(principal.id(), Some(1));
    assert!(is_joined(&await_event(&principal, |_| true)));
    let reading = principal.read();
    assert_eq!(reading.numbers, numbers(100 * MIB));
    assert_eq!(reading.source, Source::Broker);

    // Reading needs the page only; a wake-up needs a message.
    fake.publish_silently(1, numbers(90 * MIB));
    assert_eq!(principal.limit(), Bytes::mib(90));
    fake.publish(1, numbers(80 * MIB));
    let event = await_event(&principal, |_| true);
    assert!(
        matches!(event, Event::Changed(r) if r.limit == 80 * MIB),
        "{event:?}"
    );

    let owed = Numbers {
        owed: MIB,
        deadline: 77,
        level: Level::Warning,
        ..numbers(60 * MIB)
    };
    fake.publish(1, owed);
    let event = await_event(&principal, |_| true);
    assert!(
        matches!(event, Event::Owed(r) if r.numbers == owed),
        "{event:?}"
    );
    fake.publish(1, numbers(60 * MIB));
    let event = await_event(&principal, |_| true);
    assert!(
        matches!(event, Event::Relief(r) if r.owed == 0),
        "{event:?}"
    );
    assert!(matches!(principal.wait(Duration::ZERO), Event::Timeout(_)));

    drop(principal);
    fake.until("the broker sees the end", |state| state.gone == [1]);
}

#[test]
fn tells_the_broker_what_it_is_told() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).without_process().open().unwrap();
    principal.report(&Report {
        live: Some(5),
        ..Report::default()
    });
    let collector = Some(Statistics {
        heap: Some(7),
        ..Statistics::default()
    });
    principal.report(&Report {
        collector,
        ..Report::default()
    });
    principal.report(&Report {
        collections: Some(6),
        ..Report::default()
    });
    principal.released(Bytes(10));
    principal.released(Bytes(20));
    principal.attach(4321).unwrap();
    principal
        .set(&Set {
            weight: Weight::new(7).ok(),
            ..Set::default()
        })
        .unwrap();
    fake.until("all of it arrives", |state| {
        let last = state.reports.last().copied().unwrap_or_default();
        let merged = Report {
            id: 1,
            live: Some(5),
            collections: Some(6),
            collector,
            ..Report::default()
        };
        last == merged && state.released == 30
    });
    fake.state(|state| {
        assert_eq!(state.registered[0].pid, None);
        assert_eq!(state.attached, [(1, 4321)]);
        assert_eq!(
            state.sets,
            [Set {
                id: 1,
                weight: Weight::new(7).ok(),
                ..Set::default()
            }]
        );
    });
    let refused = Weight::new(0);
    assert!(matches!(refused, Err(e) if e.name == ErrorName::BadWeight));
}

#[test]
fn works_alone_where_no_broker_runs() {
    let directory = directory();
    let socket = Socket::at(directory.path().join("broker.sock"));
    let principal = Principal::builder("alone")
        .socket(socket.clone())
        .open()
        .unwrap();
    let reading = principal.read();
    assert_eq!((reading.source, principal.id()), (Source::Local, None));
    assert!(reading.uses > 0 && reading.limit >= reading.uses - reading.owed);
    assert!(reading.available >= reading.limit);
    assert!(principal.last_error().unwrap().contains("no broker runs"));
    principal.released(Bytes(5));
    principal.report(&Report {
        live: Some(9),
        ..Report::default()
    });
    principal
        .set(&Set {
            weight: Weight::new(33).ok(),
            priority: Priority::new(-4).ok(),
            ..Set::default()
        })
        .unwrap();
    principal.attach(std::process::id()).unwrap();

    // A broker starts, and is told everything that the program reported before.
    let fake = Fake::start(directory.path(), Script::Good);
    let event = await_event(&principal, is_joined);
    assert_eq!(event.reading().numbers, numbers(100 * MIB));
    assert_eq!(principal.read().source, Source::Broker);
    fake.until("the report is said again", |state| {
        state
            .reports
            .last()
            .is_some_and(|report| report.live == Some(9))
    });
    let asked = fake.state(|state| state.registered[0].clone());
    let numbers = (
        asked.weight.map(Weight::get),
        asked.priority.map(Priority::get),
    );
    assert_eq!(numbers, (Some(33), Some(-4)));

    let never = Principal::builder("never").alone().open().unwrap();
    assert_eq!(never.read().source, Source::Local);
}

#[test]
fn falls_back_at_once_when_the_broker_dies_and_rejoins() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).weight(20).adapter("self").open().unwrap();
    let child = principal.child("child").without_process().open().unwrap();
    fake.until("both are there", |state| state.registered.len() == 2);
    assert_eq!(fake.state(|state| state.registered[1].parent), Some(1));
    for joined in [&principal, &child] {
        await_event(joined, is_joined);
    }
    principal
        .set(&Set {
            priority: Priority::new(2).ok(),
            own_weight: Weight::new(9).ok(),
            ..Set::default()
        })
        .unwrap();
    fake.kill();
    let event = await_event(&principal, is_lost);
    let reading = event.reading();
    assert_eq!(reading.source, Source::Local);
    assert!(
        reading.limit <= 100 * MIB,
        "the dead broker's limit still bounds: {reading:?}"
    );
    assert_eq!(principal.read().source, Source::Local);
    assert_eq!(principal.id(), None);
    principal.released(Bytes(1));
    await_event(&child, is_lost);

    let fake = Fake::start_numbered(directory.path(), Script::Good, 50);
    let event = await_event(&principal, is_joined);
    assert_eq!(event.reading().numbers, numbers(100 * MIB));
    await_event(&child, is_joined);
    fake.state(|state| {
        let asked = &state.registered[0];
        let numbers = (
            asked.weight.map(Weight::get),
            asked.priority.map(Priority::get),
        );
        assert_eq!(numbers, (Some(20), Some(2)));
        assert_eq!(asked.pid, Some(std::process::id()));
        assert_eq!(state.sets[0].own_weight, Weight::new(9).ok());
        assert_eq!(
            state.registered[1].parent,
            Some(50),
            "the child follows its parent"
        );
    });
    let id = principal.id().unwrap();
    fake.publish(id, numbers(70 * MIB));
    eventually("the new page is read", || {
        principal.limit() == Bytes::mib(70)
    });
}

#[test]
fn uses_the_principal_that_somebody_else_registered() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let owner = builder(&fake).open().unwrap();
    await_event(&owner, is_joined);
    let agent = builder(&fake)
        .existing(1, fake.page(1))
        .adapter("libgc")
        .open()
        .unwrap();
    assert_eq!(
        fake.state(|state| state.registered.len()),
        1,
        "no second registration"
    );
    assert_eq!((agent.id(), agent.limit()), (Some(1), Bytes::mib(100)));
    agent.released(Bytes(3));
    fake.until("it speaks for it", |state| state.released == 3);
    drop(agent);
    fake.publish(1, numbers(20 * MIB));
    eventually("its end is not the principal's end", || {
        owner.limit() == Bytes::mib(20)
    });
    let agent = builder(&fake).existing(77, fake.page(77)).open().unwrap();
    await_event(&agent, is_joined);
    assert_eq!(
        agent.id(),
        Some(1),
        "a number of an earlier broker: found by its process"
    );

    let lost = || {
        for principal in [&owner, &agent] {
            await_event(principal, is_lost);
        }
    };
    fake.kill();
    lost();
    let fake = Fake::start_numbered(directory.path(), Script::Good, 9);
    await_event(&owner, is_joined);
    await_event(&agent, is_joined);
    assert_eq!(
        (owner.id(), agent.id()),
        (Some(9), Some(9)),
        "found again by its process"
    );
    fake.kill();
    lost();
    let fake = Fake::start_numbered(directory.path(), Script::PagesElsewhere, 20);
    await_event(&owner, is_joined);
    await_event(&agent, is_joined);
    fake.publish_silently(20, numbers(33 * MIB));
    assert_eq!(
        (owner.limit(), agent.limit()),
        (Bytes::mib(33), Bytes::mib(33)),
        "both read the page, wherever it is"
    );
    drop(fake);
}

#[test]
fn a_process_that_is_a_principal_already_is_found_and_steers_itself() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Strict);
    // As `plimsoll run` registers a program: with a weight, without an adapter.
    let outer = builder(&fake).weight(40).open().unwrap();
    let own = || Principal::builder("cache").socket(Socket::at(fake.socket()));
    let inner = own().weight(7).adapter("self").open().unwrap();
    assert_eq!((outer.id(), inner.id()), (Some(1), Some(1)));
    assert!(inner.registered().is_none());
    await_event(&outer, is_joined);
    await_event(&inner, is_joined);
    let told = || fake.state(|state| state.adapted.clone());
    assert_eq!(told(), [(1, Some("self".to_owned()))]);
    let passive = own().open().unwrap();
    assert_eq!(passive.id(), Some(1));
    assert_eq!(told().len(), 1, "who steers nothing says nothing");
    drop(passive);
    fake.publish(1, numbers(60 * MIB));
    eventually("both follow", || {
        (outer.limit(), inner.limit()) == (Bytes::mib(60), Bytes::mib(60))
    });
    // After a crash of the broker, the program waits for the principal of `plimsoll run` to come back with
    // its weight.
    fake.kill();
    await_event(&inner, is_lost);
    let fake = Fake::start_numbered(directory.path(), Script::Strict, 9);
    await_event(&outer, is_joined);
    await_event(&inner, is_joined);
    assert_eq!((outer.id(), inner.id()), (Some(9), Some(9)));
    fake.state(|state| {
        assert_eq!(state.registered.len(), 1);
        assert_eq!(state.registered[0].weight, Weight::new(40).ok());
        assert_eq!(state.adapted, [(9, Some("self".to_owned()))]);
    });
    // If that principal does not come back, the program registers itself.
    fake.kill();
    drop(outer);
    let fake = Fake::start_numbered(directory.path(), Script::Strict, 20);
    eventually("it registers", || inner.id() == Some(20));
    assert!(inner.registered().is_some());
    let weight = fake.state(|state| state.registered[0].weight);
    assert_eq!(weight, Weight::new(7).ok());
}

#[test]
fn who_steers_it_may_change_and_is_told_to_every_broker() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    await_event(&principal, is_joined);
    for adapter in [Some("hotspot"), Some("hotspot"), None, Some("hotspot")] {
        principal.adapt(adapter).unwrap();
    }
    let told = |id| [Some("hotspot"), None, Some("hotspot")].map(|a| (id, a.map(str::to_owned)));
    assert_eq!(fake.state(|state| state.adapted.clone()), told(1));
    assert!(principal.adapt(Some("a\nb")).is_err());
    fake.kill();
    await_event(&principal, is_lost);
    let fake = Fake::start_numbered(directory.path(), Script::Good, 9);
    await_event(&principal, is_joined);
    let asked = fake.state(|state| state.registered[0].adapter.clone());
    assert_eq!(asked.as_deref(), Some("hotspot"));
}

#[test]
fn poll_loops_get_a_descriptor() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    await_event(&principal, is_joined);
    let fd = principal.notify_fd().unwrap();
    let readable = |timeout_ms: i64| {
        let mut fds = [rustix::event::PollFd::new(
            &fd,
            rustix::event::PollFlags::IN,
        )];
        let timeout = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: timeout_ms * 1_000_000,
        };
        rustix::event::poll(&mut fds, Some(&timeout)).unwrap() == 1
    };
    assert!(!readable(0));
    fake.publish(1, numbers(10 * MIB));
    eventually("it becomes readable", || readable(100));
    assert!(matches!(principal.wait(Duration::ZERO), Event::Changed(_)));
    assert!(matches!(principal.wait(Duration::ZERO), Event::Timeout(_)));
    assert!(!readable(0));
}

#[test]
fn caches_get_one_function() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).adapter("self").open().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let adaptive = plimsoll_client::Adaptive::on_change(principal, move |limit, owed| {
        send.send((limit, owed)).unwrap();
        owed
    })
    .unwrap();
    assert_eq!(
        receive.recv_timeout(SOON).unwrap(),
        (Bytes::mib(100), Bytes::ZERO)
    );
    let owed = Numbers {
        owed: 4 * MIB,
        deadline: 1,
        ..numbers(50 * MIB)
    };
    fake.publish(1, owed);
    while receive.recv_timeout(SOON).unwrap() != (Bytes::mib(50), Bytes::mib(4)) {}
    fake.until("what was let go is told", |state| state.released >= 4 * MIB);
    drop(adaptive);
    fake.until("and the end", |state| state.gone == [1]);
}

#[test]
fn a_maximum_of_zero_is_none() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let _principal = builder(&fake).max(Bytes::ZERO).open().unwrap();
    let asked = fake.state(|state| state.registered[0].max.bytes());
    assert_eq!(asked, None);
}

#[test]
fn bad_parameters_are_refused_before_they_are_sent() {
    let name = |builder: Builder| match builder.alone().open() {
        Err(Error::Refused(error)) => error.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(name(Principal::builder("a\nb")), ErrorName::BadName);
    assert_eq!(name(Principal::builder("")), ErrorName::BadName);
    assert_eq!(
        name(Principal::builder("x").weight(0)),
        ErrorName::BadWeight
    );
    assert_eq!(
        name(Principal::builder("x").priority(101)),
        ErrorName::BadPriority
    );
    assert_eq!(
        name(Principal::builder("x").max(Bytes(1))),
        ErrorName::BadMax
    );
    assert_eq!(
        name(Principal::builder("x").pid(0)),
        ErrorName::NoSuchProcess
    );
    assert_eq!(
        name(Principal::builder("x").group().cgroup("..")),
        ErrorName::BadCgroup
    );
}

/// An answer that is there is taken, however late the look for it is.
#[test]
fn a_stream_tells_at_once_what_has_come() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let _principal = builder(&fake).open().unwrap();
    let control = Connection::open(&Socket::at(fake.socket()), SOON).unwrap();
    let mut stream = control.subscribe(1).unwrap();
    // The first answer is what holds now.
    assert!(stream.next(SOON).unwrap().is_some());
    fake.publish(1, numbers(30 * MIB));
    let mut ready = [PollFd::new(&stream, PollFlags::IN)];
    let soon = Timespec {
        tv_sec: SOON.as_secs() as i64,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut ready, Some(&soon)), Ok(1));
    let changed = stream.next(Duration::ZERO).unwrap().expect("it is there");
    assert_eq!(changed.numbers.limit, 30 * MIB);
}

/// A child that was forked has the descriptors, too.
#[test]
fn a_principal_ends_although_a_forked_child_lives_on() {
    let directory = directory();
    let fake = Fake::start(directory.path(), Script::Good);
    let principal = builder(&fake).open().unwrap();
    // SAFETY: the child only waits for a signal, which the kernel also sends when our thread ends.
    let child = unsafe {
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
            child => child,
        }
    };
    assert!(child > 0);
    drop(principal);
    fake.until("its registration ends", |state| state.gone.contains(&1));
    // SAFETY: the child is ours, and was not waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}
