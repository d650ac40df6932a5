//! The places of a broker's socket, and whether to trust it.

use crate::{Error, Result};
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::peer::{IN_HOME, is_own_directory, peer_of};
use rustix::fs::{FileType, Mode};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// The system broker's socket.
pub const SYSTEM: &str = "/run/plimsoll/broker.sock";
const IN_DIRECTORY: &str = "plimsoll/broker.sock";

/// A place where a broker may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Path of the socket.
    path: PathBuf,
    /// The user who has to own the directory and run the broker. If absent, any user: the
    /// protection of the directory is enough.
    owner: Option<u32>,
}

/// The environment that the usual places of the socket depend on. Tests can set it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `PLIMSOLL_SOCKET`.
    pub socket: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, if it is the user's own.
    pub runtime_dir: Option<PathBuf>,
    /// `HOME`, if it is the user's own.
    pub home: Option<PathBuf>,
    /// The real user.
    pub uid: u32,
}

impl Surroundings {
    /// The surroundings of this process. Variables are ignored if it has more rights than the user
    /// who started it.
    pub fn of_self() -> Surroundings {
        let path = |name| variable(name).map(PathBuf::from);
        let uid = rustix::process::getuid().as_raw();
        Surroundings {
            socket: path("PLIMSOLL_SOCKET").filter(|path| !path.as_os_str().is_empty()),
            runtime_dir: path("XDG_RUNTIME_DIR").filter(|path| is_own_directory(path, uid)),
            home: path("HOME").filter(|path| is_own_directory(path, uid)),
            uid,
        }
    }
}

impl Socket {
    /// This socket and no other. Trusted because the caller names it.
    pub fn at(path: impl Into<PathBuf>) -> Socket {
        Socket {
            path: path.into(),
            owner: None,
        }
    }

    /// The places, in the order to try them. Only `PLIMSOLL_SOCKET` if it is set; else the user's
    /// broker (`$XDG_RUNTIME_DIR/plimsoll`, `/run/user/UID/plimsoll`, `/tmp/plimsoll-UID`,
    /// `~/.cache/plimsoll`, where it is if another user took the place before), then the system's.
    pub fn candidates(around: &Surroundings) -> Vec<Socket> {
        if let Some(path) = &around.socket {
            return vec![Socket::at(path)];
        }
        let mut found: Vec<Socket> = Vec::with_capacity(5);
        let runtime = around.runtime_dir.iter().cloned();
        let by_user = PathBuf::from(format!("/run/user/{}", around.uid));
        for directory in runtime.chain([by_user]) {
            let socket = Socket {
                path: directory.join(IN_DIRECTORY),
                owner: Some(around.uid),
            };
            if !found.contains(&socket) {
                found.push(socket);
            }
        }
        found.push(Socket {
            path: PathBuf::from(format!("/tmp/plimsoll-{}/broker.sock", around.uid)),
            owner: Some(around.uid),
        });
        found.extend(around.home.iter().map(|home| Socket {
            path: home.join(IN_HOME).join("broker.sock"),
            owner: Some(around.uid),
        }));
        found.push(Socket::at(SYSTEM));
        found
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a principal's page, for a broker that does not tell it.
    pub fn page_of(&self, id: plimsoll_wire::messages::Id) -> PathBuf {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        directory.join("pages").join(id.to_string())
    }

    /// Checks the socket's directory. Where everybody may write, anybody could create it first. So
    /// it has to be ours, no link, and closed to others (unless others cannot reach it).
    pub(crate) fn check_directory(&self) -> Result<()> {
        let (Some(owner), Some(directory)) = (self.owner, self.path.parent()) else {
            return Ok(());
        };
        let stat = rustix::fs::lstat(directory).map_err(|errno| Error::Socket {
            doing: "look at",
            path: directory.to_owned(),
            source: errno.into(),
        })?;
        let refuse = |why: String| {
            Err(Error::Untrusted {
                path: directory.to_owned(),
                why,
            })
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return refuse("it is not a directory".to_owned());
        }
        if stat.st_uid != owner {
            return refuse(format!("it belongs to user {}", stat.st_uid));
        }
        let above = directory
            .parent()
            .and_then(|above| rustix::fs::stat(above).ok());
        let open =
            above.is_none_or(|above| Mode::from_raw_mode(above.st_mode).intersects(Mode::XOTH));
        let others = if open {
            Mode::RWXG | Mode::RWXO
        } else {
            Mode::WGRP | Mode::WOTH
        };
        if Mode::from_raw_mode(stat.st_mode).intersects(others) {
            return refuse("others than its owner may use it".to_owned());
        }
        Ok(())
    }

    /// Checks that the process that answers belongs to the owner or root.
    pub(crate) fn check_peer(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let Some(owner) = self.owner else {
            return Ok(());
        };
        let peer = peer_of(fd).map_err(|errno| Error::Socket {
            doing: "see who listens at",
            path: self.path.clone(),
            source: errno.into(),
        })?;
        let uid = peer.uid;
        if uid == owner || uid == 0 {
            return Ok(());
        }
        Err(Error::Untrusted {
            path: self.path.clone(),
            why: format!("user {uid} listens there"),
        })
    }
}
