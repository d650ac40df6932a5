//! Programs under `plimsoll run` whose surroundings change: groups that shrink, grow, are frozen or
//! removed, brokers inside brokers, newcomers while others hold all memory. None of this may end a
//! program that would live without us.

mod common;

use common::ground::{
    alone, classes, freeze, group, jdk, printed, run_in, swap, within, without_swap,
};
use common::{Place, Started, alive, signal_to, wait_for};
use plimsoll_testbed::TestCgroup;
use plimsoll_unit::{Bytes, MIB};
use std::path::Path;
use std::time::Duration;

/// A program that keeps some megabytes, replaces some of them, and prints once per second how much it
/// allocated.
const CHURN: &str = "crates/runtimes/tests/java/Churn.java";
const SERVICE: &str = "bench/programs/Service.java";

/// Starts a Java program of this version that keeps 60 MB, in this group.
fn churn(place: &Place, group: &TestCgroup, program: (&str, u32), classes: &str) -> Started {
    churn_on(place, group, program, classes, ("-XX:+UseG1GC", "60"))
}

/// Likewise on this collector, with this many MB alive.
fn churn_on(
    place: &Place,
    group: &TestCgroup,
    (name, version): (&str, u32),
    classes: &str,
    (collector, live): (&str, &str),
) -> Started {
    let java = jdk(version);
    let words = [&java, collector, "-cp", classes, "Churn", live, "100"];
    run_in(place, group, name, &words)
}

/// How many lines the program has printed. Asserts that no other process printed any.
fn lines(place: &Place, name: &str) -> usize {
    let text = printed(place, name);
    let plain = |line: &str| line.chars().all(|c| c.is_ascii_digit() || ". ".contains(c));
    assert!(text.lines().all(plain), "{name} printed {text}");
    text.lines().count()
}

/// Asserts that the program goes on: it prints more, and its adapter sees collections.
fn goes_on(place: &Place, name: &str) {
    all_go_on(place, &[name]);
}

/// Asserts that each of the programs goes on, all in the same time.
fn all_go_on(place: &Place, names: &[&str]) {
    let programs: Vec<_> = names.iter().map(|name| (place, *name)).collect();
    each_goes_on(&programs);
}

/// As [`all_go_on`], for programs at several places.
fn each_goes_on(programs: &[(&Place, &str)]) {
    let now = |(place, name): &(&Place, &str)| (lines(place, name), collections(place, name));
    let then: Vec<_> = programs.iter().map(now).collect();
    for ((place, name), (before, collected)) in programs.iter().zip(then) {
        wait_for(&format!("{name} works and is steered"), || {
            (lines(place, name) > before + 2 && collections(place, name) > collected).then_some(())
        });
    }
}

fn collections(place: &Place, name: &str) -> Option<u64> {
    place.principal(name).and_then(|p| p.collections)
}

fn is_steered(place: &Place, name: &str) -> u32 {
    let steered = || {
        place
            .principal(name)
            .filter(|p| p.collections.is_some())?
            .pid
    };
    wait_for(&format!("{name} is steered"), steered)
}

fn capacity_is(place: &Place, bytes: u64) {
    wait_for("the broker sees the new limit", || {
        place.listing().filter(|l| l.capacity == bytes)
    });
}

#[test]
fn a_group_that_becomes_smaller_and_larger_ends_no_program() {
    let _alone = alone();
    let place = Place::new();
    let (Some(classes), Some(group)) = (classes(&place, &[CHURN]), group("resized", 500 * MIB))
    else {
        return;
    };
    let Some(_swap) = swap(&place) else { return };
    let _java = churn(&place, &group, ("j", 11), &classes);
    let script =
        "x=$(head -c 30000000 /dev/zero | tr '\\0' x); while :; do echo ${#x}; sleep 0.2; done";
    let mut plain = run_in(&place, &group, "plain", &["sh", "-c", script]);
    let pid = is_steered(&place, "j");
    wait_for("the shell works", || {
        (lines(&place, "plain") > 1).then_some(())
    });
    // Halve the limit, set it below the live bytes, then raise it above the first value.
    for limit in [250, 120, 800] {
        // The kernel refuses while it cannot page out as fast as is used.
        wait_for("the limit is set", || {
            group.cgroup().set_limit(Some(Bytes(limit * MIB))).ok()
        });
        capacity_is(&place, limit * MIB);
        goes_on(&place, "j");
        if limit == 120 {
            wait_for("what lives does not fit", || {
                let swapped = group.cgroup().swapped();
                swapped.is_ok_and(|bytes| bytes > Bytes(MIB)).then_some(())
            });
        }
        let before = lines(&place, "plain");
        wait_for("the shell works on", || {
            (lines(&place, "plain") > before + 2).then_some(())
        });
        let all = place.listing().unwrap();
        let limits: u64 = all.principals.iter().map(|p| p.limit).sum();
        assert!(limits <= limit * MIB, "{limits} of {limit} MiB");
    }
    wait_for("it has what there is", || {
        place.principal("j").filter(|p| p.limit > 250 * MIB)
    });
    assert!(alive(pid) && plain.0.try_wait().unwrap().is_none());
    assert_eq!(group.killed(), 0);
}

/// Where nothing can be paged out, cgroup v1 takes a smaller limit only once the programs use less, and
/// the kernel would kill if they used more afterwards.
#[test]
fn a_limit_that_falls_without_swap_is_followed() {
    let _alone = alone();
    for (version, collector) in [(21, "-XX:+UseG1GC"), (17, "-XX:+UseSerialGC")] {
        let place = Place::new();
        let (Some(classes), Some(group)) = (classes(&place, &[CHURN]), group("falls", 500 * MIB))
        else {
            return;
        };
        if !without_swap(&group, 500 * MIB) {
            return;
        }
        let _java = churn_on(&place, &group, ("j", version), &classes, (collector, "60"));
        let pid = is_steered(&place, "j");
        goes_on(&place, "j");
        for limit in [400, 300] {
            wait_for("the limit is set", || {
                let set = group.cgroup().set_limit(Some(Bytes(limit * MIB))).ok()?;
                (set == Some(Bytes(limit * MIB))).then_some(())
            });
            capacity_is(&place, limit * MIB);
            goes_on(&place, "j");
        }
        wait_for("it follows", || {
            place
                .principal("j")
                .filter(|p| p.owed == 0 && p.uses < 300 * MIB)
        });
        // Less than lives is refused, or set only as far as it can be.
        let set = group.cgroup().set_limit(Some(Bytes::mib(60)));
        assert!(
            !matches!(set, Ok(Some(set)) if set <= Bytes::mib(60)),
            "{set:?}"
        );
        goes_on(&place, "j");
        assert!(alive(pid));
        assert_eq!(group.killed(), 0);
    }
}

#[test]
fn who_is_stopped_while_it_owes_is_unharmed_and_others_are_served() {
    let _alone = alone();
    let place = Place::new();
    let (Some(classes), Some(group)) = (classes(&place, &[CHURN]), group("stopped", 500 * MIB))
    else {
        return;
    };
    let Some(_swap) = swap(&place) else { return };
    let programs = [("a", 21), ("b", 17)];
    let _running = programs.map(|program| churn(&place, &group, program, &classes));
    let pid = is_steered(&place, "a");
    is_steered(&place, "b");
    goes_on(&place, "a");
    signal_to(pid, libc::SIGSTOP);
    // Both would have to give memory back for the newcomer.
    let _newcomer = churn(&place, &group, ("c", 17), &classes);
    is_steered(&place, "c");
    // Long enough for commands to the stopped machine to time out.
    for _ in 0..3 {
        all_go_on(&place, &["b", "c"]);
    }
    signal_to(pid, libc::SIGCONT);
    all_go_on(&place, &["a", "b", "c"]);
    // Stop the broker instead: that does no harm either.
    let broker = place.listing().unwrap().pid;
    signal_to(broker, libc::SIGSTOP);
    let before = lines(&place, "a");
    wait_for("programs need no broker to work", || {
        (lines(&place, "a") > before + 5).then_some(())
    });
    signal_to(broker, libc::SIGCONT);
    all_go_on(&place, &["a", "b", "c"]);
    assert_eq!(group.killed(), 0);
}

/// A container is paused (`docker pause`): the program and its adapter stand still together.
#[test]
fn what_is_frozen_while_it_owes_is_unharmed_and_others_are_served() {
    let _alone = alone();
    let place = Place::new();
    let (Some(classes), Some(group)) = (classes(&place, &[CHURN]), group("frozen", 500 * MIB))
    else {
        return;
    };
    let Some(part) = within(&group, "part", None) else {
        return;
    };
    let Some(_swap) = swap(&place) else { return };
    // The broker comes with the first program, so it is not frozen.
    let _first = churn(&place, &group, ("b", 17), &classes);
    is_steered(&place, "b");
    let _second = churn(&place, &part, ("a", 21), &classes);
    let pid = is_steered(&place, "a");
    all_go_on(&place, &["a", "b"]);
    let Some(frozen) = freeze(&part) else { return };
    let stood = lines(&place, "a");
    // Both would have to give memory back for the newcomer.
    let _newcomer = churn(&place, &group, ("c", 11), &classes);
    is_steered(&place, "c");
    for _ in 0..3 {
        all_go_on(&place, &["b", "c"]);
    }
    assert_eq!(lines(&place, "a"), stood, "it stands still");
    assert!(alive(pid));
    drop(frozen);
    all_go_on(&place, &["a", "b", "c"]);
    assert_eq!((group.killed(), part.killed()), (0, 0));
}

/// Moves all processes of a group and of the groups within it, and removes these groups.
fn dissolve(dir: &Path, into: &TestCgroup) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for path in entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        dissolve(&path, into);
    }
    let members = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| line.parse().ok()) {
        // A process that has just ended cannot be moved, and need not be.
        let _ = into.cgroup().add(pid);
    }
    let _ = std::fs::remove_dir(dir);
}

#[test]
fn a_program_whose_group_is_removed_is_steered_in_the_next() {
    let _alone = alone();
    let place = Place::new();
    let (Some(classes), Some(outer)) = (classes(&place, &[CHURN]), group("moved", 700 * MIB))
    else {
        return;
    };
    let Some(next) = within(&outer, "next", Some(400 * MIB)) else {
        return;
    };
    let Some(first) = within(&outer, "first", Some(500 * MIB)) else {
        return;
    };
    let _java = churn(&place, &first, ("j", 25), &classes);
    let pid = is_steered(&place, "j");
    let gone = first.cgroup().dir().to_path_buf();
    wait_for("the group is empty and gone", || {
        dissolve(&gone, &next);
        (!gone.exists()).then_some(())
    });
    capacity_is(&place, 400 * MIB);
    goes_on(&place, "j");
    let _other = churn(&place, &next, ("other", 17), &classes);
    is_steered(&place, "other");
    goes_on(&place, "j");
    assert!(alive(pid));
}

/// The outer broker has the whole group, the inner one a group within with programs of its own. `live`
/// is how many MB each of the four programs keeps.
fn nested(swap_there: bool, live: &str) {
    let (around, inside) = (Place::new(), Place::new());
    let (Some(classes), Some(outer)) = (classes(&around, &[CHURN]), group("outer", 700 * MIB))
    else {
        return;
    };
    let Some(inner) = within(&outer, "inner", Some(300 * MIB)) else {
        return;
    };
    let swap = swap_there.then(|| swap(&around)).flatten();
    let all = [(&outer, 700 * MIB), (&inner, 300 * MIB)];
    let bounded = |(group, limit): (&TestCgroup, u64)| without_swap(group, limit);
    if swap.is_none() && (swap_there || !all.into_iter().all(bounded)) {
        return;
    }
    let on = ("-XX:+UseG1GC", live);
    let programs = [("a", 17), ("b", 25)];
    let _around = programs.map(|program| churn_on(&around, &outer, program, &classes, on));
    all_go_on(&around, &["a", "b"]);
    let programs = [("c", 17), ("d", 21)];
    let _inside = programs.map(|program| churn_on(&inside, &inner, program, &classes, on));
    for name in ["c", "d"] {
        is_steered(&inside, name);
    }
    let all = [
        (&around, "a"),
        (&around, "b"),
        (&inside, "c"),
        (&inside, "d"),
    ];
    for _ in 0..6 {
        each_goes_on(&all);
        // Which of the two groups has less room changes all the time, but the inner broker's budget
        // must not.
        // A broker that got no processor for long may just have lost its clients, which come back.
        let listing = wait_for("both are principals of the inner broker", || {
            let listing = inside.listing()?;
            (listing.principals.len() == 2).then_some(listing)
        });
        assert_eq!(listing.capacity, 300 * MIB);
        assert!(listing.budget > 120 * MIB, "{listing:?}");
        assert!(outer.cgroup().usage().unwrap() <= Bytes::mib(700));
    }
    assert_eq!((outer.killed(), inner.killed()), (0, 0));
}

#[test]
fn a_broker_within_the_group_of_another_has_its_part() {
    let _alone = alone();
    nested(true, "60");
}

#[test]
fn a_broker_within_the_group_of_another_has_its_part_without_swap() {
    let _alone = alone();
    nested(false, "20");
}

/// Three services hold all the memory of the group, then a fourth one starts.
fn newcomer(swap_there: bool, version: u32) {
    let place = Place::new();
    let (Some(classes), Some(group)) = (classes(&place, &[SERVICE]), group("full", 900 * MIB))
    else {
        return;
    };
    let swap = swap_there.then(|| swap(&place)).flatten();
    if swap.is_none() && (swap_there || !without_swap(&group, 900 * MIB)) {
        return;
    }
    let java = jdk(version);
    let service = |name: &str, live: &str| {
        let words = [
            "-XX:+UseG1GC",
            "-cp",
            &classes,
            "Service",
            live,
            "3000",
            "60000",
        ];
        run_in(
            &place,
            &group,
            name,
            &[&[java.as_str()], &words[..]].concat(),
        )
    };
    let names = ["s0", "s1", "s2"];
    let mut running: Vec<_> = names.map(|name| service(name, "112")).into();
    for name in names {
        is_steered(&place, name);
    }
    std::thread::sleep(Duration::from_secs(6));
    running.push(service("late", "60"));
    wait_for("it has its share, and holds some of it", || {
        let late = place.principal("late")?;
        let share = late.limit > 150 * MIB && late.limit + late.limit / 8 >= late.share;
        (share && late.uses > 100 * MIB && printed(&place, "late").contains("work")).then_some(())
    });
    for program in &mut running {
        assert!(program.0.try_wait().unwrap().is_none(), "all live");
    }
    assert_eq!(group.killed(), 0);
}

#[test]
fn who_comes_when_the_others_hold_all_gets_its_share() {
    let _alone = alone();
    newcomer(true, 11);
}

#[test]
fn who_comes_when_the_others_hold_all_gets_its_share_without_swap() {
    let _alone = alone();
    newcomer(false, 21);
}
