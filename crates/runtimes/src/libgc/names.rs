//! The names of libgc's files.

/// What programs need, by the name that they were linked with.
pub(super) const NEEDED: &str = "libgc.so.1";
/// The drop-in, as it is built.
pub(super) const BUILT: &str = "libplimsoll_gc.so";

/// Whether a file of this name is a libgc: the system's, by any version; and the drop-in, as installed and as
/// built.
pub(super) fn is_libgc(name: &str) -> bool {
    name == "libgc.so" || name.starts_with("libgc.so.") || name == BUILT
}
