//! A domain: what it may hold and what is used in it. When it cannot be read for a while, the last
//! figures stand and the reason is told once.

use crate::core::SensedDomain;
use crate::error::Error;
use plimsoll_kernel as kernel;
use plimsoll_kernel::capacity::{Domain, Reading};
use std::path::{Path, PathBuf};

/// The machine, a limiting cgroup, or the cgroup of a group.
#[derive(Debug)]
pub struct RootDomain {
    domain: Domain,
    /// The cgroup that was asked for; `None` for whatever bounds the broker.
    asked: Option<PathBuf>,
    last: SensedDomain,
    failing: bool,
    /// Reads until it is looked again whether anything can be paged out.
    until_look: u32,
}

/// Between two looks at what can be paged out, reads: files are opened for it, and swap comes and
/// goes by hand.
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
        Ok(RootDomain {
            domain,
            asked: cgroup.map(Path::to_path_buf),
            last,
            failing: false,
            until_look: READS_PER_LOOK,
        })
    }

    /// What it holds now.
    pub fn read(&mut self) -> SensedDomain {
        match self.domain.read() {
            Ok(reading) => {
                self.last = sensed(&reading, self.look_for_cliff());
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

    /// Whether an excess is death. What cannot be read stays as it was.
    fn look_for_cliff(&mut self) -> bool {
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look > 0 {
            return self.last.cliff;
        }
        self.until_look = READS_PER_LOOK;
        self.domain.is_cliff().unwrap_or(self.last.cliff)
    }

    /// What it held when it was read last.
    #[must_use]
    pub fn last(&self) -> SensedDomain {
        self.last
    }

    /// `machine`, or the path of the cgroup with the lowest limit.
    #[must_use]
    pub fn name(&self) -> String {
        match self.domain.lowest().or(self.asked.as_deref()) {
            Some(directory) => directory.display().to_string(),
            None => "machine".to_owned(),
        }
    }

    /// The cgroup that this domain was opened for.
    #[must_use]
    pub fn asked(&self) -> Option<&Path> {
        self.asked.as_deref()
    }
}

/// Below the lowest limit, whichever group binds: where brokers are nested, that changes with what
/// the programs of the other one use, and a domain that is now this large and then that would look
/// like outsiders that come with a leap.
fn sensed(reading: &Reading, cliff: bool) -> SensedDomain {
    SensedDomain {
        capacity: reading.lowest,
        used: reading.used_of_lowest(),
        cliff,
    }
}
