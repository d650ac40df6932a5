//! The system call `bpf`, as far as it is needed here. Source: `bpf(2)`, `linux/bpf.h`.

use super::program::Step;
use crate::{Error, Result};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

const TYPE_HASH: u32 = 1;
const TYPE_ARRAY: u32 = 2;
const TYPE_RAW_TRACEPOINT: u32 = 17;

/// The licence of a program: that of this crate. None of the helpers asks for another.
const LICENSE: &std::ffi::CStr = c"MIT";
const CALL: &str = "bpf";

/// A map of `entries` entries, keyed by 32 bits.
fn map(kind: u32, value_bytes: u32, entries: u32) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    open(
        MAP_CREATE,
        &Attributes {
            kind,
            key_bytes: 4,
            value_bytes,
            entries,
            flags: 0,
        },
    )
}

/// A hash map from a thread's number to a time.
pub(super) fn hash(entries: u32) -> Result<OwnedFd> {
    map(TYPE_HASH, 8, entries)
}

/// One value of `bytes` bytes.
pub(super) fn value(bytes: u32) -> Result<OwnedFd> {
    map(TYPE_ARRAY, bytes, 1)
}

/// Lets the kernel verify and compile a program.
pub(super) fn load(steps: &[Step]) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        length: u32,
        steps: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
    }
    open(
        PROG_LOAD,
        &Attributes {
            kind: TYPE_RAW_TRACEPOINT,
            length: steps.len() as u32,
            steps: steps.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
        },
    )
}

/// Runs a program whenever any thread passes a tracepoint, until the descriptor is closed.
pub(super) fn attach(tracepoint: &str, program: &OwnedFd) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        name: u64,
        program: u32,
        padding: u32,
    }
    let name = CString::new(tracepoint).map_err(|e| failed(e.into()))?;
    open(
        RAW_TRACEPOINT_OPEN,
        &Attributes {
            name: name.as_ptr() as u64,
            program: program.as_raw_fd() as u32,
            padding: 0,
        },
    )
}

/// The kernel's name of an open map or an attached program: its kind, and a number that no other of the kind
/// has.
pub(super) type Name = [u32; 2];

/// The name of what a descriptor refers to.
pub(super) fn name(file: &OwnedFd) -> Result<Name> {
    #[repr(C)]
    struct Attributes {
        file: u32,
        length: u32,
        info: u64,
    }
    let mut name: Name = [0; 2];
    let attributes = Attributes {
        file: file.as_raw_fd() as u32,
        length: size_of::<Name>() as u32,
        info: &raw mut name as u64,
    };
    // SAFETY: at most `length` bytes are written to `name`, which outlives the call.
    match unsafe { call(OBJ_GET_INFO_BY_FD, &attributes) } {
        Ok(_) => Ok(name),
        Err(e) => Err(failed(e)),
    }
}

/// The one value of a map made by [`value`], of two words.
pub(super) fn read(map: &OwnedFd) -> Result<[u64; 2]> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (key, mut value) = (0u32, [0u64; 2]);
    let attributes = Attributes {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: &raw const key as u64,
        value: &raw mut value as u64,
        flags: 0,
    };
    // SAFETY: key and value are as large as the map was made for, and outlive the call.
    match unsafe { call(MAP_LOOKUP_ELEM, &attributes) } {
        Ok(_) => Ok(value),
        Err(e) => Err(failed(e)),
    }
}

fn open<A>(command: libc::c_int, attributes: &A) -> Result<OwnedFd> {
    // SAFETY: the commands that are passed here only read what the attributes point to: steps, a
    // license, a name, all alive in the caller. They return a new descriptor.
    let made = unsafe { call(command, attributes) };
    // SAFETY: the descriptor is new and ours alone.
    made.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .map_err(failed)
}

/// # Safety
/// All pointers in the attributes must be valid for the uses that the command makes of them.
unsafe fn call<A>(command: libc::c_int, attributes: &A) -> io::Result<libc::c_int> {
    // SAFETY: the attributes are initialised memory of the stated size; the rest by contract.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<A>(),
        )
    };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer as libc::c_int),
    }
}

/// The error of a call without the rights for it.
pub(super) fn not_permitted() -> Error {
    Error::NotPermitted {
        call: CALL,
        pid: 0,
        needs: "CAP_BPF and CAP_PERFMON, and a container profile (seccomp) that allows bpf",
    }
}

fn failed(source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM) => not_permitted(),
        Some(libc::ENOSYS) => Error::Unsupported {
            what: CALL,
            since: "5.8, built with CONFIG_BPF_SYSCALL",
        },
        Some(libc::ENOENT) => Error::Unsupported {
            what: "the tracepoints of reclaim",
            since: "3.4, built with CONFIG_TRACEPOINTS and CONFIG_BPF_EVENTS",
        },
        _ => Error::Call {
            call: CALL,
            pid: 0,
            source,
        },
    }
}
