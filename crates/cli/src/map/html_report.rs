//! `--html`: a page of pictures that grows with every look.

use super::address_space::spread;
use super::html::{Back, Look as Drawn, Shown, page};
use crate::error::CliError;
use crate::output::Output;
use plimsoll_map::attribute::AreaOf;
use plimsoll_map::{Look, Report};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most looks that are kept of all processes together. When there are more, every second one is
/// dropped, and from then on every second one is kept.
const MOST_LOOKS: usize = 480;
/// Fewest looks of one process that are kept.
const FEWEST_LOOKS: usize = 16;
/// Most processes that are drawn one by one.
const MOST_DRAWN: usize = 24;
/// Between two questions whether a signal came.
const SLICE: Duration = Duration::from_millis(100);
/// Between two writings of the page, while looks are still added.
const PAUSE: Duration = Duration::from_secs(2);

/// A page, its looks so far, and the signals that end it. It is whole whenever it is written.
pub(super) struct Page<'a> {
    path: &'a Path,
    /// All processes together, if there were several.
    all: Shown,
    /// By the order of their coming: number, and what is drawn.
    shown: Vec<(i32, Shown)>,
    /// Processes that were not drawn one by one.
    left_out: bool,
    /// One in this many looks is kept.
    stride: u64,
    looks: u64,
    /// When the first look was done.
    begun: Option<Instant>,
    written: Option<Instant>,
    stopped: Arc<AtomicBool>,
}

impl<'a> Page<'a> {
    /// Begins a page at `path`; `-` is standard output. From now on, Ctrl-C and the like do not end
    /// this process, but make [`Page::sleep`] return false.
    ///
    /// # Errors
    /// When signals cannot be received.
    pub(super) fn begin(path: &'a Path) -> Result<Page<'a>, CliError> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stopped))
                .map_err(CliError::system("signals"))?;
        }
        Ok(Page {
            path,
            all: Shown::titled("all processes"),
            shown: Vec::new(),
            left_out: false,
            stride: 1,
            looks: 0,
            begun: None,
            written: None,
            stopped,
        })
    }

    /// Adds a look at all processes. `limit` is the longest that reading the pages of one may take.
    pub(super) fn add(&mut self, report: &mut Report, limit: Duration) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let seconds = begun.elapsed().as_secs_f64();
        let kept = self.looks.is_multiple_of(self.stride);
        self.looks += 1;
        if report.processes.len() > 1 {
            add_refaulted(&mut self.all, &report.areas);
        }
        if kept && report.processes.len() > 1 {
            self.all.title = format!("all {} processes", report.processes.len());
            self.all.notes.clone_from(&report.notes);
            self.all.looks.push(Drawn {
                seconds,
                total: report.total,
                areas: report.areas.clone(),
                ..Drawn::default()
            });
        }
        for failed in &report.failed {
            if let Some(shown) = self.of(failed.pid) {
                shown.notes = vec![failed.why.clone()];
            }
        }
        for look in &mut report.processes {
            let parts = std::mem::take(&mut look.parts);
            let Some(shown) = self.of(look.pid) else {
                continue;
            };
            // Memory that came back counts also if the look is not kept.
            add_refaulted(shown, &look.areas);
            if !kept {
                continue;
            }
            shown.title = title(look);
            shown.notes.clone_from(&look.notes);
            shown.looks.push(Drawn {
                seconds,
                total: look.total,
                areas: look.areas.clone(),
                space: spread(look.pid, parts, limit),
            });
        }
        self.thin();
    }

    /// The content for a process, if it is one of the first.
    fn of(&mut self, pid: i32) -> Option<&mut Shown> {
        let known = self.shown.iter().position(|(one, _)| *one == pid);
        let index = known.unwrap_or(self.shown.len());
        if known.is_none() {
            if self.shown.len() >= MOST_DRAWN {
                self.left_out = true;
                return None;
            }
            let shown = Shown::titled(&format!("process {pid}"));
            self.shown.push((pid, shown));
        }
        self.shown.get_mut(index).map(|(_, shown)| shown)
    }

    fn thin(&mut self) {
        let most = (MOST_LOOKS / self.shown.len().max(1)).max(FEWEST_LOOKS);
        let each = || self.shown.iter().map(|(_, shown)| shown).chain([&self.all]);
        if each().all(|shown| shown.looks.len() <= most) {
            return;
        }
        self.stride = self.stride.saturating_mul(2);
        let each = self.shown.iter_mut().map(|(_, shown)| shown);
        for shown in each.chain([&mut self.all]) {
            let mut second = true;
            shown.looks.retain(|_| {
                second = !second;
                !second
            });
        }
    }

    /// Waits until it is time for the next look. Writes the page meanwhile, if it was not written of
    /// late. Returns false if a signal came.
    ///
    /// # Errors
    /// When the page cannot be written.
    pub(super) fn sleep(&mut self, time: Duration) -> Result<bool, CliError> {
        let due = Instant::now() + time;
        let is_file = self.path != Path::new("-");
        if is_file && self.written.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.write(Some(time.max(PAUSE).as_secs().min(60)))?;
        }
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    /// Writes the page for the last time.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn end(mut self) -> Result<(), CliError> {
        self.write(None)
    }

    /// Writes the page; `again` as in [`page`].
    fn write(&mut self, again: Option<u64>) -> Result<(), CliError> {
        self.written = Some(Instant::now());
        let mut shown = Vec::new();
        if !self.all.looks.is_empty() {
            let mut all = self.all.clone();
            if self.left_out {
                let note = format!("only the first {MOST_DRAWN} processes are drawn one by one");
                all.notes.push(note);
            }
            shown.push(all);
        }
        shown.extend(self.shown.iter().map(|(_, shown)| shown.clone()));
        let text = page(&shown, again);
        if self.path == Path::new("-") {
            crate::output::print(&text).map(|_| ())
        } else {
            Output::replace(self.path, &text)
        }
    }
}

fn add_refaulted(shown: &mut Shown, areas: &[AreaOf]) {
    for area in areas {
        Back::add(&mut shown.refaulted, area.kind, &area.states);
    }
}

fn title(look: &Look) -> String {
    match &look.runtime {
        Some(runtime) => format!("{} ({}), {runtime}", look.name, look.pid),
        None => format!("{} ({})", look.name, look.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_map::{Failed, Kind, States};

    fn report(pids: &[i32]) -> Report {
        let look = |&pid: &i32| Look {
            pid,
            name: "x".into(),
            ..Look::default()
        };
        Report::of(0, pids.iter().map(look).collect(), Vec::new())
    }

    #[test]
    fn looks_and_processes_are_bounded() {
        let mut page = Page::begin(Path::new("-")).expect("signals");
        let pids: Vec<i32> = (1..=100).collect();
        for _ in 0..1000 {
            page.add(&mut report(&pids[..1]), Duration::ZERO);
            assert!(page.shown[0].1.looks.len() <= MOST_LOOKS);
        }
        assert!(page.shown[0].1.looks.len() > MOST_LOOKS / 4);
        for _ in 0..100 {
            page.add(&mut report(&pids), Duration::ZERO);
        }
        assert_eq!(page.shown.len(), MOST_DRAWN);
        let most = page.shown.iter().map(|(_, shown)| shown.looks.len()).max();
        assert!(most <= Some(MOST_LOOKS / MOST_DRAWN) && page.left_out);
        assert!(!page.all.looks.is_empty());
    }

    #[test]
    fn refaults_of_looks_that_are_not_kept_count_too() {
        let mut page = Page::begin(Path::new("-")).expect("signals");
        let mut look = report(&[1]);
        let area = AreaOf {
            kind: Kind::Old,
            states: States {
                refaulted: Some(4096),
                ..States::default()
            },
            estimated: Default::default(),
        };
        look.processes[0].areas = vec![area];
        for _ in 0..1000 {
            page.add(&mut look.clone(), Duration::ZERO);
        }
        let shown = &page.shown[0].1;
        assert!(shown.looks.len() < 1000);
        assert_eq!(shown.refaulted[&Kind::Old].bytes, Some(1000 * 4096));
    }

    #[test]
    fn the_page_is_replaced_at_once_and_says_why_there_is_no_map() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("map.html");
        std::fs::write(&path, "before").expect("written");
        let mut page = Page::begin(&path).expect("signals");
        let why = "no process has the number 7".to_owned();
        let mut report = Report::of(0, Vec::new(), vec![Failed { pid: 7, why }]);
        page.add(&mut report, Duration::ZERO);
        assert!(page.sleep(Duration::ZERO).expect("written"));
        let growing = std::fs::read_to_string(&path).expect("read");
        assert!(growing.contains("http-equiv=\"refresh\""));
        page.end().expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("no process has the number 7") && !text.contains("refresh"));
        let files = std::fs::read_dir(folder.path()).expect("read").count();
        assert_eq!(files, 1, "nothing is left behind");
        let nowhere = folder.path().join("no/such/folder.html");
        let failed = Page::begin(&nowhere).and_then(Page::end);
        assert!(failed.is_err_and(|error| error.to_string().contains("no/such")));
    }
}
