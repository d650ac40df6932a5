//! `plimsoll sim`, `together` and `trace`: they are those of `plimsoll-lab`, where that is installed.

mod common;

use common::{OWN, Place, stderr};
use plimsoll_testbed::children::copy_program;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Says what it was called with, and ends with a status of its own.
const LAB: &str = "#!/bin/sh\necho \"$0 $*\"\nexit 7\n";

/// A copy of `plimsoll` that has nothing beside it.
fn alone(place: &Place) -> PathBuf {
    let own = place.path("bin/plimsoll");
    fs::create_dir(place.path("bin")).unwrap();
    if fs::hard_link(OWN, &own).is_err() {
        copy_program(OWN, &own).unwrap();
    }
    own
}

fn lab_in(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let lab = folder.join("plimsoll-lab");
    fs::write(&lab, LAB).unwrap();
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o755)).unwrap();
    lab
}

fn call(place: &Place, own: &Path, args: &[&str]) -> Output {
    let mut command = place.program(own.to_str().unwrap(), args);
    let path = format!("{}:/usr/bin:/bin", place.path("elsewhere").display());
    command.env("PATH", path).output().unwrap()
}

#[test]
fn where_there_is_none_its_package_is_named() {
    let place = Place::new();
    let own = alone(&place);
    for name in ["sim", "together", "trace"] {
        let output = call(&place, &own, &[name, "x"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with(&format!("plimsoll: `plimsoll {name}` is in `plimsoll-lab`"))
                && said.contains("install the package plimsoll-lab"),
            "{said}"
        );
    }
    let help = call(&place, &own, &["--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    for name in ["sim", "together", "trace"] {
        assert!(help.contains(&format!("\n  {name} ")), "{help}");
    }
}

#[test]
fn the_one_beside_comes_before_the_one_in_path() {
    let place = Place::new();
    let own = alone(&place);
    for folder in ["elsewhere", "bin"] {
        let lab = lab_in(&place.path(folder));
        let args = ["trace", "-o", "x", "--", "java", "--", "-V"];
        let output = call(&place, &own, &args);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told, format!("{} {}\n", lab.display(), args.join(" ")));
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    }
}
