//! Where a broker is looked for, and which sockets are not trusted.

use plimsoll_client::{Connection, Error, Principal, Socket, Source, Surroundings, TIMEOUT};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn paths(around: &Surroundings) -> Vec<PathBuf> {
    Socket::candidates(around)
        .iter()
        .map(|socket| socket.path().to_owned())
        .collect()
}

#[test]
fn places_are_looked_at_in_order() {
    let mut around = Surroundings {
        uid: 1234,
        ..Surroundings::default()
    };
    let rest = [
        "/tmp/plimsoll-1234/broker.sock",
        "/run/plimsoll/broker.sock",
    ]
    .map(PathBuf::from);
    let by_user = PathBuf::from("/run/user/1234/plimsoll/broker.sock");
    assert_eq!(
        paths(&around),
        [std::slice::from_ref(&by_user), &rest[..]].concat()
    );
    around.runtime_dir = Some("/x".into());
    let runtime = PathBuf::from("/x/plimsoll/broker.sock");
    assert_eq!(
        paths(&around),
        [&[runtime, by_user.clone()], &rest[..]].concat()
    );
    around.runtime_dir = Some("/run/user/1234".into());
    assert_eq!(
        paths(&around),
        [&[by_user], &rest[..]].concat(),
        "not twice"
    );
    around.home = Some("/h".into());
    let home = PathBuf::from("/h/.cache/plimsoll/broker.sock");
    assert_eq!(paths(&around)[2], home, "after those, before the system's");
    around.socket = Some("/y.sock".into());
    assert_eq!(
        paths(&around),
        [PathBuf::from("/y.sock")],
        "and nothing else"
    );
    assert_eq!(Socket::at("/a/b.sock").page_of(7), Path::new("/a/pages/7"));
}

/// A user number that nobody on this machine and no other run of this test has.
fn user(nth: u32) -> u32 {
    3_000_000_000 + std::process::id() % 100_000_000 * 10 + nth
}

/// The socket in a directory of that user.
fn socket_of(uid: u32, directory: &Path) -> Socket {
    let around = Surroundings {
        uid,
        ..Surroundings::default()
    };
    let mut candidates = Socket::candidates(&around).into_iter();
    candidates
        .find(|socket| socket.path().starts_with(directory))
        .unwrap()
}

/// With the directory of such a user: `/tmp/plimsoll-UID` is ours to make.
fn with_directory(nth: u32, test: impl FnOnce(&Path, &dyn Fn() -> Error)) {
    let uid = user(nth);
    let directory = PathBuf::from(format!("/tmp/plimsoll-{uid}"));
    let _ = std::fs::remove_dir_all(&directory);
    let _ = std::fs::remove_file(&directory);
    let socket = socket_of(uid, &directory);
    struct Remove<'a>(&'a Path);
    impl Drop for Remove<'_> {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0);
            let _ = std::fs::remove_file(self.0);
        }
    }
    let _remove = Remove(&directory);
    test(&directory, &|| {
        Connection::open(&socket, TIMEOUT).unwrap_err()
    });
}

#[test]
fn a_directory_in_tmp_has_to_be_the_users_own() {
    with_directory(1, |directory, open| {
        assert!(open().is_absent(), "nothing there is no attack");
        std::fs::create_dir(directory).unwrap();
        let error = open();
        assert!(matches!(error, Error::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("belongs to user"), "{error}");
    });
    with_directory(2, |directory, open| {
        symlink("/tmp", directory).unwrap();
        assert!(open().to_string().contains("not a directory"));
    });
    let me = rustix::process::getuid().as_raw();
    if me != 0 {
        println!("skipped in part: giving a directory away needs root");
        return;
    }
    with_directory(3, |directory, open| {
        std::fs::create_dir(directory).unwrap();
        std::os::unix::fs::chown(directory, Some(user(3)), None).unwrap();
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(open().to_string().contains("others than its owner"));
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(open().is_absent(), "trusted, but nobody listens");
    });
}

#[test]
fn a_program_whose_place_another_user_took_is_alone_and_says_why() {
    with_directory(4, |directory, _| {
        symlink("/tmp", directory).unwrap();
        let socket = socket_of(user(4), directory);
        let principal = Principal::builder("p").socket(socket).open().unwrap();
        assert_eq!(principal.read().source, Source::Local);
        let error = principal.last_error().unwrap();
        assert!(error.contains("not a directory"), "{error}");
    });
}

#[test]
fn what_cannot_be_connected_to_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let error = Connection::open(&Socket::at(&path), TIMEOUT).unwrap_err();
    assert!(error.is_absent() && error.to_string().contains(path.to_str().unwrap()));
    std::fs::write(&path, "no socket").unwrap();
    assert!(
        Connection::open(&Socket::at(&path), TIMEOUT)
            .unwrap_err()
            .is_absent()
    );
    let long = format!("/tmp/{}", "x".repeat(200));
    assert!(
        Connection::open(&Socket::at(long), TIMEOUT)
            .unwrap_err()
            .is_absent()
    );
    let places = [Socket::at("/nowhere/a"), Socket::at("/nowhere/b")];
    let error = Connection::first(&places, TIMEOUT).unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/a, /nowhere/b"),
        "{error}"
    );
}

#[test]
fn a_full_queue_is_waited_for_and_not_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let socket = Socket::at(&path);
    let short = Duration::from_millis(30);
    let mut held = Vec::new();
    let error = (0..10_000).find_map(|_| match Connection::open(&socket, short) {
        Ok(connection) => {
            held.push(connection);
            None
        }
        Err(error) => Some(error),
    });
    assert!(error.unwrap().is_absent());
    let error = held[0].info().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        matches!(held[0].info(), Err(Error::Closed { .. })),
        "of no use any more"
    );
}
