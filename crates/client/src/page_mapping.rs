//! The one address at which a principal's numbers are read. Behind it is either the broker's page,
//! or a page of our own that local sensing writes.
//!
//! The address never changes, so readers need no lock. The kernel replaces what is behind it in one
//! step.

use crate::sigbus::Guarded;
use crate::{Error, Result};
use plimsoll_unit::Nanos;
use plimsoll_wire::messages::Id;
use plimsoll_wire::page::{Numbers, PAGE_SIZE, PageImage, PageView, Step, offset};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The page behind the window: our own or a file's. Owned by the one thread that changes it.
#[derive(Debug)]
enum Behind {
    Own(PageImage),
    File,
}

/// The address. All threads may read; changing what is behind it takes `&mut` of the [`Shutter`].
#[derive(Debug)]
pub(crate) struct Window {
    /// Address of a page that stays mapped until the window is dropped.
    base: NonNull<u8>,
}

// SAFETY: the address is valid until the Window is dropped; it is read by atomic loads only, and
// what is behind it is changed by system calls and atomic stores only.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// A window on a page of our own on which nothing was published yet.
    pub(crate) fn new() -> Result<Window> {
        let base = anonymous_page()?;
        Ok(Window { base })
    }

    /// The page, for reading. Valid as long as the window.
    #[inline]
    pub(crate) fn view(&self) -> PageView<'_> {
        // SAFETY: page-aligned, PAGE_SIZE bytes, mapped until self is dropped.
        unsafe { PageView::new(self.base) }
    }

    pub(crate) fn base(&self) -> *const u8 {
        self.base.as_ptr()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made by us in `new`; no view outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE_SIZE) };
    }
}

/// The right to change what is behind a window; one per window.
#[derive(Debug)]
pub(crate) struct Shutter {
    /// The page behind the window now.
    behind: Behind,
    /// The guard of a file's page; `None` if it is not guarded.
    guarded: Option<Guarded>,
    /// Whether pages of files get a guard.
    guard: bool,
}

impl Shutter {
    /// The shutter of a new window. `guard`: whether file pages get the SIGBUS guard.
    pub(crate) fn new(guard: bool) -> Shutter {
        Shutter {
            behind: Behind::Own(PageImage::new(0)),
            guarded: None,
            guard,
        }
    }

    /// Whether the broker's page is behind the window.
    pub(crate) fn shows_file(&self) -> bool {
        matches!(self.behind, Behind::File)
    }

    /// Whether the broker's page was truncated under a reader since it was last asked.
    pub(crate) fn take_fault(&self) -> bool {
        self.guarded.as_ref().is_some_and(Guarded::take_fault)
    }

    /// Puts the broker's page behind the window.
    ///
    /// # Errors
    /// The page cannot be opened or mapped, or belongs to another principal. Then nothing has
    /// changed.
    pub(crate) fn show_file(&mut self, window: &Window, path: &Path, id: Id) -> Result<()> {
        let fault = |doing| {
            move |source: std::io::Error| Error::Page {
                doing,
                path: path.to_owned(),
                source,
            }
        };
        // A pipe in its place would keep us waiting for a writer.
        let mut opened = OpenOptions::new();
        opened.read(true).custom_flags(libc::O_NONBLOCK);
        let file = opened.open(path).map_err(fault("open"))?;
        check(&file, path, id)?;
        if self.guard && self.guarded.is_none() {
            self.guarded = Guarded::new(window.base.as_ptr().addr());
        }
        // SAFETY: replaces our own page by a read-only shared mapping of the file, in one step.
        let mapped = unsafe {
            libc::mmap(
                window.base.as_ptr().cast(),
                PAGE_SIZE,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            let source = std::io::Error::last_os_error();
            if !self.shows_file() {
                self.guarded = None;
            }
            return Err(fault("map")(source));
        }
        self.behind = Behind::File;
        Ok(())
    }

    /// Publishes local numbers on a page of our own, which replaces the broker's page if that is
    /// shown.
    ///
    /// # Errors
    /// The kernel gives no page. Then nothing has changed.
    pub(crate) fn show_own(
        &mut self,
        window: &Window,
        id: Id,
        numbers: &Numbers,
        now: Nanos,
    ) -> Result<()> {
        if let Behind::Own(image) = &mut self.behind
            && image.id() == id
            && window.view().check().is_ok()
        {
            for step in image.publish(numbers, now) {
                // SAFETY: an own page is behind the window; it is writable and stays until we
                // change it.
                unsafe { store(window.base, &step) };
            }
            return Ok(());
        }
        let mut image = PageImage::new(id);
        image.publish(numbers, now);
        let page = anonymous_page()?;
        // SAFETY: a fresh page of ours, PAGE_SIZE long.
        unsafe { store(page, &image.create()) };
        // SAFETY: moves that page over our own one, in one step; `page` is not used afterwards.
        let moved = unsafe {
            libc::mremap(
                page.as_ptr().cast(),
                PAGE_SIZE,
                PAGE_SIZE,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                window.base.as_ptr(),
            )
        };
        if moved == libc::MAP_FAILED {
            let source = std::io::Error::last_os_error();
            // SAFETY: the page stayed where it was, and is ours.
            unsafe { libc::munmap(page.as_ptr().cast(), PAGE_SIZE) };
            return Err(Error::Resource {
                doing: "move a page of numbers",
                source,
            });
        }
        self.behind = Behind::Own(image);
        self.guarded = None;
        Ok(())
    }
}

/// Checks that the file is the page of this principal. Reads instead of mapping, because the file
/// may be too short.
fn check(file: &File, path: &Path, id: Id) -> Result<()> {
    let mut words: [AtomicU64; PAGE_SIZE / 8] = [const { AtomicU64::new(0) }; PAGE_SIZE / 8];
    let mut bytes = [0u8; PAGE_SIZE];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|source| Error::Page {
            doing: "read",
            path: path.to_owned(),
            source,
        })?;
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word.get_mut() = u64::from_ne_bytes(*eight);
    }
    PageView::of_words(&words)
        .check()
        .map_err(|source| Error::NotAPage {
            path: path.to_owned(),
            source,
        })?;
    let found = *words[offset::ID / 8].get_mut();
    if found == id {
        return Ok(());
    }
    Err(Error::Page {
        doing: "use",
        path: path.to_owned(),
        source: std::io::Error::other(format!("it belongs to principal {found}, not to {id}")),
    })
}

/// A new page, readable and writable, all zero.
fn anonymous_page() -> Result<NonNull<u8>> {
    // SAFETY: a new private mapping wherever the kernel likes; nothing else is touched.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE_SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    NonNull::new(base.cast::<u8>())
        .filter(|_| base != libc::MAP_FAILED)
        .ok_or_else(|| Error::Resource {
            doing: "map a page for numbers",
            source: std::io::Error::last_os_error(),
        })
}

/// Applies a step to a page of our own, as `pwrite` does to a file.
///
/// # Safety
/// `base` is a writable page, and only written through this function.
unsafe fn store(base: NonNull<u8>, step: &Step<'_>) {
    for (index, word) in step.bytes.as_chunks::<8>().0.iter().enumerate() {
        let at = step.offset as usize + index * 8;
        // SAFETY: every step lies inside the first page and is aligned to 8.
        let place = unsafe { AtomicU64::from_ptr(base.as_ptr().add(at).cast()) };
        place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
}
