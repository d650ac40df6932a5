//! A file system behind a server that may stop to answer: the smallest that the kernel takes, served by a
//! thread of the test. Source: `fuse(4)`, `linux/fuse.h`.

use crate::skip;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

/// The file's name and its bytes.
const NAME: &str = "file";
const BYTES: u64 = 1 << 20;
/// The kernel's numbers of the root and of the file.
const ROOT: u64 = 1;
const FILE: u64 = 2;

/// Requests that are answered (`enum fuse_opcode`).
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
/// Those that wait for no answer.
const FORGET: u32 = 2;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// Bytes of the head of a request, and of the buffer that the kernel asks for.
const HEAD: usize = 40;
const BUFFER: usize = 256 << 10;

/// What the server does.
const ANSWERS: u8 = 0;
const STANDS: u8 = 1;
const ENDS: u8 = 2;

/// A file system with one file; unmounted when this is dropped, whatever waits for it.
#[derive(Debug)]
pub struct FuseServer {
    path: PathBuf,
    does: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
    /// The directory that it is mounted in.
    _parent: tempfile::TempDir,
}

impl FuseServer {
    /// Mounts one and serves it. Where that cannot be done, the test is skipped.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn start() -> Option<FuseServer> {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("fuse");
        std::fs::create_dir(&path).expect("it can");
        let device = match mounted(&path) {
            Ok(device) => device,
            Err(error) => {
                skip(format_args!(
                    "no file system of FUSE can be mounted here: {error}"
                ));
                return None;
            }
        };
        let does = Arc::new(AtomicU8::new(ANSWERS));
        let told = Arc::clone(&does);
        let thread = std::thread::spawn(move || serve(&device, &told));
        Some(FuseServer {
            path,
            does,
            thread: Some(thread),
            _parent: parent,
        })
    }

    /// Its file, of 1 MiB.
    pub fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// From now on nothing is answered: who asks waits, until it is killed or this is dropped.
    pub fn stand_still(&self) {
        self.does.store(STANDS, Ordering::SeqCst);
    }
}

impl Drop for FuseServer {
    fn drop(&mut self) {
        self.does.store(ENDS, Ordering::SeqCst);
        // The kernel fails all requests once nobody has the device open.
        let thread = self.thread.take().map(JoinHandle::join);
        drop(thread);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn mounted(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let number = device.as_raw_fd();
    let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let none = MountFlags::NOSUID | MountFlags::NODEV;
    mount("plimsoll-test", path, "fuse", none, options.as_c_str())?;
    Ok(device)
}

/// Answers requests until it is told to end.
fn serve(device: &OwnedFd, does: &AtomicU8) {
    let mut buffer = vec![0; BUFFER];
    let soon = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    loop {
        match does.load(Ordering::SeqCst) {
            ANSWERS => {}
            STANDS => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            }
            _ => return,
        }
        let mut ready = [PollFd::new(device, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&soon)), Ok(1..)) {
            continue;
        }
        // It may have been told to stand still while it waited.
        if does.load(Ordering::SeqCst) != ANSWERS {
            continue;
        }
        match rustix::io::read(device, &mut buffer) {
            Ok(count) if count >= HEAD => {
                if let Some(answer) = answer(&buffer[..count]) {
                    // A request may have been given up meanwhile.
                    let _ = rustix::io::write(device, &answer);
                }
            }
            Err(Errno::NODEV) => return,
            _ => {}
        }
    }
}

/// The answer to a request, with its head; `None` where none is waited for.
fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let (opcode, node) = (half(request, 4), word(request, 16));
    let body = &request[HEAD..];
    let answer = match opcode {
        FORGET | INTERRUPT | BATCH_FORGET => return None,
        // Version 7.31, no further features; reads and writes of at most 128 KiB.
        INIT => Ok([
            halves(&[7, 31, 128 << 10, 0, 0, 128 << 10, 1, 0]),
            vec![0; 32],
        ]
        .concat()),
        LOOKUP if body.strip_suffix(&[0]) == Some(NAME.as_bytes()) => {
            let times = halves(&[0, 0]);
            Ok([words(&[FILE, 0, 3600, 3600]), times, attributes(FILE)].concat())
        }
        LOOKUP => Err(Errno::NOENT),
        GETATTR => Ok([words(&[3600, 0]), attributes(node)].concat()),
        OPEN | OPENDIR => Ok(words(&[0, 0])),
        STATFS => Ok([
            words(&[256, 0, 0, 1, 0]),
            halves(&[4096, 255, 4096, 0]),
            vec![0; 24],
        ]
        .concat()),
        READ => {
            let left = BYTES.saturating_sub(word(body, 8));
            Ok(vec![7; left.min(u64::from(half(body, 16))) as usize])
        }
        _ => Err(Errno::NOSYS),
    };
    let (error, data) = match answer {
        Ok(data) => (0, data),
        Err(errno) => (-errno.raw_os_error(), Vec::new()),
    };
    let length = 16 + data.len() as u32;
    let head = [halves(&[length, error as u32]), request[8..16].to_vec()];
    Some([head.concat(), data].concat())
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, size) = match node {
        ROOT => (0o040_755, 4096),
        _ => (0o100_644, BYTES),
    };
    // Number, size, blocks, three times; their parts of a second, mode, links, user, group, device,
    // size of a block, flags.
    let first = words(&[node, size, size / 512, 0, 0, 0]);
    [first, halves(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
}

fn words(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn halves(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|half| half.to_ne_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    found.map_or(0, u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    found.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_while_it_answers() {
        let Some(server) = FuseServer::start() else {
            return;
        };
        let bytes = std::fs::read(server.file()).unwrap();
        assert!(bytes.len() as u64 == BYTES && bytes.iter().all(|byte| *byte == 7));
        assert!(std::fs::metadata(server.path.join("other")).is_err());
        server.stand_still();
    }
}
