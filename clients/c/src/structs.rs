//! The structures of the header, and their counterparts in the client.

use crate::failure::Failure;
use plimsoll_client::Reading;
use plimsoll_client::messages::Report;
use std::ffi::c_char;

/// The value of an unknown field.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// `plimsoll_numbers`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Numbers {
    limit: u64,
    available: u64,
    owed: u64,
    deadline: u64,
    uses: u64,
    share: u64,
    heartbeat: u64,
    level: u32,
    source: u32,
}

impl From<&Reading> for Numbers {
    fn from(reading: &Reading) -> Numbers {
        let numbers = &reading.numbers;
        Numbers {
            limit: numbers.limit,
            available: numbers.available,
            owed: numbers.owed,
            deadline: numbers.deadline,
            uses: numbers.uses,
            share: numbers.share,
            heartbeat: reading.heartbeat.0,
            level: numbers.level as u32,
            source: reading.source as u32,
        }
    }
}

/// `plimsoll_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    size: usize,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) max: u64,
    pub(crate) pid: u32,
    pub(crate) flags: u32,
    pub(crate) adapter: *const c_char,
    pub(crate) socket: *const c_char,
}

impl Options {
    /// A copy of the caller's, or the defaults for null.
    ///
    /// # Safety
    /// `from` is null or points to as many bytes as its size says.
    pub(crate) unsafe fn take(from: *const Options) -> Result<Options, Failure> {
        if from.is_null() {
            return Ok(Options {
                size: size_of::<Options>(),
                weight: 0,
                priority: 0,
                max: 0,
                pid: 0,
                flags: 0,
                adapter: std::ptr::null(),
                socket: std::ptr::null(),
            });
        }
        // SAFETY: the size is read first, and the rest only when it says that the rest is there.
        unsafe {
            match from.cast::<usize>().read() {
                size if size == size_of::<Options>() => Ok(from.read()),
                _ => Err(Failure::invalid(
                    "options.size is not this library's: begin with PLIMSOLL_OPTIONS_INIT",
                )),
            }
        }
    }
}

/// `plimsoll_known`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Known {
    size: usize,
    live: u64,
    allocation_rate: u64,
    collection_speed: u64,
    demand: u64,
    floor: u64,
    reaction_ms: u64,
    collections: u64,
    collection_ms: u64,
    worth: u64,
}

impl Known {
    /// Without any fact.
    const NONE: Known = Known {
        size: size_of::<Known>(),
        live: UNKNOWN,
        allocation_rate: UNKNOWN,
        collection_speed: UNKNOWN,
        demand: UNKNOWN,
        floor: UNKNOWN,
        reaction_ms: UNKNOWN,
        collections: UNKNOWN,
        collection_ms: UNKNOWN,
        worth: UNKNOWN,
    };
    /// Bytes of the first version, which ended before `worth`.
    const FIRST: usize = std::mem::offset_of!(Known, worth);

    /// A copy of the caller's. Fields that an earlier version did not have are not known.
    ///
    /// # Safety
    /// `from` is null or points to as many bytes as its size says.
    pub(crate) unsafe fn take(from: *const Known) -> Result<Known, Failure> {
        if from.is_null() {
            return Err(Failure::invalid(
                "known is null: begin with PLIMSOLL_KNOWN_INIT",
            ));
        }
        // SAFETY: as in `Options::take`.
        let size = unsafe { from.cast::<usize>().read() };
        if ![Known::FIRST, size_of::<Known>()].contains(&size) {
            return Err(Failure::invalid(
                "known.size is not this library's: begin with PLIMSOLL_KNOWN_INIT",
            ));
        }
        let mut known = Known::NONE;
        // SAFETY: the caller has `size` bytes there, and `known` has as many. All fields are numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut known).cast::<u8>(), size);
        }
        Ok(known)
    }

    pub(crate) fn report(&self) -> Report {
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        Report {
            id: 0,
            live: known(self.live),
            allocation_rate: known(self.allocation_rate),
            collection_speed: known(self.collection_speed),
            demand: known(self.demand),
            floor: known(self.floor),
            reaction_ms: known(self.reaction_ms),
            collections: known(self.collections),
            collection_ms: known(self.collection_ms),
            stalls: None,
            worth: known(self.worth),
            collector: None,
        }
    }
}
