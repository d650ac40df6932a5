//! Holding pages on the real kernel: own cgroups, own files on the disk, programs that read them.

mod common;
mod files;
mod limits;
mod saves;
