//! The SIGBUS guard. If a page file is truncated, its reader loses the numbers but is not killed.
//!
//! Touching a mapped page beyond the end of its file raises SIGBUS. The guard's handler maps an
//! anonymous zero page in its place and returns, so that the load is repeated and reads zero.
//! [`crate::Principal::read`] sees that a page of zeros is invalid. A fault anywhere else goes to
//! the previous handler of SIGBUS, as if the guard were not there.
//!
//! The handler is installed with the first guarded page and removed with the last one. If another
//! handler was installed over it meanwhile, it stays and keeps passing faults on.

use plimsoll_wire::page::PAGE_SIZE;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most guarded pages in one process. Further pages are not guarded.
const SLOTS: usize = 64;

/// One guarded page. Changed under the lock of [`INSTALL`]; the handler reads it in any thread at any time.
struct Slot {
    /// Address of the page; 0 when the slot is free.
    base: AtomicUsize,
    /// Whether the page faulted. Set by the handler, cleared by the owner of the [`Guarded`].
    faulted: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        base: AtomicUsize::new(0),
        faulted: AtomicBool::new(false),
    }
}; SLOTS];

/// The previous handler of SIGBUS. Written under [`INSTALL`] before our handler can run, read by
/// our handler.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written only under the INSTALL lock while no handler of ours is installed; read only by
// the handler, or under the lock.
unsafe impl Sync for Previous {}
static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// How many pages are guarded, and whether our handler is installed. The handler goes with the last
/// page.
static INSTALL: Mutex<Installed> = Mutex::new(Installed {
    pages: 0,
    handler: false,
});

struct Installed {
    /// Number of guarded pages.
    pages: usize,
    /// Whether our handler is installed.
    handler: bool,
}

/// A guarded page; dropping it ends the guard.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// Index in [`TABLE`].
    slot: usize,
}

impl Guarded {
    /// Guards the page at `base`. `None` if all slots are taken or the kernel refuses; the page is
    /// then not guarded.
    pub(crate) fn new(base: usize) -> Option<Guarded> {
        let mut installed = INSTALL.lock().unwrap_or_else(|e| e.into_inner());
        let free = |slot: &Slot| slot.base.load(Ordering::Relaxed) == 0;
        let slot = TABLE.iter().position(free)?;
        if !installed.handler {
            install()?;
            installed.handler = true;
        }
        installed.pages += 1;
        TABLE[slot].faulted.store(false, Ordering::Relaxed);
        TABLE[slot].base.store(base, Ordering::Release);
        Some(Guarded { slot })
    }

    /// Whether the page faulted since it was last asked.
    pub(crate) fn take_fault(&self) -> bool {
        TABLE[self.slot].faulted.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut installed = INSTALL.lock().unwrap_or_else(|e| e.into_inner());
        TABLE[self.slot].base.store(0, Ordering::Release);
        installed.pages -= 1;
        if installed.pages == 0 && installed.handler {
            installed.handler = !uninstall();
        }
    }
}

fn ours() -> usize {
    on_sigbus as *const () as usize
}

fn install() -> Option<()> {
    // SAFETY: the structures are plain data, filled before use; PREVIOUS is ours to write because
    // the caller holds INSTALL and no handler of ours is there yet. sigaction changes SIGBUS only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ours();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        let previous = PREVIOUS.0.get().cast::<libc::sigaction>();
        // Read the old action first, because our handler may run as soon as it is installed.
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), previous) != 0 {
            return None;
        }
        let done = libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) == 0;
        done.then_some(())
    }
}

/// Restores the previous handler. False if another handler is installed now, which may call ours.
fn uninstall() -> bool {
    // SAFETY: as in `install`; PREVIOUS was written by it.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut now) != 0
            || now.sa_sigaction != ours()
        {
            return false;
        }
        let previous = PREVIOUS.0.get().cast::<libc::sigaction>();
        libc::sigaction(libc::SIGBUS, previous, std::ptr::null_mut()) == 0
    }
}

/// The handler. Runs on the thread that touched the page: takes no lock, does not allocate, keeps
/// errno.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: errno's address is this thread's own; the kernel hands a valid `info`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        // Only faults carry an address; a SIGBUS that somebody sent has a code of 0 or less.
        let mended = (*info).si_code > 0 && mend((*info).si_addr() as usize);
        if !mended {
            pass_on(signal, info, context);
        }
        *errno = before;
    }
}

/// Maps a zero page over the guarded page at `address`. False if there is none.
fn mend(address: usize) -> bool {
    for slot in &TABLE {
        let base = slot.base.load(Ordering::Acquire);
        if base == 0 || address.wrapping_sub(base) >= PAGE_SIZE {
            continue;
        }
        // Writable, because an own page may have taken the file's place just now.
        // SAFETY: replaces one page that is ours (a Window owns the address) by an anonymous one;
        // mmap is a bare system call and as such may be made in a signal handler.
        let mapped = unsafe {
            libc::mmap(
                base as *mut libc::c_void,
                PAGE_SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        slot.faulted.store(true, Ordering::Release);
        return mapped != libc::MAP_FAILED;
    }
    false
}

/// Does what would have happened without us.
///
/// # Safety
/// To be called from the handler only, with its arguments.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type WithInfo = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = unsafe extern "C" fn(libc::c_int);
    // SAFETY: our handler only runs after `install` wrote PREVIOUS; its function has the signature
    // that its flags say, and gets what the kernel gave us.
    unsafe {
        let previous = &*PREVIOUS.0.get().cast::<libc::sigaction>();
        let sent = (*info).si_code <= 0;
        match previous.sa_sigaction {
            libc::SIG_IGN if sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
                // A fault happens again when we return, but a signal that was sent does not.
                if sent {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                std::mem::transmute::<usize, WithInfo>(handler)(signal, info, context);
            }
            handler => std::mem::transmute::<usize, Plain>(handler)(signal),
        }
    }
}
