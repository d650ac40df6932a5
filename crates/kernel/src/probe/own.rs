//! Interfaces that a collector uses on its own process. None needs any right.

use super::{Capability, Grade};
use crate::pagemap_scan::{self, Query};
use crate::pages;
use crate::process::page_size;
use crate::write_tracking;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::os::fd::AsFd;

/// A page of ours that nobody else knows.
struct Page(*mut u8);

impl Page {
    fn new() -> io::Result<Page> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = page_size() as usize;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        Ok(Page(start.cast()))
    }

    fn write(&self) {
        // SAFETY: the page is writable, and ours.
        unsafe { self.0.write_volatile(1) };
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: neither advice that is passed here changes contents.
        unsafe { madvise(self.0.cast(), page_size() as usize, advice)? };
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nobody else knows it.
        let _ = unsafe { munmap(self.0.cast(), page_size() as usize) };
    }
}

/// Arms a page and writes to it. Returns whether the kernel reports both.
fn tracks() -> io::Result<bool> {
    let page = Page::new()?;
    let start = page.0 as usize;
    let range = start..start + page_size() as usize;
    let tracker = write_tracking::new()?;
    write_tracking::register(&tracker, range.clone())?;
    page.write();
    let pagemap = pages::open_own()?;
    let range = range.start as u64..range.end as u64;
    let told = |query| {
        let mut runs = 0;
        pagemap_scan::walk(pagemap.as_fd(), range.clone(), query, &mut |_, _| {
            runs += 1;
            true
        })?;
        io::Result::Ok(runs)
    };
    told(Query::ARM)?;
    let before = told(Query::WRITTEN)?;
    page.write();
    Ok(before == 0 && told(Query::WRITTEN)? == 1)
}

pub(super) fn write_tracking() -> Capability {
    write_tracking_as(tracks())
}

fn write_tracking_as(outcome: io::Result<bool>) -> Capability {
    let found = |tier: &str| Capability::best("write-tracking", tier);
    let costs = "a collector built on it touches pages that it could have passed over";
    let error = match outcome {
        Ok(true) => return found("userfaultfd WP_ASYNC"),
        Ok(false) => {
            let needs = "a kernel that tells what was written";
            return found("userfaultfd misses writes").lesser(Grade::Missing, needs, costs);
        }
        Err(error) => error,
    };
    let needs = match Errno::from_io_error(&error) {
        Some(Errno::PERM) => "a container profile (seccomp) that allows userfaultfd",
        Some(Errno::NOSYS) => {
            "a kernel with CONFIG_USERFAULTFD; a container profile (seccomp) that allows it"
        }
        _ => "Linux 6.7",
    };
    found(&error.to_string()).lesser(Grade::Missing, needs, costs)
}

/// Advice on a page of our own.
pub(super) fn own_advice() -> Capability {
    let asked = Page::new().and_then(|page| {
        page.write();
        page.advise(Advice::LinuxCold)?;
        page.advise(Advice::LinuxPageOut)
    });
    own_advice_as(asked)
}

fn own_advice_as(outcome: io::Result<()>) -> Capability {
    let found = |tier: &str| Capability::best("own-advice", tier);
    match outcome {
        Ok(()) => found("MADV_COLD, MADV_PAGEOUT"),
        Err(error) => found(&error.to_string()).lesser(
            Grade::Missing,
            "Linux 5.4",
            "the kernel takes what a collector looked at for what the program uses",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refuses_is_told_apart() {
        let needs = |errno: Errno| write_tracking_as(Err(errno.into())).needs;
        assert!(needs(Errno::PERM).contains("seccomp"));
        assert!(needs(Errno::NOSYS).contains("CONFIG_USERFAULTFD"));
        assert_eq!(needs(Errno::INVAL), "Linux 6.7");
        assert!(write_tracking_as(Ok(true)).best);
        assert!(!write_tracking_as(Ok(false)).works);
        assert_eq!(own_advice_as(Err(Errno::INVAL.into())).needs, "Linux 5.4");
    }

    #[test]
    fn this_kernel_is_asked() {
        let found = write_tracking();
        let newer = write_tracking::new().is_ok();
        assert_eq!(found.works, newer, "{found:?}");
        assert!(own_advice().works, "Linux 5.4 is old");
    }
}
