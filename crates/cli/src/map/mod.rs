//! `plimsoll map`: where the memory of processes is, by area and state.
//!
//! # Map
//! `targets` finds the processes, `text` writes the map for people. `html_report` keeps the looks that
//! [`html`] draws; `address_space` says where in the address space memory lies. `number` says how sure a
//! number is. [`plimsoll_map`] reads the memory of a process.

mod address_space;
pub mod html;
mod html_report;
mod number;
mod targets;
mod text;

use crate::args;
use crate::error::{CliError, FAILED};
use crate::json;
use crate::own_broker::Place;
use crate::progress::Line;
use html_report::Page;
use plimsoll_map::{Failed, Look, LookError, Options, Report, Watch, look};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};
use text::Style;

/// Puts the cursor at the top and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Looks at the processes and prints or draws what they have, once or again and again.
///
/// # Errors
/// When there is no such group, principal or broker, or the page cannot be written. A process that
/// shows nothing is none: a line says why, and the status is 1.
pub fn run(place: &dyn Fn() -> Place, args: &args::Map) -> Result<u8, CliError> {
    let options = Options {
        limit: Duration::from_secs(args.timeout),
        addresses: args.addresses || args.html.is_some(),
        who: args.who,
        clear_references: args.referenced,
    };
    let mut page = args.html.as_deref().map(Page::begin).transpose()?;
    let end = args
        .r#for
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut before: Vec<Look> = Vec::new();
    let mut watch = args.watch.map(|_| Watch::default());
    let mut looks = 0u64;
    let mut progress = Progress::new(args);
    let failed = loop {
        let pids = match targets::find(place, args, looks > 0) {
            Ok(pids) => pids,
            // Those that were watched are gone, which is no failure.
            Err(error) if looks > 0 && targets::is_over(&error) => break false,
            Err(error) => {
                // The looks at them until now are drawn.
                page.filter(|_| looks > 0).map_or(Ok(()), Page::end)?;
                return Err(error);
            }
        };
        let Seen {
            mut report,
            broken,
            of_kernel,
        } = report(&pids, args, &options, &before, watch.as_mut());
        looks += 1;
        match &mut page {
            Some(page) => page.add(&mut report, options.limit),
            None => show(&report, args)?,
        }
        // A person who watches a page reads of it there; the terminal has it once.
        let told = page.is_some() && looks > 1;
        if !args.json && !told {
            tell_failed(&report, &of_kernel);
        }
        progress.show(looks);
        let pause = args.watch.map(Duration::from_secs);
        let pause = pause.filter(|pause| end.is_none_or(|end| Instant::now() + *pause <= end));
        let over = args.count.is_some_and(|count| looks >= count) || report.processes.is_empty();
        let Some(pause) = pause.filter(|_| !over) else {
            // Programs that end while they are watched are no failure.
            let nothing = report.processes.is_empty() || report.failed.len() > of_kernel.len();
            break broken || nothing && looks == 1;
        };
        before = report.processes;
        let more = match &mut page {
            Some(page) => page.sleep(pause)?,
            None => {
                std::thread::sleep(pause);
                true
            }
        };
        if !more {
            break false;
        }
    };
    progress.clear();
    page.map_or(Ok(()), Page::end)?;
    Ok(if failed { FAILED } else { 0 })
}

fn show(report: &Report, args: &args::Map) -> Result<(), CliError> {
    if args.json {
        // With all addresses it may have tens of MiB.
        let written = json::write(report, args.watch.is_none(), &mut std::io::stdout().lock());
        return crate::output::printed(written).map(|_| ());
    }
    let watched = args.watch.is_some();
    let text = text::report(report, args.sum, &Style::of_terminal(args.width));
    let text = if watched && std::io::stdout().is_terminal() {
        format!("{CLEAR}{text}")
    } else {
        text + if watched { "\n" } else { "" }
    };
    crate::output::print(&text).map(|_| ())
}

/// Says of what there is no map. Threads of the kernel are told together.
fn tell_failed(report: &Report, of_kernel: &BTreeSet<i32>) {
    let others = report
        .failed
        .iter()
        .filter(|failed| !of_kernel.contains(&failed.pid));
    for failed in others {
        crate::output::say(format_args!("{}", failed.why));
    }
    if !of_kernel.is_empty() {
        crate::output::say(format_args!(
            "left out: threads of the kernel, which have no memory of their own to map: {}",
            of_kernel.len()
        ));
    }
}

/// Shows on a terminal that a page is being drawn.
struct Progress<'a> {
    line: Line,
    file: Option<&'a Path>,
    /// Looks in all, if they are bounded.
    most: Option<u64>,
}

impl<'a> Progress<'a> {
    fn new(args: &'a args::Map) -> Progress<'a> {
        let timed = args
            .r#for
            .zip(args.watch)
            .map(|(time, pause)| time / pause + 1);
        Progress {
            line: Line::on_terminal(args.watch.is_none()),
            file: args.html.as_deref().filter(|file| *file != Path::new("-")),
            most: args.count.into_iter().chain(timed).min(),
        }
    }

    fn show(&mut self, looks: u64) {
        let Some(file) = self.file else { return };
        let most = self
            .most
            .map_or(String::new(), |most| format!(" of {most}"));
        self.line.show(|| {
            format!(
                "writing {}, look {looks}{most}; Ctrl-C ends",
                file.display()
            )
        });
    }

    fn clear(&mut self) {
        self.line.clear();
    }
}

/// The results of one look at each process.
struct Seen {
    report: Report,
    /// One could not be looked at although it has not ended.
    broken: bool,
    /// Threads of the kernel in a group or principal: nobody has named them.
    of_kernel: BTreeSet<i32>,
}

/// One look at each process.
fn report(
    pids: &[i32],
    args: &args::Map,
    options: &Options,
    before: &[Look],
    mut watch: Option<&mut Watch>,
) -> Seen {
    let mut of_kernel = BTreeSet::new();
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
    let (mut looks, mut failed, mut broken) = (Vec::new(), Vec::new(), false);
    if let Some(watch) = watch.as_deref_mut() {
        watch.keep(pids);
    }
    for &pid in pids {
        let looked = match watch.as_deref_mut() {
            Some(watch) => watch.look(pid, options),
            None => look(pid, options),
        };
        match looked {
            Ok(mut look) => {
                for earlier in before.iter().filter(|earlier| earlier.pid == pid) {
                    look.compare(earlier);
                }
                looks.push(look);
            }
            Err(error) => {
                let is_of_kernel = matches!(error, LookError::KernelThread { .. });
                if is_of_kernel && !args.pids.contains(&pid) {
                    let _ = of_kernel.insert(pid);
                } else {
                    broken |= !matches!(error, LookError::Gone { .. });
                }
                failed.push(Failed {
                    pid,
                    why: crate::rows::shown(&error.to_string(), 1000),
                });
            }
        }
    }
    let now = u64::try_from(now).unwrap_or(0);
    Seen {
        report: Report::of(now, looks, failed),
        broken,
        of_kernel,
    }
}
