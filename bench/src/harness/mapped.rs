//! A principal's page, mapped as any program may map it.

use crate::{Error, Result};
use plimsoll_wire::page::{PAGE_SIZE, PageView};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::path::Path;
use std::ptr::NonNull;

/// A read-only mapping of a page file.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
}

impl Mapped {
    /// Maps the page at `path`.
    ///
    /// # Errors
    /// When there is no page, or it has another layout.
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(Error::file("open", path))?;
        let metadata = file.metadata().map_err(Error::file("look at", path))?;
        let bad = |why: String| Error::Page {
            path: path.to_owned(),
            why,
        };
        if metadata.len() < PAGE_SIZE as u64 {
            return Err(bad(format!("it has {} bytes", metadata.len())));
        }
        // SAFETY: a fresh mapping of a whole page of a file; nothing else is at the address that
        // the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_SIZE,
                ProtFlags::READ,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(|e| Error::file("map", path)(e.into()))?;
        let start = NonNull::new(start.cast()).ok_or_else(|| bad("it is at address 0".into()))?;
        let mapped = Mapped { start };
        mapped.view().check().map_err(|e| bad(e.to_string()))?;
        Ok(mapped)
    }

    /// A view of the fields of the page.
    pub fn view(&self) -> PageView<'_> {
        // SAFETY: the mapping is page-aligned, a whole page long, and lives as long as `self`. The broker
        // writes through the file; nobody truncates the page of a measurement.
        unsafe { PageView::new(self.start) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping. No view of it is left: views borrow `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), PAGE_SIZE) };
    }
}
