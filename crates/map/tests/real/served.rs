//! Files behind a server: a look asks it nothing, so it takes none of their pages, and waits for nobody.

use crate::common::{PATIENCE, alone, stop};
use plimsoll_kernel::identity::as_user;
use plimsoll_kernel::page_cache;
use plimsoll_kernel::process::Process;
use plimsoll_map::{Look, Options, States, Watch, look};
use plimsoll_testbed::{Child, FuseServer, children, programs, skip};
use plimsoll_unit::MIB;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65_534;

/// How much of an open file is in the page cache, bytes: the kernel tells without asking the server.
fn cached(file: &File) -> u64 {
    let cached = page_cache::of(file, Path::new("behind a server"), 0..1 << 40);
    cached.unwrap().cached.0
}

/// Looks at a process in all ways: while its server answers, and while it stands still. Each time the page
/// cache and the faults are as before, and the server is asked nothing.
fn asks_nobody(server: &FuseServer, process: &Process, file: &File) -> Look {
    let options = Options {
        addresses: true,
        who: true,
        ..Options::default()
    };
    let state = || (server.asked(), cached(file), process.faults().unwrap());
    let mut seen = Look::default();
    for stands in [false, true] {
        if stands {
            server.stand_still();
        }
        let before = state();
        let mut watch = Watch::default();
        for _ in 0..2 {
            seen = watch.look(process.pid(), &options).unwrap();
        }
        assert_eq!(state(), before, "stands still: {stands}");
    }
    seen
}

/// The note about files on this kind of file system.
fn is_told(seen: &Look, on: &str) -> bool {
    let note = format!("not asked about: they are on {on}, which may be behind a server");
    seen.notes.iter().any(|told| told.contains(&note))
}

/// A program that has read all of a file.
fn reader(path: &Path) -> Child {
    let line = format!("pages --path {} --bytes {MIB} --every 50", path.display());
    let words: Vec<&str> = line.split(' ').collect();
    let mut program = Child::start_again("common::program", &words, None).unwrap();
    program.until(PATIENCE, |p| p.rounds > 2).unwrap();
    program
}

/// The states of a mapped file, in a look with all addresses.
fn states(seen: &Look, path: &Path) -> States {
    let part = seen.parts.iter().find(|part| Path::new(&part.name) == path);
    part.expect("it is mapped").states
}

#[test]
fn a_mapped_file_keeps_its_pages_and_its_server_is_not_asked() {
    let _one = alone();
    let Some(server) = FuseServer::start() else {
        return;
    };
    // Opened before the program reads it: whoever opens it drops its pages.
    let file = File::open(server.file()).unwrap();
    let program = reader(&server.file());
    let process = stop(&program);
    assert_eq!(cached(&file), MIB);
    let seen = asks_nobody(&server, &process, &file);
    let here = states(&seen, &server.file());
    assert_eq!((here.resident, here.cached), (MIB, None));
    assert!(is_told(&seen, "fuse"), "{:?}", seen.notes);
    // Those on the disk are asked about as ever.
    let own = std::env::current_exe().unwrap();
    assert!(states(&seen, &own).cached.is_some(), "{:?}", seen.notes);
}

#[test]
fn a_program_keeps_its_pages_and_no_name_in_it_is_read() {
    let _one = alone();
    let Some(server) = FuseServer::with(std::fs::read("/bin/sleep").unwrap()) else {
        return;
    };
    let file = File::open(server.file()).unwrap();
    let program = Child::start(&server.file(), &["600"], None).unwrap();
    let end = Instant::now() + PATIENCE;
    let stat = format!("/proc/{}/stat", program.pid());
    while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(file) S ")) {
        assert!(Instant::now() < end, "it never slept");
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = stop(&program);
    assert!(cached(&file) > 0);
    let seen = asks_nobody(&server, &process, &file);
    assert_eq!(seen.executable, server.file());
    assert!(is_told(&seen, "fuse"), "{:?}", seen.notes);
}

/// Files of an overlay are opened below it, too.
#[test]
fn a_file_of_an_overlay_over_a_server_keeps_its_pages_and_the_server_is_not_asked() {
    let _one = alone();
    let Some(server) = FuseServer::start() else {
        return;
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["other", "mnt"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let file = File::open(server.file()).unwrap();
    let script = format!(
        "cd {here} && mount -t overlay overlay -o lowerdir={served}:{here}/other mnt && \
         {variable}='pages --path {here}/mnt/file --bytes {MIB} --every 50' \
         exec {own} --exact common::program --nocapture",
        here = dir.path().display(),
        served = server.file().parent().unwrap().display(),
        variable = programs::VARIABLE,
        own = std::env::current_exe().unwrap().display(),
    );
    let arguments = ["--mount", "sh", "-c", &script];
    let mut program = Child::start(Path::new("unshare"), &arguments, None).unwrap();
    if let Err(error) = program.until(PATIENCE, |p| p.rounds > 2) {
        return skip(format_args!(
            "no overlay over FUSE can be mounted here: {error}"
        ));
    }
    let process = stop(&program);
    assert_eq!(cached(&file), MIB);
    let seen = asks_nobody(&server, &process, &file);
    // Kernels before 6.8 list the file as that of the layer.
    let is_told = is_told(&seen, "an overlay over fuse") || is_told(&seen, "fuse");
    assert!(is_told, "{:?}", seen.notes);
}

/// A user who may not follow a mapping to its file looks up the path, which may lead through a server.
#[test]
fn no_path_is_looked_up_that_leads_through_a_server() {
    let _one = alone();
    if !rustix::process::geteuid().is_root() {
        return skip("another user needs root");
    }
    let Some(server) = FuseServer::start() else {
        return;
    };
    // Where that user may enter: a file of the disk, which is mounted below the server's folder.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    children::copy_program(std::env::current_exe().unwrap(), dir.path().join("own")).unwrap();
    std::fs::write(dir.path().join("file"), vec![7; MIB as usize]).unwrap();
    let served = server.file().parent().unwrap().to_owned();
    std::fs::set_permissions(served.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "mount --bind {here}/file {file} && {variable}='pages --path {file} --bytes {MIB} --every 50' \
         exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {here}/own \
         --exact common::program --nocapture",
        here = dir.path().display(),
        file = server.file().display(),
        variable = programs::VARIABLE,
    );
    let arguments = ["--mount", "sh", "-c", &script];
    let mut program = Child::start(Path::new("unshare"), &arguments, None).unwrap();
    program.until(PATIENCE, |p| p.rounds > 2).unwrap();
    let process = stop(&program);
    server.stand_still();
    let asked = server.asked();
    let options = Options {
        addresses: true,
        ..Options::default()
    };
    let seen = as_user(NOBODY, NOBODY, || look(process.pid(), &options));
    assert_eq!(server.asked(), asked);
    let seen = seen.unwrap().unwrap();
    let through = states(&seen, &server.file());
    assert!(
        through.resident > 0 && through.cached.is_none(),
        "{through:?}"
    );
    assert!(is_told(&seen, "fuse"), "{:?}", seen.notes);
}
