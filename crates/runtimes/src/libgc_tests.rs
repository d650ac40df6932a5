use super::*;
use plimsoll_testbed::skip;

fn libraries(drop_in: &str) -> Libraries {
    Libraries {
        drop_in: Some(drop_in.into()),
        adapter: Some("/p/lib/plimsoll/libplimsoll_libgc.so".into()),
    }
}

const INSTALLED: &str = "/p/lib/plimsoll/gc/libgc.so.1";
const AGENT: &str = "/p/lib/plimsoll/libplimsoll_libgc.so";

/// What is put beside these variables, as `NAME=VALUE` each.
fn put(libraries: &Libraries, wish: Wish, variables: &[(&str, &str)]) -> Vec<String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let setting = Setting {
        variables: &variable,
        folder: Path::new(""),
    };
    let put = libraries.put(wish, None, &setting);
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
