//! The names of libgc's files.

/// The library name that programs were linked with.
pub(super) const NEEDED: &str = "libgc.so.1";
/// The drop-in's file name in a build tree.
pub(super) const BUILT: &str = "libplimsoll_gc.so";

/// Whether a file of this name is a libgc: the system's of any version, or the drop-in, as
/// installed or as built.
pub(super) fn is_libgc(name: &str) -> bool {
    name == "libgc.so" || name.starts_with("libgc.so.") || name == BUILT
}
