//! The last time that each object of a trace is named: a table by number in a file without a name. A part of
//! it is held in memory. Objects that are named at about the same time have near numbers, so few parts are
//! read again.

use super::Time;
use crate::error::TraceError;
use crate::numbered::Map;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Numbers in a page. It has 128 KiB.
const NUMBERS: usize = 16 << 10;
/// The most pages that are held: 128 MiB.
const MOST: usize = 1024;

#[derive(Debug)]
struct Page {
    times: Vec<Time>,
    changed: bool,
    /// When it was used last, counted in uses of other pages.
    used: u64,
}

/// The table. 0 is the time of what was never set.
#[derive(Debug)]
pub(super) struct LastUse {
    file: File,
    name: Arc<str>,
    pages: Map<Page>,
    uses: u64,
    /// The page that was used last.
    current: u64,
}

impl LastUse {
    /// An empty table, in a file that is empty and open for reading and writing. `name` is what errors call
    /// it.
    pub(super) fn new(file: File, name: &str) -> LastUse {
        LastUse {
            file,
            name: name.into(),
            pages: Map::default(),
            uses: 0,
            current: u64::MAX,
        }
    }

    pub(super) fn set(&mut self, number: u64, time: Time) -> Result<(), TraceError> {
        let (page, at) = self.page(number)?;
        page.times[at] = time;
        page.changed = true;
        Ok(())
    }

    pub(super) fn get(&mut self, number: u64) -> Result<Time, TraceError> {
        self.page(number).map(|(page, at)| page.times[at])
    }

    fn page(&mut self, number: u64) -> Result<(&mut Page, usize), TraceError> {
        let (which, at) = (number / NUMBERS as u64, (number % NUMBERS as u64) as usize);
        if which != self.current {
            self.uses += 1;
            self.current = which;
            if !self.pages.contains_key(&which) {
                self.make_room()?;
                let times = self.read(which)?;
                self.pages.insert(
                    which,
                    Page {
                        times,
                        changed: false,
                        used: 0,
                    },
                );
            }
        }
        let uses = self.uses;
        let page = self.pages.entry(which).or_insert_with(|| Page {
            times: vec![0; NUMBERS],
            changed: false,
            used: 0,
        });
        page.used = uses;
        Ok((page, at))
    }

    fn make_room(&mut self) -> Result<(), TraceError> {
        if self.pages.len() < MOST {
            return Ok(());
        }
        // A quarter at once, so that the search is rare.
        let mut by_use: Vec<(u64, u64)> = self
            .pages
            .iter()
            .map(|(which, page)| (page.used, *which))
            .collect();
        by_use.sort_unstable();
        for (_, which) in by_use.into_iter().take(MOST / 4) {
            if let Some(page) = self.pages.remove(&which).filter(|page| page.changed) {
                let bytes: Vec<u8> = page
                    .times
                    .iter()
                    .flat_map(|time| time.to_le_bytes())
                    .collect();
                let written = self
                    .file
                    .write_all_at(&bytes, which.saturating_mul(bytes.len() as u64));
                written.map_err(TraceError::io(&self.name))?;
            }
        }
        Ok(())
    }

    /// Reads a page; what was never written is 0.
    fn read(&self, which: u64) -> Result<Vec<Time>, TraceError> {
        let mut bytes = vec![0; NUMBERS * 8];
        let begin = which.saturating_mul(bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let read = self
                .file
                .read_at(&mut bytes[done..], begin.saturating_add(done as u64));
            match read.map_err(TraceError::io(&self.name))? {
                0 => break,
                more => done += more,
            }
        }
        let words = bytes.as_chunks::<8>().0;
        Ok(words
            .iter()
            .map(|word| Time::from_le_bytes(*word))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_fits_into_memory_is_found_again() {
        let mut last = LastUse::new(tempfile::tempfile().unwrap(), "table");
        let step = NUMBERS as u64 / 2 + 1;
        let many = MOST as u64 * 3;
        for n in 0..many {
            last.set(n * step, n + 1).unwrap();
        }
        assert!(last.pages.len() <= MOST);
        for n in (0..many).step_by(7) {
            assert_eq!(last.get(n * step).unwrap(), n + 1);
            assert_eq!(last.get(n * step + 1).unwrap(), 0);
        }
    }
}
