//! For adapters inside a program: gives the numbers of the principal that the environment names,
//! and takes reports. Under `plimsoll run` both go through that principal. If there is only a page
//! (in a forked child, in a test), it is only read. Such a page is read and not mapped: ten reads a
//! second cost nothing, and a truncated file then needs no signal handler.

use crate::{Principal, Source};
use plimsoll_kernel::clock;
use plimsoll_kernel::environment::variable;
use plimsoll_kernel::process::own;
use plimsoll_unit::Bytes;
use plimsoll_wire::messages::Report;
use plimsoll_wire::page::{self, PAGE_SIZE, PageView, offset};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Words of 8 bytes on a page.
const WORDS: usize = PAGE_SIZE / 8;
/// How often one look tries to read a page that is being written.
const TRIES: usize = 8;
/// Longest name of a principal, bytes.
const NAME: usize = 64;

/// The numbers that an adapter follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// It may be used now.
    pub limit: Bytes,
    /// It must be given back.
    pub owed: Bytes,
    /// The principal's use as the broker counts it; 0 if unknown.
    pub uses: Bytes,
}

/// The source of this process's numbers.
#[derive(Debug)]
pub enum Follower {
    /// A page to read, without a way to report; and the last numbers that it held.
    Page(PathBuf, Option<Granted>),
    /// A principal, and the last limit that a broker gave it; 0 before the first.
    Principal(Box<Principal>, Bytes),
}

impl Follower {
    /// Follows the principal that the environment names (`PLIMSOLL_PAGE`, `PLIMSOLL_ID`,
    /// `PLIMSOLL_SOCKET`). If it names none, this process becomes a principal with the name of its
    /// program. `report` is false in a forked child, because its parent reports. May take some
    /// seconds if a broker hangs.
    pub fn of_environment(adapter: &str, report: bool) -> Option<Follower> {
        let page = variable("PLIMSOLL_PAGE").filter(|page| !page.is_empty());
        let page = page.map(|page| Follower::Page(page.into(), None));
        let named = variable("PLIMSOLL_ID").is_some();
        match page {
            Some(page) if !named || !report => Some(page),
            _ if !report => None,
            page => {
                let builder = Principal::builder(&program_name()).adapter(adapter);
                match builder.from_environment().open() {
                    Ok(principal) => Some(Follower::Principal(Box::new(principal), Bytes::ZERO)),
                    Err(_) => page,
                }
            }
        }
    }

    /// The present numbers; `None` before a broker gave any. When the broker is lost, its last limit
    /// bounds what is sensed locally until a broker answers again. ([`Principal`] itself forgets that
    /// limit after ten seconds.) If only a page is followed, and it is stale, broken or gone, the last
    /// limit stays.
    pub fn read(&mut self) -> Option<Granted> {
        match self {
            Follower::Page(path, last) => {
                let reading = (0..TRIES).find_map(|_| read_page(path));
                let alive = reading.filter(|reading| !reading.is_stale(clock::now()));
                match alive.filter(|reading| reading.numbers.limit > 0) {
                    Some(reading) => *last = Some(Granted::of(&reading.numbers)),
                    None => {
                        *last = last.map(|granted| Granted {
                            owed: Bytes::ZERO,
                            uses: Bytes::ZERO,
                            ..granted
                        });
                    }
                }
                *last
            }
            Follower::Principal(principal, limit) => {
                let reading = principal.read();
                let granted = Granted::of(&reading.numbers);
                match reading.source {
                    Source::Local if *limit == Bytes::ZERO || granted.limit == Bytes::ZERO => None,
                    Source::Local => Some(Granted {
                        limit: granted.limit.min(*limit),
                        ..granted
                    }),
                    Source::Broker | Source::Stale if granted.limit == Bytes::ZERO => None,
                    Source::Broker | Source::Stale => {
                        *limit = granted.limit;
                        Some(granted)
                    }
                }
            }
        }
    }

    /// Sleeps until there is news, for `time` at most.
    pub fn wait(&self, time: Duration) {
        match self {
            Follower::Principal(principal, _) => {
                principal.wait(time);
            }
            Follower::Page(..) => std::thread::sleep(time),
        }
    }

    /// Whether there is a principal, so that news wakes [`Follower::wait`] and [`Follower::report`]
    /// has a receiver.
    pub fn is_principal(&self) -> bool {
        matches!(self, Follower::Principal(..))
    }

    /// Tells the broker. Does not wait.
    pub fn report(&self, report: &Report) {
        if let Follower::Principal(principal, _) = self {
            principal.report(report);
        }
    }

    /// Tells the broker that memory was given back. Does not wait.
    pub fn released(&self, bytes: Bytes) {
        if let Follower::Principal(principal, _) = self {
            principal.released(bytes);
        }
    }
}

impl Granted {
    fn of(numbers: &page::Numbers) -> Granted {
        Granted {
            limit: Bytes(numbers.limit),
            owed: Bytes(numbers.owed),
            uses: Bytes(numbers.uses),
        }
    }
}

/// The name of this process, made fit for a principal: printable and not too long.
fn program_name() -> String {
    let name = own::name().unwrap_or_default();
    let name: String = name
        .chars()
        .filter(char::is_ascii_graphic)
        .take(NAME)
        .collect();
    if name.is_empty() {
        "program".to_owned()
    } else {
        name
    }
}

/// A consistent copy of a page. Two copies with the same even sequence prove that the first was not
/// written meanwhile.
fn read_page(path: &Path) -> Option<page::Reading> {
    let first = copy_page(path)?;
    let second = copy_page(path)?;
    let view = PageView::of_words(&first);
    view.check().ok()?;
    let at = offset::SEQUENCE / 8;
    let same = first[at].load(Ordering::Relaxed) == second[at].load(Ordering::Relaxed);
    view.read().filter(|_| same)
}

fn copy_page(path: &Path) -> Option<[AtomicU64; WORDS]> {
    let mut bytes = [0u8; PAGE_SIZE];
    File::open(path).ok()?.read_exact(&mut bytes).ok()?;
    Some(std::array::from_fn(|word| {
        let mut raw = [0; 8];
        raw.copy_from_slice(&bytes[word * 8..word * 8 + 8]);
        AtomicU64::new(u64::from_ne_bytes(raw))
    }))
}
