use super::*;
use crate::launch::{Plan, prepare_in};
use crate::testing::with_variables;
use plimsoll_programs::Setting;
use plimsoll_testbed::skip;
use std::ffi::OsString;
use std::path::Path;

fn libraries(drop_in: &str) -> Libraries {
    Libraries {
        drop_in: Some(drop_in.into()),
        adapter: Some("/p/lib/plimsoll/libplimsoll_libgc.so".into()),
    }
}

const INSTALLED: &str = "/p/lib/plimsoll/gc/libgc.so.1";
const AGENT: &str = "/p/lib/plimsoll/libplimsoll_libgc.so";

/// The variables that are set when these are present, as `NAME=VALUE` each.
fn put(libraries: &Libraries, wish: Wish, variables: &[(&str, &str)]) -> Vec<String> {
    let put = with_variables(variables, |setting| libraries.put(wish, None, setting));
    let shown =
        |(name, value): &(OsString, OsString)| format!("{}={}", name.display(), value.display());
    put.environment.iter().map(shown).collect()
}

#[test]
fn the_drop_in_is_found_by_its_name_where_it_has_one() {
    let installed = libraries(INSTALLED);
    let path = "LD_LIBRARY_PATH=/p/lib/plimsoll/gc";
    assert_eq!(put(&installed, Wish::Any, &[]), [path]);
    let kept = put(&installed, Wish::DropIn, &[("LD_LIBRARY_PATH", "/a::/b")]);
    assert_eq!(kept, [format!("{path}:/a::/b")]);
    let built = libraries("/t/release/libplimsoll_gc.so");
    let preloaded = put(&built, Wish::Any, &[("LD_PRELOAD", "/x.so")]);
    assert_eq!(preloaded, ["LD_PRELOAD=/t/release/libplimsoll_gc.so:/x.so"]);
}

#[test]
fn nothing_is_put_twice() {
    let installed = libraries(INSTALLED);
    let there = [("LD_LIBRARY_PATH", "/p/lib/plimsoll/gc:/a")];
    assert_eq!(put(&installed, Wish::Any, &there), [""; 0]);
    let there = [("LD_PRELOAD", AGENT)];
    assert_eq!(put(&installed, Wish::Stock, &there), [""; 0]);
}

#[test]
fn the_systems_is_taken_on_demand_and_never_with_the_drop_in() {
    let installed = libraries(INSTALLED);
    let inherited = [("LD_LIBRARY_PATH", "/a:/p/lib/plimsoll/gc:/b")];
    assert_eq!(
        put(&installed, Wish::Stock, &inherited),
        [
            "LD_LIBRARY_PATH=/a:/b".to_owned(),
            format!("LD_PRELOAD={AGENT}")
        ]
    );
    let preload = format!("{AGENT} /x.so");
    let inherited = [("LD_PRELOAD", preload.as_str())];
    assert_eq!(
        put(&installed, Wish::DropIn, &inherited),
        ["LD_LIBRARY_PATH=/p/lib/plimsoll/gc", "LD_PRELOAD=/x.so"]
    );
    assert_eq!(
        put(&installed, Wish::Any, &inherited),
        [format!("LD_PRELOAD={AGENT}:/x.so")],
        "who preloaded the adapter meant the system's"
    );
}

#[test]
fn without_a_drop_in_it_is_the_systems_and_without_both_nothing() {
    let mut left = libraries(INSTALLED);
    left.drop_in = None;
    for wish in [Wish::Any, Wish::DropIn, Wish::Stock] {
        assert_eq!(put(&left, wish, &[]), [format!("LD_PRELOAD={AGENT}")]);
    }
    left.adapter = None;
    assert_eq!(put(&left, Wish::Any, &[]), [""; 0]);
    let only = Libraries {
        adapter: None,
        ..libraries(INSTALLED)
    };
    let inherited = [("LD_LIBRARY_PATH", "/p/lib/plimsoll/gc")];
    assert_eq!(
        put(&only, Wish::Stock, &inherited),
        ["LD_LIBRARY_PATH="],
        "the system's it is, also without the adapter"
    );
}

#[test]
fn they_lie_beside_the_program_or_are_installed() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        path
    };
    let program = write("bin/plimsoll");
    let none = Libraries::of(&program);
    assert_eq!((none.drop_in, none.adapter), (None, None));
    let installed = write("lib/plimsoll/gc/libgc.so.1");
    let adapter = write("lib/plimsoll/libplimsoll_libgc.so");
    let found = Libraries::of(&program);
    assert_eq!(found.drop_in, Some(installed));
    assert_eq!(found.adapter, Some(adapter));
    let beside = write("bin/libplimsoll_gc.so");
    assert_eq!(Libraries::of(&program).drop_in, Some(beside));
}

#[test]
fn a_libgc_says_its_version() {
    let Some(system) = system() else {
        skip("there is no libgc.so.1 (Debian: libgc1)");
        return;
    };
    let version = version(&system).unwrap();
    assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()));
    assert!(super::version(Path::new("/nonexistent/libgc.so.1")).is_err());
}

/// A program of ours in a folder, and what lies beside it.
fn beside(names: &[&str]) -> (tempfile::TempDir, Plan) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let plan = Plan {
        said: Some(NAME),
        own: Some(folder.path().join("plimsoll")),
        ..Plan::default()
    };
    (folder, plan)
}

#[test]
fn what_is_said_to_use_libgc_is_given_its_adapter() {
    let nothing = Setting {
        variables: &|_: &str| None,
        folder: Path::new(""),
    };
    let agent = "libplimsoll_libgc.so";
    let (folder, plan) = beside(&[agent]);
    let prepared = prepare_in(&["./tool.scm".into()], &plan, &nothing);
    assert_eq!(
        prepared.environment,
        [(
            "LD_PRELOAD".into(),
            folder.path().join(agent).into_os_string()
        )]
    );
    assert_eq!(prepared.adapter, Some("libgc"));
    let (_folder, nothing_there) = beside(&[]);
    let prepared = prepare_in(&["./tool.scm".into()], &nothing_there, &nothing);
    assert_eq!((prepared.adapter, prepared.environment.len()), (None, 0));
}

#[test]
fn a_set_user_id_program_is_passive() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, plan) = beside(&["tool", "libplimsoll_gc.so"]);
    let program = folder.path().join("tool");
    let adapter = |mode| {
        std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
        let argv = [program.clone().into_os_string()];
        prepare_in(&argv, &plan, &Setting::ours()).adapter
    };
    assert_eq!(adapter(0o755), Some("libgc"));
    // The owner is already our user, so starting it gives no rights and the loader accepts the
    // variables.
    assert_eq!(adapter(0o4755), Some("libgc"));
    if std::os::unix::fs::chown(&program, Some(4711), None).is_ok() {
        assert_eq!(adapter(0o4755), None);
        assert_eq!(adapter(0o755), Some("libgc"));
    }
}

#[test]
fn what_was_chosen_says_which_collector_it_gets() {
    let (_folder, plan) = beside(&["libplimsoll_gc.so", "libplimsoll_libgc.so"]);
    let nothing = Setting {
        variables: &|_: &str| None,
        folder: Path::new(""),
    };
    for (said, file) in [(NAME, "libplimsoll_gc.so"), (STOCK, "libplimsoll_libgc.so")] {
        let plan = Plan {
            said: Some(said),
            ..plan.clone()
        };
        let prepared = prepare_in(&["./tool.scm".into()], &plan, &nothing);
        let [(_, preloaded)] = &prepared.environment[..] else {
            panic!("{said}: {:?}", prepared.environment);
        };
        assert!(Path::new(preloaded).ends_with(file), "{said}");
        assert_eq!(prepared.adapter, Some(NAME));
    }
}
