//! Where the numbers come from, and where the reports go. Under `plimsoll run` both are the principal that the environment
//! names; a library preloaded by hand registers the process; a page alone (a forked child, a test) is only read.
//! Such a page is read with `pread`, not mapped: ten reads a second cost nothing, and no handler is
//! needed for a file that somebody truncates.

use crate::sense;
use crate::settings::{self, Mode};
use plimsoll_client::messages::Report;
use plimsoll_client::{Principal, Source as From};
use plimsoll_wire::page::{PAGE_SIZE, PageView, Reading, offset};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WORDS: usize = PAGE_SIZE / 8;
/// Tries to read a page that is being written, per look.
const TRIES: usize = 8;

/// What the adapter goes by. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// May use now.
    pub limit: u64,
    /// Must give back.
    pub owed: u64,
    /// What the broker counts for the principal, 0 when unknown.
    pub uses: u64,
}

/// The source of this process's numbers.
#[derive(Debug)]
pub enum Link {
    /// One limit for ever.
    Fixed(u64),
    /// A page to read, and nobody to report to; the last numbers that it held.
    Page(CString, Option<Numbers>),
    /// A principal; the last limit that a broker gave it, 0 before.
    Principal(Box<Principal>, u64),
    /// Nobody.
    None,
}

impl Link {
    /// As the environment says; `report` is false in a forked child, whose parent is the one who reports. May take
    /// some seconds when a broker hangs.
    pub fn open(mode: &Mode, report: bool) -> Link {
        let page = settings::path("PLIMSOLL_PAGE");
        let named = std::env::var_os("PLIMSOLL_ID").is_some();
        match (mode, page) {
            (Mode::Off, _) => Link::None,
            (Mode::Fixed(bytes), _) => Link::Fixed(*bytes),
            (_, Some(page)) if !named || !report => Link::Page(page, None),
            _ if !report => Link::None,
            _ => Self::join(),
        }
    }

    fn join() -> Link {
        let builder = Principal::builder(&settings::program_name()).adapter("libgc");
        match builder.from_environment().open() {
            Ok(principal) => Link::Principal(Box::new(principal), 0),
            Err(_) => {
                settings::path("PLIMSOLL_PAGE").map_or(Link::None, |page| Link::Page(page, None))
            }
        }
    }

    /// The numbers of now; nothing before a broker spoke. When it is lost (or its page is stale, broken or gone), the limit
    /// that it gave last goes on to hold, and still bounds what is sensed locally.
    pub fn read(&mut self) -> Option<Numbers> {
        match self {
            Link::None => None,
            Link::Fixed(limit) => Some(Numbers {
                limit: *limit,
                owed: 0,
                uses: 0,
            }),
            Link::Page(path, last) => {
                let reading = (0..TRIES).find_map(|_| read_page(path));
                let alive = reading.filter(|reading| !reading.is_stale(sense::now()));
                match alive.filter(|reading| reading.numbers.limit > 0) {
                    Some(reading) => *last = Some(Numbers::of(&reading.numbers)),
                    None => {
                        *last = last.map(|numbers| Numbers {
                            owed: 0,
                            uses: 0,
                            ..numbers
                        })
                    }
                }
                *last
            }
            Link::Principal(principal, granted) => {
                let reading = principal.read();
                let numbers = Numbers::of(&reading.numbers);
                match reading.source {
                    From::Local if *granted == 0 || numbers.limit == 0 => None,
                    From::Local => Some(Numbers {
                        limit: numbers.limit.min(*granted),
                        ..numbers
                    }),
                    From::Broker | From::Stale if numbers.limit == 0 => None,
                    From::Broker | From::Stale => {
                        *granted = numbers.limit;
                        Some(numbers)
                    }
                }
            }
        }
    }

    /// Sleeps until there is news, or that time is over.
    pub fn wait(&self, time: Duration) {
        match self {
            Link::Principal(principal, _) => {
                principal.wait(time);
            }
            _ => std::thread::sleep(time),
        }
    }

    /// Whether news wake [`Link::wait`].
    pub fn wakes(&self) -> bool {
        matches!(self, Link::Principal(..))
    }

    /// Whether anybody hears [`Link::report`].
    pub fn reports(&self) -> bool {
        self.wakes()
    }

    /// Tells the broker. Does not wait.
    pub fn report(&self, report: &Report) {
        if let Link::Principal(principal, _) = self {
            principal.report(report);
        }
    }

    /// Tells the broker that bytes were given back. Does not wait.
    pub fn released(&self, bytes: u64) {
        if let Link::Principal(principal, _) = self {
            principal.released(bytes);
        }
    }
}

impl Numbers {
    fn of(numbers: &plimsoll_client::Numbers) -> Numbers {
        Numbers {
            limit: numbers.limit,
            owed: numbers.owed,
            uses: numbers.uses,
        }
    }
}

/// A consistent page: two copies with the same even sequence; what the first one holds was not written meanwhile.
fn read_page(path: &CString) -> Option<Reading> {
    let first = copy_page(path)?;
    let second = copy_page(path)?;
    let view = PageView::of_words(&first);
    view.check().ok()?;
    let at = offset::SEQUENCE / 8;
    let same = first[at].load(Ordering::Relaxed) == second[at].load(Ordering::Relaxed);
    view.read().filter(|_| same)
}

fn copy_page(path: &CString) -> Option<[AtomicU64; WORDS]> {
    let mut bytes = [0u8; PAGE_SIZE];
    let got = sense::read_file(path, &mut bytes)?;
    (got == PAGE_SIZE).then(|| {
        std::array::from_fn(|word| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[word * 8..word * 8 + 8]);
            AtomicU64::new(u64::from_ne_bytes(raw))
        })
    })
}
