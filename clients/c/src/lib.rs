//! The C library: `include/plimsoll.h`, function by function, over `plimsoll-client`.
//!
//! # Glossary
//! As in the header. A *handle* is what the header calls `plimsoll *`: a boxed [`Principal`].
//!
//! Each function runs inside [`failure::guarded`], so that no panic crosses the boundary. The
//! header's structures are in `structs`, and its list of evicted keys in `ghost`.

mod failure;
pub mod ghost;
mod structs;

use failure::{Failure, guarded};
use plimsoll_client::messages::{Max, Priority, Set, Weight};
use plimsoll_client::{Builder, Bytes, Event, Principal, Socket};
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::AsRawFd;
use std::time::Duration;
use structs::{Known, Numbers, Options};

/// `PLIMSOLL_…` of the header: the bits of `flags`, and all of them.
const NO_GUARD: u32 = 1;
const NO_PROCESS: u32 = 2;
const ALONE: u32 = 4;
const ENVIRONMENT: u32 = 8;
const FLAGS: u32 = NO_GUARD | NO_PROCESS | ALONE | ENVIRONMENT;

/// The longest wait, which is also the meaning of a negative time.
const LONGEST: Duration = Duration::from_secs(86_400);

/// See `plimsoll.h`.
///
/// # Safety
/// `name` is null or a C string; `options` is null or points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_open(
    name: *const c_char,
    options: *const Options,
) -> *mut Principal {
    let mut handle = std::ptr::null_mut();
    guarded(|| {
        // SAFETY: the caller's promise.
        let (name, options) = unsafe { (text(name, "name")?, Options::take(options)?) };
        let name =
            name.ok_or_else(|| Failure::invalid("name is null: give the principal a name"))?;
        // SAFETY: the strings in the options are null or C strings, by the caller's promise.
        let builder = unsafe { configure(Principal::builder(name), &options)? };
        handle = Box::into_raw(Box::new(builder.open()?));
        Ok(0)
    });
    handle
}

/// # Safety
/// The strings in `options` are null or C strings.
unsafe fn configure(mut builder: Builder, options: &Options) -> Result<Builder, Failure> {
    if options.flags & !FLAGS != 0 {
        return Err(Failure::invalid(
            "options.flags has a bit that this version does not know",
        ));
    }
    // SAFETY: the caller's promise.
    let (adapter, socket) = unsafe {
        (
            text(options.adapter, "options.adapter")?,
            text(options.socket, "options.socket")?,
        )
    };
    builder = builder
        .adapter(adapter.unwrap_or("self"))
        .priority(options.priority);
    if options.weight != 0 {
        builder = builder.weight(options.weight);
    }
    if options.max != 0 {
        builder = builder.max(Bytes(options.max));
    }
    if options.pid != 0 {
        builder = builder.pid(options.pid);
    }
    if let Some(path) = socket {
        builder = builder.socket(Socket::at(path));
    }
    if options.flags & NO_GUARD != 0 {
        builder = builder.guard(false);
    }
    if options.flags & NO_PROCESS != 0 {
        builder = builder.without_process();
    }
    if options.flags & ALONE != 0 {
        builder = builder.alone();
    }
    if options.flags & ENVIRONMENT != 0 {
        builder = builder.from_environment();
    }
    Ok(builder)
}

/// See `plimsoll.h`.
///
/// # Safety
/// `handle` is null or from [`plimsoll_open`] and open; `numbers` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_read(handle: *const Principal, numbers: *mut Numbers) -> c_int {
    // SAFETY: the caller's promise. Reading cannot panic; no closure, to stay a few loads.
    match unsafe { (handle.as_ref(), numbers.as_mut()) } {
        (Some(principal), Some(numbers)) => {
            *numbers = Numbers::from(&principal.read());
            0
        }
        _ => failure::EINVAL,
    }
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_wait(
    handle: *mut Principal,
    timeout_ms: c_int,
    numbers: *mut Numbers,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (principal, numbers) = unsafe { (alive(handle)?, numbers.as_mut()) };
        let timeout = u64::try_from(timeout_ms).map_or(LONGEST, Duration::from_millis);
        let event = principal.wait(timeout);
        if let Some(numbers) = numbers {
            *numbers = Numbers::from(event.reading());
        }
        Ok(match event {
            Event::Timeout(_) => 0,
            Event::Owed(_) => 1,
            Event::Relief(_) => 2,
            Event::Changed(_) => 3,
            Event::BrokerLost(_) => 4,
            Event::Joined(_) => 5,
        })
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// `handle` is null or from [`plimsoll_open`] and open. So for all that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_interrupt(handle: *mut Principal) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { alive(handle)? }.interrupt();
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_fd(handle: *mut Principal) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let principal = unsafe { alive(handle)? };
        Ok(principal.notify_fd()?.as_raw_fd())
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`]; `known` is null or points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_report(handle: *mut Principal, known: *const Known) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (principal, known) = unsafe { (alive(handle)?, Known::take(known)?) };
        principal.report(&known.report());
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_released(handle: *mut Principal, bytes: u64) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { alive(handle)? }.released(Bytes(bytes));
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_attach(handle: *mut Principal, pid: u32) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe { alive(handle)? }.attach(pid)?;
        Ok(0)
    })
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_set_weight(handle: *mut Principal, weight: u32) -> c_int {
    let weigh = |set: &mut Set| {
        set.weight = Some(Weight::new(weight)?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { change(handle, weigh) }
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_set_priority(handle: *mut Principal, priority: i32) -> c_int {
    let prioritise = |set: &mut Set| {
        set.priority = Some(Priority::new(priority)?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { change(handle, prioritise) }
}

/// See `plimsoll.h`.
///
/// # Safety
/// As [`plimsoll_interrupt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_set_max(handle: *mut Principal, bytes: u64) -> c_int {
    let bound = |set: &mut Set| {
        set.max = Some(Max::or_none(Bytes(bytes))?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { change(handle, bound) }
}

/// See `plimsoll.h`.
///
/// # Safety
/// `handle` is null or from [`plimsoll_open`]; it is used no more, by no thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_close(handle: *mut Principal) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: the caller's promise: made by Box::into_raw, and ours again.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(0)
    });
}

/// See `plimsoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_error() -> *const c_char {
    failure::last()
}

/// See `plimsoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_strerror(failure: c_int) -> *const c_char {
    failure::in_general(failure).as_ptr()
}

/// See `plimsoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// # Safety
/// As [`plimsoll_interrupt`].
unsafe fn change(
    handle: *mut Principal,
    what: impl FnOnce(&mut Set) -> Result<(), plimsoll_client::Error>,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let principal = unsafe { alive(handle)? };
        let mut set = Set::default();
        what(&mut set)?;
        principal.set(&set)?;
        Ok(0)
    })
}

/// # Safety
/// As [`plimsoll_interrupt`].
unsafe fn alive<'a>(handle: *const Principal) -> Result<&'a Principal, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }
        .ok_or_else(|| Failure::invalid("the principal is null: plimsoll_open() gives one"))
}

/// # Safety
/// `string` is null or a C string that outlives the result.
unsafe fn text<'a>(string: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let string = unsafe { CStr::from_ptr(string) };
    string
        .to_str()
        .map(Some)
        .map_err(|_| Failure::invalid(&format!("{what} is not UTF-8")))
}
