//! Looks at processes again and again, and prints or draws each look.

use super::html::{Look as Drawn, Shown, page};
use super::report;
use super::spread::spread;
use super::text::{self, Style};
use crate::args;
use crate::error::{CliError, FAILED};
use crate::json;
use plimsoll_map::{Look, Options, Report};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most looks that a page keeps of all its processes. When there are more, every second one is
/// dropped, and from then on every second one is kept.
const MOST_LOOKS: usize = 480;
/// Most processes of a page.
const MOST_DRAWN: usize = 24;
/// Between two questions whether a signal came.
const SLICE: Duration = Duration::from_millis(100);

/// A line of `--json --watch`.
#[derive(Serialize)]
struct Line<'a> {
    /// Since the first look.
    seconds: f64,
    #[serde(flatten)]
    report: &'a Report,
}

/// Looks until the time is up, all processes have exited, or a signal came.
///
/// # Errors
/// When the page cannot be written. That a process exits while it is watched is none.
pub(super) fn run(pids: &[i32], options: &Options, args: &args::Map) -> Result<u8, CliError> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))
            .map_err(CliError::system("signals"))?;
    }
    let options = Options {
        addresses: args.addresses || args.html.is_some(),
        ..*options
    };
    let mut page = args
        .html
        .as_deref()
        .map(|path| Page::new(path, pids, args.watch));
    let begin = Instant::now();
    let mut turn = 0u32;
    let mut seen = false;
    loop {
        let seconds = begin.elapsed().as_secs_f64();
        let report = report(pids, &options);
        let (none, first) = (report.processes.is_empty(), turn == 0);
        for failed in report.failed.iter().filter(|_| first && !args.json) {
            crate::say(format_args!("{}", failed.why));
        }
        seen |= !none;
        turn += 1;
        let due = args.watch.map(|interval| interval * f64::from(turn));
        let due = due.filter(|due| args.duration.is_none_or(|most| *due <= most));
        let going_on = due.filter(|_| !none && !stopped.load(Ordering::Relaxed));
        match &mut page {
            Some(page) => page.add(seconds, report, &options, going_on.is_some())?,
            None => {
                show(seconds, &report, args)?;
            }
        }
        let Some(due) = going_on else { break };
        sleep_until(begin + Duration::from_secs_f64(due), &stopped);
        if stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(page) = &mut page {
        page.write(None)?;
    }
    Ok(if seen { 0 } else { FAILED })
}

fn sleep_until(due: Instant, stopped: &AtomicBool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || stopped.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(SLICE));
    }
}

fn show(seconds: f64, report: &Report, args: &args::Map) -> Result<u8, CliError> {
    let text = match args.json {
        true => json::line(&Line { seconds, report }) + "\n",
        false => {
            let style = Style::of_terminal(args.width);
            format!("after {seconds:.1} s\n{}\n", text::report(report, &style))
        }
    };
    crate::print(&text)
}

/// A page that grows with every look.
struct Page<'a> {
    path: &'a Path,
    pids: &'a [i32],
    /// Seconds from one look to the next.
    interval: Option<f64>,
    shown: Vec<Shown>,
    /// One of so many looks is kept.
    stride: u32,
    looks: u32,
    written: Option<Instant>,
}

impl<'a> Page<'a> {
    fn new(path: &'a Path, pids: &'a [i32], interval: Option<f64>) -> Page<'a> {
        let drawn = &pids[..pids.len().min(MOST_DRAWN)];
        let mut shown = Vec::new();
        if pids.len() > 1 {
            shown.push(Shown {
                title: format!("all {} processes", pids.len()),
                looks: Vec::new(),
                notes: Vec::new(),
            });
        }
        shown.extend(drawn.iter().map(|pid| Shown {
            title: format!("process {pid}"),
            looks: Vec::new(),
            notes: Vec::new(),
        }));
        Page {
            path,
            pids,
            interval,
            shown,
            stride: 1,
            looks: 0,
            written: None,
        }
    }

    /// Adds a look at all processes; writes the page if more looks follow and the last writing was
    /// some time ago.
    fn add(
        &mut self,
        seconds: f64,
        report: Report,
        options: &Options,
        more: bool,
    ) -> Result<(), CliError> {
        let kept = self.looks.is_multiple_of(self.stride) || !more;
        self.looks += 1;
        if !kept {
            return Ok(());
        }
        let several = usize::from(self.pids.len() > 1);
        if several == 1 && !report.processes.is_empty() {
            let all = &mut self.shown[0];
            all.notes.clone_from(&report.notes);
            if self.pids.len() > MOST_DRAWN {
                all.notes.push(format!(
                    "only the first {MOST_DRAWN} processes are drawn one by one"
                ));
            }
            all.looks.push(Drawn {
                seconds,
                total: report.total,
                areas: report.areas,
                ..Drawn::default()
            });
        }
        for failed in report.failed {
            if let Some(shown) = self.of(failed.pid) {
                shown.notes = vec![failed.why];
            }
        }
        for look in report.processes {
            let Some(shown) = self.of(look.pid) else {
                continue;
            };
            shown.title = title(&look);
            shown.notes = look.notes;
            shown.looks.push(Drawn {
                seconds,
                total: look.total,
                areas: look.areas,
                space: spread(look.pid, look.parts, options.limit),
            });
        }
        self.thin();
        let pause =
            Duration::from_secs(1).max(Duration::from_secs_f64(self.interval.unwrap_or(0.0)));
        match self.written.is_none_or(|last| last.elapsed() >= pause) && more && !self.is_output() {
            true => self.write(Some(pause.as_secs().clamp(1, 60) as u32)),
            false => Ok(()),
        }
    }

    fn of(&mut self, pid: i32) -> Option<&mut Shown> {
        let several = usize::from(self.pids.len() > 1);
        let index = self.pids.iter().position(|one| *one == pid)?;
        self.shown.get_mut(index + several)
    }

    fn thin(&mut self) {
        let most = MOST_LOOKS / self.shown.len().max(1);
        if self
            .shown
            .iter()
            .all(|shown| shown.looks.len() <= most.max(8))
        {
            return;
        }
        self.stride = self.stride.saturating_mul(2);
        for shown in &mut self.shown {
            let mut index = 0;
            shown.looks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    fn is_output(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Writes the page; `again` as in [`page`].
    fn write(&mut self, again: Option<u32>) -> Result<(), CliError> {
        let text = page(&self.shown, again);
        self.written = Some(Instant::now());
        match self.is_output() {
            true => crate::print(&text).map(|_| ()),
            false => replace(self.path, &text),
        }
    }
}

fn title(look: &Look) -> String {
    match &look.runtime {
        Some(runtime) => format!("{} ({}), {runtime}", look.name, look.pid),
        None => format!("{} ({})", look.name, look.pid),
    }
}

/// Replaces a file at once, so that whoever reads it sees a whole page. What is no regular file is
/// written to.
fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let failed = || CliError::path(path);
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return std::fs::write(path, text).map_err(failed());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new: PathBuf = path.with_file_name(name);
    let written =
        std::fs::File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    let replaced = written.and_then(|()| std::fs::rename(&new, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    replaced.map_err(failed())
}
