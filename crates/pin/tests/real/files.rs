//! Files that change under us.

use crate::common::*;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::page_size;
use plimsoll_pin::locked_files::Holder;
use plimsoll_pin::open_mapped::open_mapped;
use plimsoll_pin::pages::{BLOCK, PageSet};
use plimsoll_pin::{Options, Pinner};
use plimsoll_testbed::{Child, TestCgroup};
use plimsoll_unit::{Bytes, MIB, Nanos};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A program whose hot pages are held.
struct Scene {
    group: TestCgroup,
    dir: tempfile::TempDir,
    hot: PathBuf,
    program: Child,
    _stream: Child,
    pinner: Pinner,
}

fn scene(name: &str, options: Options) -> Option<Scene> {
    let group = group(name, 56 * MIB)?;
    let dir = directory();
    let hot = make_file(dir.path(), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let mut program = start_pages(&hot, Some(&group));
    program.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let stream = start_stream(&cold, Some(&group));
    program
        .until(PATIENCE, |p| p.major_faults > 15_000)
        .unwrap();
    let mut pinner = pinner(options, &[program.pid()]);
    tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    Some(Scene {
        group,
        dir,
        hot,
        program,
        _stream: stream,
        pinner,
    })
}

fn inodes(pinner: &Pinner) -> Vec<u64> {
    let mut all: Vec<u64> = pinner.held(1000).iter().map(|range| range.inode).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn a_replaced_file_is_followed() {
    let _one = alone();
    let Some(mut scene) = scene("pin-replaced", options()) else {
        return;
    };
    let old = key_of(&scene.hot);
    let next = make_file(scene.dir.path(), "next", FILE);
    std::fs::rename(&next, &scene.hot).unwrap();
    let new = key_of(&scene.hot);
    assert_ne!(old, new);

    // The program still has the old one mapped: it stays held.
    tick_for(&mut scene.pinner, 2);
    let held = scene.pinner.held(1000);
    let of_old = held.iter().find(|range| range.inode == old.inode);
    assert!(of_old.is_some_and(|range| range.deleted), "{held:?}");

    // A newer program maps the new one, and the old program ends.
    let newer = start_pages(&scene.hot, Some(&scene.group));
    let pids = vec![scene.program.pid(), newer.pid()];
    scene.pinner.watch(plimsoll_pin::Programs::Processes(pids));
    drop(std::mem::replace(&mut scene.program, newer));
    tick_until(&mut scene.pinner, "followed", |report, pinner| {
        let held = inodes(pinner);
        let of_new = held.contains(&new.inode) && !held.contains(&old.inode);
        report.held > AT_WORK && of_new
    });
}

/// A program that has memory enough maps the new file, and loses none of it.
#[test]
fn a_replaced_file_is_held_before_it_is_lost() {
    let _one = alone();
    let Some(mut scene) = scene("pin-replaced-early", options()) else {
        return;
    };
    let next = make_file(scene.dir.path(), "next", FILE);
    std::fs::rename(&next, &scene.hot).unwrap();
    let new = key_of(&scene.hot);
    let mut newer = start_pages(&scene.hot, None);
    newer.until(PATIENCE, |p| p.rounds >= 1).unwrap();
    let before = latest(&mut newer).major_faults;
    let pids = vec![scene.program.pid(), newer.pid()];
    scene.pinner.watch(plimsoll_pin::Programs::Processes(pids));
    tick_until(&mut scene.pinner, "followed", |_, pinner| {
        inodes(pinner).contains(&new.inode)
    });
    let after = latest(&mut newer).major_faults;
    assert!(after - before < 50, "it was not lost: {before} {after}");
}

#[test]
fn a_deleted_file_is_held_while_it_is_mapped() {
    let _one = alone();
    let Some(mut scene) = scene("pin-deleted", options()) else {
        return;
    };
    std::fs::remove_file(&scene.hot).unwrap();
    let report = tick_for(&mut scene.pinner, 4);
    assert!(report.held > AT_WORK, "{report:?}");
    drop(scene.program);
    tick_until(&mut scene.pinner, "released", |report, _| report.held == 0);
    assert!(scene.pinner.is_alone());
}

#[test]
fn a_truncated_file_is_let_go() {
    let _one = alone();
    let dir = directory();
    let path = make_file(dir.path(), "file", 4 * MIB);
    let page = Bytes(page_size());
    let key = key_of(&path);
    let mut holder = Holder::default();
    let mut wanted = BTreeMap::from([(key, PageSet::of(vec![0..512, 600..5000]))]);
    let mut open = |_: &_| open_by(&path, key);
    assert!(holder.want(wanted.clone(), &mut open).is_empty());
    // Pages beyond the end are not even tried.
    let (done, failures) = holder.work(Bytes::MAX, Nanos(u64::MAX));
    assert!(done && failures.is_empty(), "{failures:?}");
    assert_eq!(holder.bytes(), page * (512 + 1024 - 600));

    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(100 * page_size() + 1).unwrap();
    assert_eq!(holder.check(), 512 + 1024 - 600 - 101);
    assert_eq!(holder.bytes(), page * 101);
    // It grows again, which brings nothing back that was let go.
    file.set_len(4 * MIB).unwrap();
    assert_eq!(holder.check(), 0);
    let (_, failures) = holder.work(Bytes::MAX, Nanos(u64::MAX));
    assert!(
        failures.is_empty() && holder.bytes() == page * 101,
        "{failures:?}"
    );

    // Cut and written again between two checks: it has its size, but the pages are new.
    assert_eq!(holder.find_lost(), 0);
    file.set_len(0).unwrap();
    file.set_len(4 * MIB).unwrap();
    assert_eq!(holder.check(), 0);
    assert_eq!(holder.find_lost(), 101);
    assert_eq!(holder.bytes(), Bytes::ZERO);
    let (_, failures) = holder.work(Bytes::MAX, Nanos(u64::MAX));
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!((holder.bytes(), holder.find_lost()), (page * 101, 0));

    // A hole and the allowance.
    wanted.insert(key, PageSet::of(vec![50..900]));
    holder.want(wanted, &mut open);
    holder.work(page * 300, Nanos(u64::MAX));
    assert_eq!(holder.bytes(), page * 300);
    holder.shrink(page * 100, &[(key, 50..200)]);
    assert!(holder.bytes() <= page * 150, "{}", holder.bytes());
    holder.release_all();
    assert_eq!(holder.bytes(), Bytes::ZERO);
}

fn open_by(
    path: &Path,
    key: plimsoll_kernel::smaps::FileKey,
) -> Result<(plimsoll_pin::open_mapped::Opened, String), plimsoll_pin::PinError> {
    let name = path.to_str().unwrap().to_owned();
    let nowhere = 0x1000..0x2000;
    let opened = open_mapped(std::process::id() as i32, &nowhere, key, &name)?;
    assert!(opened.certain);
    Ok((opened, name))
}

#[test]
fn another_file_at_the_path_is_not_taken_for_the_mapped_one() {
    let dir = directory();
    let path = make_file(dir.path(), "file", MIB);
    let mut key = key_of(&path);
    key.inode += 1;
    let name = path.to_str().unwrap();
    let opened = open_mapped(std::process::id() as i32, &(0x1000..0x2000), key, name).unwrap();
    assert!(!opened.certain);
    let mut holder = Holder::default();
    let mut again = Some(opened);
    let wanted = BTreeMap::from([(key, PageSet::of(vec![0..BLOCK]))]);
    let failures = holder.want(wanted, &mut |_| {
        Ok((again.take().unwrap(), name.to_owned()))
    });
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(
        failures[0].1.to_string().contains("another file"),
        "{failures:?}"
    );
}

#[test]
fn devices_and_pipes_are_never_opened() {
    let nowhere = 0x1000..0x2000;
    let key = plimsoll_kernel::smaps::FileKey::default();
    let own = std::process::id() as i32;
    for name in ["/dev/zero", "/dev", "/proc/self/fd/0/x", "/nowhere"] {
        assert!(open_mapped(own, &nowhere, key, name).is_err(), "{name}");
    }
    let error = open_mapped(own, &nowhere, key, "/dev/null").unwrap_err();
    assert!(error.to_string().contains("regular file"), "{error}");
}

#[test]
fn a_sparse_file_larger_than_memory_is_followed_where_it_is_used() {
    let _one = alone();
    let Some(group) = group("pin-sparse", 56 * MIB) else {
        return;
    };
    let dir = directory();
    let path = make_file(dir.path(), "sparse", FILE);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let mut program = start_pages(&path, Some(&group));
    let _stream = start_stream(&cold, Some(&group));
    program
        .until(PATIENCE, |p| p.major_faults > 10_000)
        .unwrap();
    let mut pinner = pinner(options(), &[program.pid()]);
    // It grows meanwhile.
    file.set_len(1 << 41).unwrap();
    let end = clock::now() + PATIENCE.into();
    let report = tick_until(&mut pinner, "held", |r, _| {
        r.held > AT_WORK || clock::now() > end
    });
    assert!(report.held > 0, "{report:?}");
}

#[test]
fn a_file_of_an_overlay_is_held_from_outside_of_its_mount_namespace() {
    let _one = alone();
    let Some(group) = group("pin-overlay", 56 * MIB) else {
        return;
    };
    let dir = directory();
    for name in ["lower", "upper", "work", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    make_file(&dir.path().join("lower"), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let Some(mut program) = start_on_overlay(dir.path(), &group) else {
        return;
    };
    let _stream = start_stream(&cold, Some(&group));
    let lost = program.until(PATIENCE, |p| p.major_faults > 15_000);
    lost.unwrap();
    let mut pinner = pinner(options(), &[program.pid()]);
    tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    tick_for(&mut pinner, 8);
    let held = pinner.held(10);
    assert!(held[0].path.ends_with("/mnt/hot"), "{held:?}");
    loses_without(pinner, &mut program);
}

/// A program that reads a file of an overlay over and over, which only it sees. `None` where no
/// overlay can be mounted.
fn start_on_overlay(dir: &Path, group: &TestCgroup) -> Option<Child> {
    let here = dir.display();
    let script = format!(
        "cd {here} && mount -t overlay overlay \
         -o lowerdir={here}/lower,upperdir={here}/upper,workdir={here}/work mnt && {}",
        become_pages(&dir.join("mnt/hot")),
    );
    let arguments = ["--mount", "sh", "-c", &script];
    let mut program = Child::start(Path::new("unshare"), &arguments, Some(group)).unwrap();
    match program.until(PATIENCE, |p| p.rounds >= 1) {
        Ok(_) => Some(program),
        Err(error) => {
            plimsoll_testbed::skip(format_args!("no overlay can be mounted here: {error}"));
            None
        }
    }
}
