//! Pages that one process uses of the files that it maps, by the windows of its working set: the bits are
//! cleared, and read in the middle and at the end of the window.

use plimsoll_kernel::Result;
use plimsoll_kernel::process::Process;
use plimsoll_kernel::referenced::{Estimate, Segment, Step, segments};
use plimsoll_kernel::smaps::{self, rollup};
use plimsoll_policy::ownership::files::touched_again;
use plimsoll_unit::{Bytes, Nanos};
use std::collections::BTreeMap;

/// A file or segment (major, minor, inode): [`smaps::FileKey`] in a form that can be sorted.
pub(super) type FileKey = (u32, u32, u64);

pub(super) fn key_of(file: smaps::FileKey) -> FileKey {
    (file.major, file.minor, file.inode)
}

/// Most files of one process that are examined, those with the most resident pages first.
const MAX_FILES: usize = 64;
/// A file is not examined if a process has fewer of its pages resident.
pub(super) const WORTHWHILE: Bytes = Bytes::mib(4);

/// Pages of a file, as one process uses them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileUse {
    /// Mapped pages that are resident.
    pub(super) resident: Bytes,
    /// The same, each page divided by how often it is mapped anywhere.
    pub(super) proportional: Bytes,
    /// Touched again and again.
    pub(super) uses: Bytes,
    /// Processes of nobody that map it too; `None` until all processes of this round were read.
    pub(super) strangers: Option<f64>,
}

/// The files of one process. Belongs to its probe.
#[derive(Debug, Default)]
pub(super) struct FileWindow {
    /// Touched in the first half of this window; `None` if nobody looked.
    half: Option<BTreeMap<FileKey, Bytes>>,
    /// Used in the last window.
    pub(super) uses: BTreeMap<FileKey, FileUse>,
}

impl FileWindow {
    /// Reads the bits of a working set (see `referenced::Sampler::step_by`), and with them those of the
    /// files if they are worthwhile.
    ///
    /// # Errors
    /// As [`segments`].
    pub(super) fn read(
        &mut self,
        process: &Process,
        step: Step,
        files: bool,
    ) -> Result<Option<Estimate>> {
        let worthwhile = || {
            process
                .memory()
                .is_ok_and(|memory| memory.file >= WORTHWHILE)
        };
        match step {
            Step::Half => {
                self.half = None;
                if files && worthwhile() {
                    let found = segments(process, MAX_FILES)?.files.into_iter();
                    let touched = found.map(|file| (key_of(file.key), file.referenced));
                    self.half = Some(touched.collect());
                }
                Ok(self.half.is_some().then(Estimate::default))
            }
            _ => match self.half.take() {
                Some(half) => {
                    let found = segments(process, MAX_FILES)?;
                    self.take_in(&half, found.files);
                    Ok(Some(found.whole))
                }
                None => {
                    self.uses.clear();
                    let sums = rollup(process)?;
                    Ok(Some(Estimate {
                        referenced: Bytes(sums.referenced),
                        resident: Bytes(sums.rss),
                        window: Nanos::ZERO,
                    }))
                }
            },
        }
    }

    fn take_in(&mut self, half: &BTreeMap<FileKey, Bytes>, found: Vec<Segment>) {
        let before = std::mem::take(&mut self.uses);
        for file in found.into_iter().filter(|file| file.rss >= WORTHWHILE) {
            let key = key_of(file.key);
            let touched = half.get(&key).copied().unwrap_or_default();
            let new = touched_again(touched, file.referenced);
            let held = before.get(&key).map_or(Bytes::ZERO, |one| one.uses);
            let used = FileUse {
                resident: file.rss,
                proportional: file.pss,
                uses: steadied(held, new),
                strangers: None,
            };
            self.uses.insert(key, used);
        }
    }
}

/// Noise moves no memory: a change by an eighth does.
fn steadied(held: Bytes, new: Bytes) -> Bytes {
    let moved = held.max(new) - held.min(new);
    if moved > held / 8 { new } else { held }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64, mib: u64, referenced: u64) -> Segment {
        Segment {
            key: smaps::FileKey {
                major: 8,
                minor: 1,
                inode,
            },
            rss: Bytes::mib(mib),
            pss: Bytes::mib(mib),
            referenced: Bytes::mib(referenced),
            ..Segment::default()
        }
    }

    #[test]
    fn only_what_is_touched_again_and_again_is_used() {
        let mut window = FileWindow::default();
        let mut uses = |half: &[(u64, u64)], found: &[Segment]| -> Vec<u64> {
            let half = half
                .iter()
                .map(|&(inode, mib)| ((8, 1, inode), Bytes::mib(mib)));
            window.take_in(&half.collect(), found.to_vec());
            window.uses.values().map(|one| one.uses.0 >> 20).collect()
        };
        let halves = [(1, 60), (2, 50), (3, 2)];
        let found = [file(1, 64, 64), file(2, 200, 100), file(3, 3, 2)];
        assert_eq!(uses(&halves, &found), [56, 0], "the third is too small");
        assert_eq!(uses(&[(1, 60)], &[file(1, 64, 62)]), [56], "it is noise");
        assert_eq!(uses(&[(1, 30)], &[file(1, 64, 30)]), [30]);
        assert_eq!(uses(&[], &[file(1, 64, 64)]), [0]);
        assert_eq!(uses(&[(1, 64)], &[]), [0; 0], "it is not mapped any more");
    }
}
