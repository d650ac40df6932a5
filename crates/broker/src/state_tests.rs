//! Tests of the state: which principals are recognised, which are dropped, and unusable files.

use super::*;
use plimsoll_wire::messages::{Kind, Max, Priority, Weight};

fn kept(id: Id, weight: u32) -> Kept {
    Kept {
        id,
        parent: None,
        kind: Kind::Process,
        weight: Weight::new(weight).unwrap(),
        priority: Priority::default(),
        own_weight: Weight::default(),
        own_priority: Priority::default(),
        max: Max::NONE,
    }
}

/// Loads the state as if all its processes lived.
fn load(path: &Path) -> State {
    State::load_if(path, usize::MAX, |_| true)
}

fn identity(name: &str, process: Option<(i32, u64)>) -> Identity {
    Identity {
        uid: 7,
        name: name.into(),
        process,
        group: false,
    }
}

fn group(name: &str, keeper: Option<(i32, u64)>) -> Identity {
    Identity {
        group: true,
        ..identity(name, keeper)
    }
}

#[test]
fn a_group_is_that_of_its_keeper() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let mut state = load(&path);
    let of = |start| group("shop", Some((9, start)));
    let all = [
        (of(1), kept(1, 10), None),
        (of(2), kept(2, 20), None),
        (group("rest", Some((9, 2))), kept(3, 30), None),
    ];
    state.write(all.into_iter(), 5, Nanos(1));
    let mut state = load(&path);
    assert_eq!(state.rejoin(&of(3)), None, "another run of the same file");
    assert_eq!(state.rejoin(&of(2)).unwrap().weight.get(), 20);
    assert_eq!(state.rejoin(&of(1)).unwrap().weight.get(), 10);
    assert_eq!(
        state
            .rejoin(&group("rest", Some((9, 2))))
            .unwrap()
            .weight
            .get(),
        30
    );
}

#[test]
fn who_comes_back_is_known_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let mut state = load(&path);
    let (process, shop) = (identity("a", Some((12, 99))), group("g", None));
    let home = PathBuf::from("/sys/fs/cgroup/memory/plimsoll/0000beef-3-a");
    let kept_home = KeptHome {
        directory: home.clone(),
        swappiness: Some(60),
    };
    let all = [
        (process, kept(3, 40), Some(kept_home.clone())),
        (shop.clone(), kept(4, 50), None),
    ];
    assert!(state.write(all.into_iter(), 5, Nanos(1)));
    let mut state = load(&path);
    assert!(state.homes().eq([home.as_path()]));
    assert!(state.kept_homes().eq([kept_home]));
    assert_eq!(state.next_id(), 5);
    assert_eq!(state.awaits(3), Some(7));
    assert_eq!(state.rejoin(&identity("a", Some((12, 100)))), None);
    assert_eq!(
        state
            .rejoin(&identity("renamed", Some((12, 99))))
            .unwrap()
            .weight
            .get(),
        40
    );
    assert_eq!(state.rejoin(&identity("a", Some((12, 99)))), None);
    assert_eq!(state.rejoin(&group("other", None)), None);
    assert_eq!(state.rejoin(&shop).unwrap().weight.get(), 50);
}

#[test]
fn a_broken_state_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    for text in [
        "",
        "{",
        "[]",
        "{\"version\":9,\"next_id\":1,\"principals\":[]}",
        "\u{0}\u{1}",
    ] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(load(&path).next_id(), 1);
        assert!(!path.exists() && path.with_extension("json.bad").exists());
    }
}

/// The state file is not trusted: it cannot give a weight that no client could set.
#[test]
fn a_state_with_an_impossible_weight_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let one = [(group("g", None), kept(3, 40), None)];
    load(&path).write(one.into_iter(), 9, Nanos(1));
    let text = std::fs::read_to_string(&path).unwrap();
    let spoilt = text.replace("\"weight\":40", "\"weight\":0");
    std::fs::write(&path, &spoilt).unwrap();
    let refused = read(&path).unwrap_err();
    assert!(refused.starts_with("weight 0 is out of range"), "{refused}");
    assert_eq!(load(&path).next_id(), 1);
    assert!(!path.exists() && path.with_extension("json.bad").exists());
}

#[test]
fn a_refusing_file_system_is_tried_again_later() {
    let mut state = load(Path::new("/proc/no/state.json"));
    state.touch();
    state.write(std::iter::empty(), 1, Nanos(10));
    assert!(!state.is_due(Nanos(11)));
    assert!(state.is_due(Nanos(11) + RETRY));
}

/// The identity of a process, or of one that never existed.
fn of(process: Option<&Process>) -> Identity {
    let instance = process.map_or((i32::MAX, 1), |process| {
        (process.pid(), process.start_time())
    });
    identity("p", Some(instance))
}

#[test]
fn the_dead_are_forgotten_and_a_number_of_anothers_is_none_of_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let own = Process::own().unwrap();
    let (living, dead) = (of(Some(&own)), of(None));
    let other = identity("p", Some((own.pid(), own.start_time() + 1)));
    let nobody = group("g", None);
    let all =
        [&living, &dead, &other, &nobody].map(|identity| (identity.clone(), kept(3, 40), None));
    load(&path).write(all.clone().into_iter(), 9, Nanos(1));
    let mut state = State::load(&path, 100);
    assert_eq!(state.next_id(), 9);
    assert!(state.is_due(Nanos(1)), "the file still has them");
    state.dirty = false;
    assert!(state.rejoin(&dead).is_none() && state.rejoin(&other).is_none());
    assert_eq!(state.waiting.len(), 2);
    // Processes that died later are dropped as well, some at a time; those that cannot be seen are
    // waited for.
    state
        .waiting
        .insert(dead.key(), load(&path).waiting[&dead.key()].clone());
    state.forget_dead(state.read_at);
    assert!(state.is_due(Nanos(1)) && state.waiting.len() == 2);
    state.forget_dead(state.read_at + WAIT);
    assert!(state.rejoin(&nobody).is_none() && state.rejoin(&living).is_some());
}

#[test]
fn one_users_entries_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let mut state = load(&path);
    let name = |n: u32| format!("g{n}");
    let many = (0..50).map(|n| (group(&name(n), None), kept(n.into(), 10), None));
    let mut other = group("other", None);
    other.uid = 8;
    let all: Vec<_> = many.chain([(other.clone(), kept(99, 20), None)]).collect();
    state.write(all.into_iter(), 100, Nanos(1));
    let mut state = State::load(&path, 10);
    assert_eq!(state.waiting.len(), 11);
    // Entries do not accumulate from one broker to the next.
    let again = (0..10).map(|n| (group(&name(200 + n), None), kept(n.into(), 10), None));
    state.write(again, 100, Nanos(1));
    let mut state = State::load(&path, 10);
    assert_eq!(state.waiting.len(), 11);
    assert_eq!(state.rejoin(&other).unwrap().weight.get(), 20);
}
