//! Bad input: processes that end while we look, that have very many mappings, that live in other namespaces.

use crate::common::*;
use plimsoll_kernel::clock;
use plimsoll_kernel::process::{Process, page_size};
use plimsoll_kernel::smaps::each_mapping;
use plimsoll_pin::mapped_pages::{Seen, View, Watched};
use plimsoll_pin::open_mapped::open_mapped;
use plimsoll_pin::refaults::Evidence;
use plimsoll_pin::{PinError, Pinner, Programs};
use plimsoll_testbed::children::copy_program;
use plimsoll_testbed::{Child, FuseServer, Leaderless, programs, skip};
use plimsoll_unit::{MIB, Nanos};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;

fn of_file<'a>(seen: &'a Seen, path: &Path) -> Vec<&'a View> {
    let views = seen.views.iter();
    views.filter(|view| Path::new(&view.path) == path).collect()
}

#[test]
fn a_process_that_ends_while_it_is_looked_at_is_gone() {
    let _one = alone();
    for round in 0..60 {
        let mut child = Command::new("sleep")
            .arg(format!("0.00{}", round % 10))
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let error = loop {
            let looked = Watched::open(pid).and_then(|mut watched| {
                // The second look is at what was opened for the first.
                watched.look()?;
                watched.look()
            });
            match looked {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(error.is_gone(), "{error}");
        child.wait().unwrap();
    }
}

#[test]
fn the_files_of_a_process_whose_first_thread_has_ended_are_seen() {
    let _one = alone();
    let child = Leaderless::start().unwrap();
    let mut watched = Watched::open(child.pid()).unwrap();
    let seen = watched.look().unwrap();
    let own = std::env::current_exe().unwrap();
    assert!(!of_file(&seen, &own).is_empty());
}

#[test]
fn processes_of_a_group_that_come_and_go_are_nothing_to_tell_of() {
    let _one = alone();
    let Some(group) = group("pin-come-and-go", 256 * MIB) else {
        return;
    };
    let script = "while :; do sleep 0.005; done";
    let _shell = Child::start(Path::new("sh"), &["-c", script], Some(&group)).unwrap();
    let dir = group.cgroup().dir().to_path_buf();
    let mut pinner = Pinner::new(options(), Programs::Group(dir), clock::now()).unwrap();
    let report = tick_until(&mut pinner, "looked at", |report, _| report.rounds >= 30);
    assert!(report.processes >= 1, "{report:?}");
    let passed = pinner.passed_processes();
    assert!(passed.is_empty(), "{passed:?}");
}

#[test]
fn sixty_thousand_mappings_are_seen() {
    let _one = alone();
    let (pages, size) = (60_000, page_size() as usize);
    let dir = directory();
    let path = dir.path().join("sparse");
    let file = File::create_new(&path).unwrap();
    file.set_len((pages * size) as u64).unwrap();
    let file = File::open(&path).unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping, placed by the kernel.
    let start = unsafe {
        mmap(
            null_mut(),
            pages * size,
            protection,
            MapFlags::PRIVATE,
            &file,
            0,
        )
        .unwrap()
    };
    let mut made = 0;
    for page in (0..pages).step_by(2) {
        // SAFETY: the page is inside of the mapping, and nobody uses it.
        let split = unsafe { mprotect(start.byte_add(page * size), size, MprotectFlags::READ) };
        made += usize::from(split.is_ok());
    }
    // SAFETY: as above. The present pages are pages of the file, all of them holes.
    let brought = unsafe { madvise(start, 100 * size, Advice::LinuxPopulateRead) };
    let seen = Watched::open(std::process::id() as i32).unwrap().look();
    // SAFETY: the mapping is not used after this.
    unsafe { munmap(start, pages * size).unwrap() };
    brought.unwrap();
    let seen = seen.unwrap();
    let views = of_file(&seen, &path);
    assert!(
        views.len() >= made * 2 - 1 && made > 29_000,
        "{}",
        views.len()
    );
    assert!(!seen.truncated);
    let present = views.iter().flat_map(|view| view.present.clone());
    let present: u64 = present.map(|run| run.end - run.start).sum();
    assert!(present >= 100, "{present}");

    let mut evidence = Evidence::new(Nanos::seconds(1), Nanos::ZERO);
    for _ in 0..2 {
        evidence.begin_round();
        seen.views.iter().for_each(|view| evidence.saw(view));
        let round = evidence.end(Nanos::seconds(1), 0, &mut Nobody);
        assert!(round.present >= 100 && round.lost == 0, "{round:?}");
    }
}

/// A path may have 4 KiB, and each mapping is listed with it.
#[test]
fn names_of_very_many_mappings_take_no_more_than_they_may() {
    let _one = alone();
    let (count, size) = (5_000, page_size() as usize);
    let dir = directory();
    let mut path = dir.path().to_path_buf();
    while path.as_os_str().len() < 3_700 {
        path.push("n".repeat(250));
        std::fs::create_dir(&path).unwrap();
    }
    path.push("file");
    let file = File::create_new(&path).unwrap();
    file.set_len(size as u64).unwrap();
    let file = File::open(&path).unwrap();
    let mapped: Vec<_> = (0..count)
        .map(|_| {
            // SAFETY: a fresh mapping, placed by the kernel. It is not joined with its neighbours, which
            // show the same page.
            unsafe {
                mmap(
                    null_mut(),
                    size,
                    ProtFlags::READ,
                    MapFlags::SHARED,
                    &file,
                    0,
                )
                .unwrap()
            }
        })
        .collect();
    let seen = Watched::open(std::process::id() as i32).unwrap().look();
    for start in mapped {
        // SAFETY: the mapping was made above and is not used after this.
        unsafe { munmap(start, size).unwrap() };
    }
    let seen = seen.unwrap();
    assert!(seen.truncated);
    let views = of_file(&seen, &path).len();
    assert!((1_000..count).contains(&views), "{views}");
}

/// Knows nothing of pages.
struct Nobody;

impl plimsoll_pin::refaults::PageStates for Nobody {
    fn held(&self, _: plimsoll_kernel::smaps::FileKey, _: u64) -> u16 {
        0
    }

    fn cached(
        &mut self,
        _: plimsoll_kernel::smaps::FileKey,
        _: &plimsoll_pin::refaults::Tracked,
        _: &plimsoll_pin::pages::Run,
    ) -> plimsoll_pin::refaults::Cached {
        plimsoll_pin::refaults::Cached::Unknown
    }
}

/// Waits until a program is called so; false if it ended instead.
fn becomes(pid: i32, name: &str) -> bool {
    let end = clock::now() + PATIENCE.into();
    while clock::now() < end {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let stat = read("stat").unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return false;
        }
        if read("comm").is_ok_and(|comm| comm.trim() == name) && stat.contains(") S ") {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} never became {name}");
}

/// A user may put an overlay over a file system of their own, whose server stops to answer.
#[test]
fn an_overlay_that_another_user_made_is_passed_over() {
    let _one = alone();
    if !rustix::process::geteuid().is_root() {
        skip("another user needs root");
        return;
    }
    // Where that user may enter.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    for name in ["lower", "other", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    copy_program("/usr/bin/sleep", dir.path().join("lower/dozer")).unwrap();
    let script = format!(
        "cd {} && mount -t overlay overlay -o lowerdir=lower:other mnt && exec mnt/dozer 600",
        dir.path().display()
    );
    let words = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &script,
    ];
    let program = Child::start(Path::new("setpriv"), &words, None).unwrap();
    if !becomes(program.pid(), "dozer") {
        skip("another user cannot mount an overlay here");
        return;
    }
    let seen = Watched::open(program.pid()).unwrap().look().unwrap();
    let path = dir.path().join("mnt/dozer");
    let why = seen
        .passed
        .iter()
        .find(|(_, why)| why.to_string().contains("/mnt/dozer: "));
    let why = why
        .unwrap_or_else(|| panic!("{:?}", seen.passed))
        .1
        .to_string();
    assert!(why.contains("that another user made"), "{why}");
    assert!(of_file(&seen, &path).is_empty());
    assert!(
        !seen.views.is_empty(),
        "its libraries are on the disk: {:?}",
        seen.passed
    );
}

/// The server of a layer may stop to answer while pages are locked, and so may not be asked at all.
#[test]
fn an_overlay_over_a_server_is_passed_over() {
    let _one = alone();
    let Some(server) = FuseServer::start() else {
        return;
    };
    let dir = directory();
    for name in ["other", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let served = server.file();
    let script = format!(
        "cd {} && mount -t overlay overlay -o lowerdir={}:{} mnt && {}='pages --path {} --bytes {MIB} \
         --every 50' exec {} --exact common::program --nocapture",
        dir.path().display(),
        served.parent().unwrap().display(),
        dir.path().join("other").display(),
        programs::VARIABLE,
        dir.path().join("mnt/file").display(),
        std::env::current_exe().unwrap().display(),
    );
    let arguments = ["--mount", "sh", "-c", &script];
    let mut program = Child::start(Path::new("unshare"), &arguments, None).unwrap();
    if let Err(error) = program.until(PATIENCE, |p| p.rounds > 2) {
        skip(format_args!(
            "no overlay over FUSE can be mounted here: {error}"
        ));
        return;
    }
    server.stand_still();
    let asked = server.asked();
    let seen = Watched::open(program.pid()).unwrap().look().unwrap();
    let mut opened = Vec::new();
    each_mapping(&Process::open(program.pid()).unwrap(), &mut |area| {
        if area.name.ends_with("/mnt/file") {
            opened.push(open_mapped(program.pid(), &area.addresses, area.file, &area.name).err());
        }
        true
    })
    .unwrap();
    assert_eq!(server.asked(), asked);
    let refused = |error: &Option<PinError>| matches!(error, Some(PinError::FileSystem { .. }));
    assert!(
        !opened.is_empty() && opened.iter().all(refused),
        "{opened:?}"
    );
    let passed: Vec<String> = seen.passed.iter().map(|(_, why)| why.to_string()).collect();
    // Kernels before 6.8 list the file as that of the layer.
    let told = |on: &str| {
        let why = format!("/mnt/file: on {on}, which may be behind a server that does not answer");
        passed.iter().any(|told| told.contains(&why))
    };
    assert!(told("an overlay over fuse") || told("fuse"), "{passed:?}");
    assert!(of_file(&seen, &dir.path().join("mnt/file")).is_empty());
    assert!(
        !seen.views.is_empty(),
        "its libraries are on the disk: {passed:?}"
    );
}

/// The file systems of an overlay's layers are unknown if it was mounted with relative paths.
#[test]
fn an_overlay_with_relative_layers_is_passed_over() {
    let _one = alone();
    let dir = directory();
    for name in ["plain", "other", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    copy_program("/usr/bin/sleep", dir.path().join("plain/dozer")).unwrap();
    let here = dir.path().display();
    for layers in ["plain:other".to_owned(), format!("{here}/plain:other")] {
        let script = format!(
            "cd {here} && mount -t overlay overlay -o lowerdir={layers} mnt && exec mnt/dozer 600"
        );
        let words = ["--mount", "sh", "-c", &script];
        let program = Child::start(Path::new("unshare"), &words, None).unwrap();
        if !becomes(program.pid(), "dozer") {
            skip("no overlay can be mounted here");
            return;
        }
        let seen = Watched::open(program.pid()).unwrap().look().unwrap();
        let passed: Vec<String> = seen.passed.iter().map(|(_, why)| why.to_string()).collect();
        let told = |why: &String| {
            why.contains("/mnt/dozer: on an overlay") && why.contains("may be behind a server")
        };
        // Kernels before 6.8 list the file as that of the layer, which is on the disk.
        let of_layer = seen
            .views
            .iter()
            .any(|view| view.path.ends_with("/mnt/dozer"));
        assert!(passed.iter().any(told) || of_layer, "{passed:?}");
    }
}

/// The number of an overlay that is unmounted is given to the next one, over whatever that lies. The same
/// process may map files of both.
/// Also within the half second for which it is kept open: its page map is of the memory before.
#[test]
fn a_process_that_executes_another_program_is_opened_again() {
    let _one = alone();
    let dir = directory();
    let go = dir.path().join("go");
    let wait = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; exec sleep 600",
        go.display()
    );
    let program = Child::start(Path::new("sh"), &["-c", &wait], None).unwrap();
    let mut watched = Watched::open(program.pid()).unwrap();
    watched.look().unwrap();
    File::create(go).unwrap();
    assert!(becomes(program.pid(), "sleep"));
    let seen = watched.look().unwrap();
    assert!(!seen.views.is_empty(), "{:?}", seen.passed);
}

#[test]
fn what_lies_below_an_overlay_is_read_again() {
    let _one = alone();
    let Some(server) = FuseServer::start() else {
        return;
    };
    let dir = directory();
    for name in ["plain", "other", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    copy_program("/bin/sh", dir.path().join("plain/shell")).unwrap();
    let here = dir.path().display();
    let mount =
        |lower: &str| format!("mount -t overlay overlay -o lowerdir={lower}:{here}/other mnt");
    let served = server.file();
    let served = mount(served.parent().unwrap().to_str().unwrap());
    let plain = mount(&format!("{here}/plain"));
    let own = std::env::current_exe().unwrap();
    let (variable, own) = (programs::VARIABLE, own.display());
    for (name, script) in [
        ("first", format!("{plain} && exec mnt/shell second")),
        (
            "second",
            "while [ ! -e go ]; do sleep 0.02; done; exec sh third".into(),
        ),
        (
            "third",
            format!(
                "umount mnt && {served} && {variable}='pages --path {here}/mnt/file --bytes {MIB} \
                 --every 50' exec {own} --exact common::program --nocapture"
            ),
        ),
    ] {
        std::fs::write(dir.path().join(name), script).unwrap();
    }
    let start = format!("cd {here} && exec sh first");
    let arguments = ["--mount", "sh", "-c", &start];
    let mut program = Child::start(Path::new("unshare"), &arguments, None).unwrap();
    if !becomes(program.pid(), "shell") {
        skip("no overlay can be mounted here");
        return;
    }
    let mut watched = Watched::open(program.pid()).unwrap();
    let seen = watched.look().unwrap();
    let of_shell = |view: &View| view.path.ends_with("/mnt/shell");
    assert!(seen.views.iter().any(of_shell), "{:?}", seen.passed);
    File::create(dir.path().join("go")).unwrap();
    if let Err(error) = program.until(PATIENCE, |p| p.rounds > 2) {
        skip(format_args!(
            "no overlay over FUSE can be mounted here: {error}"
        ));
        return;
    }
    server.stand_still();
    let end = clock::now() + PATIENCE.into();
    loop {
        let passed = watched.look().unwrap().passed;
        let passed: Vec<String> = passed.iter().map(|(_, why)| why.to_string()).collect();
        let told = |told: &String| {
            told.contains("/mnt/file: on") && told.ends_with("behind a server that does not answer")
        };
        if passed.iter().any(told) {
            return;
        }
        assert!(clock::now() < end, "{passed:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A process that has other users, processes and mounts than we, in a group with programs that stream.
#[test]
fn a_process_in_other_namespaces_is_held_for() {
    let _one = alone();
    let Some(group) = group("pin-namespaces", 56 * MIB) else {
        return;
    };
    let dir = directory();
    let hot = make_file(dir.path(), "hot", FILE);
    let cold = make_file(dir.path(), "cold", 160 * MIB);
    let script = become_pages(&hot);
    let words = [
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ];
    let mut program = Child::start(Path::new("unshare"), &words, Some(&group)).unwrap();
    if let Err(error) = program.until(PATIENCE, |p| p.rounds >= 1) {
        skip(format_args!("no namespaces of a user's own here: {error}"));
        return;
    }
    let _stream = start_stream(&cold, Some(&group));
    let lost = program.until(PATIENCE, |p| p.major_faults > 10_000);
    lost.unwrap();
    // It is found as a child of the process that made the namespaces, by the number that it has here.
    let mut pinner = pinner(options(), &[program.pid()]);
    tick_until(&mut pinner, "held", |report, _| report.held > AT_WORK);
    let held = pinner.held(10);
    assert!(
        held.iter().any(|range| range.path.ends_with("/hot")),
        "{held:?}"
    );
    assert!(!held[0].pids.contains(&program.pid()), "{held:?}");
}
