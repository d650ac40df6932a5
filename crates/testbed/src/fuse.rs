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
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The file's name, and how many bytes it has where nothing else is asked for.
const NAME: &str = "file";
const BYTES: usize = 1 << 20;
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

/// States of the server.
const ANSWERS: u8 = 0;
const STANDS: u8 = 1;
const ENDS: u8 = 2;

/// State that the server's thread shares with others.
#[derive(Debug)]
struct Shared {
    device: OwnedFd,
    /// The content of the file.
    bytes: Vec<u8>,
    does: AtomicU8,
    /// Requests that were read, but for those that the kernel makes by itself when it forgets a name.
    asked: AtomicU64,
}

/// A file system with one file; unmounted when this is dropped, whatever waits for it. The kernel keeps no
/// answer of its server: each question about a name or a file is asked.
#[derive(Debug)]
pub struct FuseServer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The directory that it is mounted in.
    _parent: tempfile::TempDir,
}

impl FuseServer {
    /// Mounts one and serves it, with a file of 1 MiB. Where that cannot be done, the test is skipped.
    ///
    /// # Panics
    /// When there is no place for it.
    pub fn start() -> Option<FuseServer> {
        FuseServer::with(vec![7; BYTES])
    }

    /// As [`FuseServer::start`], with a file, which may be executed, that holds these bytes.
    ///
    /// # Panics
    /// As [`FuseServer::start`].
    pub fn with(bytes: Vec<u8>) -> Option<FuseServer> {
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
        let shared = Arc::new(Shared {
            device,
            bytes,
            does: AtomicU8::new(ANSWERS),
            asked: AtomicU64::new(0),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(&served));
        Some(FuseServer {
            path,
            shared,
            thread: Some(thread),
            _parent: parent,
        })
    }

    /// Its file.
    pub fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// From now on nothing is answered: who asks waits, until it is killed or this is dropped.
    pub fn stand_still(&self) {
        self.shared.does.store(STANDS, Ordering::SeqCst);
    }

    /// How many requests it has read, and whether more wait.
    pub fn asked(&self) -> (u64, bool) {
        let mut ready = [PollFd::new(&self.shared.device, PollFlags::IN)];
        let waits = poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        (self.shared.asked.load(Ordering::SeqCst), waits)
    }
}

impl Drop for FuseServer {
    fn drop(&mut self) {
        self.shared.does.store(ENDS, Ordering::SeqCst);
        let thread = self.thread.take().map(JoinHandle::join);
        drop(thread);
        // The kernel fails all requests once nobody has the device open; so does this, which comes first.
        let flags = UnmountFlags::DETACH | UnmountFlags::FORCE;
        let _ = unmount(&self.path, flags);
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
fn serve(shared: &Shared) {
    let Shared { device, does, .. } = shared;
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
                let request = &buffer[..count];
                if !matches!(half(request, 4), FORGET | BATCH_FORGET) {
                    shared.asked.fetch_add(1, Ordering::SeqCst);
                }
                if let Some(answer) = answer(request, &shared.bytes) {
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
fn answer(request: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
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
            let length = bytes.len() as u64;
            Ok([words(&[FILE, 0, 0, 0]), times, attributes(FILE, length)].concat())
        }
        LOOKUP => Err(Errno::NOENT),
        GETATTR => Ok([words(&[0, 0]), attributes(node, bytes.len() as u64)].concat()),
        OPEN | OPENDIR => Ok(words(&[0, 0])),
        STATFS => Ok([
            words(&[256, 0, 0, 1, 0]),
            halves(&[4096, 255, 4096, 0]),
            vec![0; 24],
        ]
        .concat()),
        READ => {
            let at = bytes.len().min(word(body, 8) as usize);
            let most = half(body, 16) as usize;
            Ok(bytes[at..].iter().take(most).copied().collect())
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
fn attributes(node: u64, length: u64) -> Vec<u8> {
    let (mode, size) = match node {
        ROOT => (0o040_755, 4096),
        _ => (0o100_755, length),
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
        assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == 7));
        assert!(std::fs::metadata(server.path.join("other")).is_err());
        let (before, _) = server.asked();
        std::fs::metadata(server.file()).unwrap();
        assert!(server.asked().0 > before, "no answer is kept");
        server.stand_still();
    }
}
