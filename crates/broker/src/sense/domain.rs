//! A domain: its capacity and its use. If it cannot be read for a while, the last values stay and
//! the reason is logged once.

use crate::decide::SensedDomain;
use crate::error::Error;
use plimsoll_kernel as kernel;
use plimsoll_kernel::capacity::{Domain, Reading};
use plimsoll_unit::Bytes;
use std::path::{Path, PathBuf};

/// The machine, a limiting cgroup, or the cgroup of a group. Belongs to the deciding thread.
#[derive(Debug)]
pub struct RootDomain {
    /// The files to read.
    domain: Domain,
    /// The requested cgroup; `None` for the one that binds the broker, or the machine.
    asked: Option<PathBuf>,
    /// Values of the last successful read.
    last: SensedDomain,
    /// All pages of files in the domain, as read last.
    file_pages: Bytes,
    /// Whether the last read failed, which was logged then.
    failing: bool,
    /// Number of reads until the next check whether anything can be paged out.
    until_look: u32,
}

/// Reads between two such checks: a check opens files, and swap is only changed by hand.
const READS_PER_LOOK: u32 = 32;

impl RootDomain {
    /// Opens and reads it once.
    ///
    /// # Errors
    /// [`Error::Domain`] that says why it cannot be read.
    pub fn open(cgroup: Option<&Path>) -> Result<RootDomain, Error> {
        let name = || {
            cgroup.map_or_else(
                || "this machine".to_owned(),
                |dir| dir.display().to_string(),
            )
        };
        let failed = |error: kernel::Error| Error::Domain {
            domain: name(),
            message: error.to_string(),
        };
        let mut domain = match cgroup {
            Some(directory) => Domain::of_group(directory),
            None => Domain::of_self(),
        }
        .map_err(failed)?;
        let reading = domain.read().map_err(failed)?;
        let last = sensed(&reading, domain.is_cliff().unwrap_or(false));
        if domain.is_unseen() {
            tracing::warn!(
                "the memory cgroup of this broker is not visible here: if it has a limit, the programs \
                 have less than is shared out; make /sys/fs/cgroup visible (in a container, do not mount \
                 over it), or give `budget` in the configuration"
            );
        }
        Ok(RootDomain {
            domain,
            asked: cgroup.map(Path::to_path_buf),
            last,
            file_pages: reading.files.all,
            failing: false,
            until_look: READS_PER_LOOK,
        })
    }

    /// Reads its capacity and use.
    pub fn read(&mut self) -> SensedDomain {
        match self.domain.read_lately() {
            Ok(reading) => {
                self.last = sensed(&reading, self.look_for_cliff());
                self.file_pages = reading.files.all;
                self.failing = false;
            }
            Err(error) if !self.failing => {
                tracing::warn!(domain = %self.name(), %error, "the domain cannot be read; its last \
                     figures stand until it can");
                self.failing = true;
            }
            Err(_) => {}
        }
        self.last
    }

    /// Whether `is_alarming` of the present use, or its limit was changed. Reads only what is needed to tell.
    pub fn glance(&mut self, is_alarming: impl Fn(Bytes) -> bool) -> bool {
        let before = self.last.capacity;
        let most = self.domain.used_at_most().filter(|_| self.until_look > 1);
        if most.is_some_and(|(capacity, most)| capacity == before && !is_alarming(most)) {
            self.until_look -= 1;
            return false;
        }
        let now = self.read();
        now.capacity != before || is_alarming(now.used)
    }

    /// Whether an excess kills. While that cannot be read, the last answer stays.
    fn look_for_cliff(&mut self) -> bool {
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look > 0 {
            return self.last.cliff;
        }
        self.until_look = READS_PER_LOOK;
        self.domain.is_cliff().unwrap_or(self.last.cliff)
    }

    /// The values of the last read.
    #[must_use]
    pub fn last(&self) -> SensedDomain {
        self.last
    }

    /// All pages of files in the domain, as read last.
    #[must_use]
    pub fn file_pages(&self) -> Bytes {
        self.file_pages
    }

    /// `machine`, or the path of the cgroup with the lowest limit.
    #[must_use]
    pub fn name(&self) -> String {
        match self.domain.lowest().or(self.asked.as_deref()) {
            Some(directory) => directory.display().to_string(),
            None => "machine".to_owned(),
        }
    }

    /// Whether limits may bind it that are not visible here.
    #[must_use]
    pub fn is_unseen(&self) -> bool {
        self.domain.is_unseen()
    }

    /// The cgroup for which this domain was opened.
    #[must_use]
    pub fn asked(&self) -> Option<&Path> {
        self.asked.as_deref()
    }
}

/// Computes the values relative to the lowest limit, whichever group binds at present. With nested
/// brokers the binding group changes with the use of the other broker's programs. A domain whose
/// size changed with it would look as if outsiders grew suddenly.
fn sensed(reading: &Reading, cliff: bool) -> SensedDomain {
    SensedDomain {
        capacity: reading.lowest,
        used: reading.used_of_lowest(),
        files: reading.files.in_use,
        cliff,
    }
}
