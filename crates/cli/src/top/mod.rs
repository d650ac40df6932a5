//! `plimsoll top`: the loop around [`state`] and [`render`].

mod columns;
mod page;
pub mod render;
pub mod state;

use crate::broker_connection::Control;
use crate::error::CliError;
use crate::rows::shown;
use crate::set::resolve;
use plimsoll_client::Socket;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use render::Colours;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGTERM;
use state::{Effect, Key, Sample, State};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Keys and signals are noticed within this time, however rarely the broker is asked.
const PROMPT: Duration = Duration::from_millis(250);

/// One frame as text, 80 columns wide: the table, or the collector's page of one principal.
///
/// # Errors
/// When no broker answers, or when no principal or several match `collector`.
pub fn once(socket: &Socket, collector: Option<&str>) -> Result<String, CliError> {
    let mut state = State::default();
    let listing = Control::connect(socket)?.list()?;
    let shown = collector
        .map(|which| resolve(&listing, which))
        .transpose()?;
    state.push(Sample { at: 0.0, listing });
    state.selected = shown;
    state.collector = shown.is_some();
    let selected = state.selected().filter(|_| state.collector);
    let lines = match selected.zip(state.listing()) {
        Some((principal, listing)) => page::lines(principal, listing).len(),
        None => state.rows().len(),
    };
    let height = u16::try_from(lines).unwrap_or(u16::MAX).clamp(1, 1000) + 5;
    Ok(text(&state, 80, height))
}

/// Draws a frame without a terminal.
fn text(state: &State, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| render::frame(frame, state, Colours(false)));
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(width)).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    let count = lines.len().saturating_sub(1);
    lines.take(count).collect()
}

/// Whether a terminal with this `TERM` can position text. A dumb one would show the control
/// sequences.
fn draws(term: Option<&std::ffi::OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

/// Shows the screen until the user quits, a signal ends us, or `done` says so.
///
/// # Errors
/// When there is no terminal, or, at the start, no broker.
pub fn run(
    socket: &Socket,
    interval: Duration,
    mut done: impl FnMut() -> bool,
) -> Result<(), CliError> {
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !terminal || !draws(std::env::var_os("TERM").as_deref()) {
        let hint =
            "top needs a terminal that can draw; `plimsoll top --once` prints one frame anywhere";
        return Err(CliError::Usage(hint.into()));
    }
    let ended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&ended))
        .map_err(CliError::system("signals cannot be heard"))?;
    let mut screen = Screen {
        control: Some(Control::connect(socket)?),
        lost: false,
        socket,
        state: State::default(),
        started: Instant::now(),
        colours: Colours::from_environment(),
    };
    let mut terminal =
        ratatui::try_init().map_err(CliError::system("the terminal cannot be used"))?;
    let result = screen.show(&mut terminal, interval, || {
        ended.load(Ordering::Relaxed) || done()
    });
    let_go_of_closed_terminal();
    let _ = ratatui::try_restore();
    result
}

struct Screen<'a> {
    control: Option<Control>,
    /// The message tells that the broker is gone.
    lost: bool,
    socket: &'a Socket,
    state: State,
    started: Instant,
    colours: Colours,
}

impl Screen<'_> {
    fn show(
        &mut self,
        terminal: &mut DefaultTerminal,
        interval: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), CliError> {
        let broken = || CliError::system("the terminal cannot be used");
        let mut due = Instant::now();
        while !done() {
            if Instant::now() >= due {
                self.look();
                due = Instant::now() + interval;
            }
            let height = terminal.size().map_err(broken())?.height;
            self.state.scroll(render::page(height));
            let (state, colours) = (&self.state, self.colours);
            terminal
                .draw(|frame| render::frame(frame, state, colours))
                .map_err(broken())?;
            let wait = due.saturating_duration_since(Instant::now()).min(PROMPT);
            if input(wait).map_err(broken())? == Input::Gone {
                return Ok(());
            }
            while event::poll(Duration::ZERO).map_err(broken())? {
                if let Event::Key(key) = event::read().map_err(broken())?
                    && self.follow(key, render::page(height)) == Effect::Quit
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Asks the broker for its listing. Reconnects if the broker was lost.
    fn look(&mut self) {
        if self.control.is_none() {
            self.control = Control::connect(self.socket).ok();
        }
        let Some(control) = &mut self.control else {
            self.state.message = Some("the broker is gone; looking for it again".into());
            return;
        };
        match control.list() {
            Ok(listing) => {
                if std::mem::take(&mut self.lost) {
                    self.state.message = None;
                }
                let at = self.started.elapsed().as_secs_f64();
                self.state.push(Sample { at, listing });
            }
            Err(error) => {
                self.state.message = Some(shown(&error.to_string(), 200));
                self.control = None;
                self.lost = true;
            }
        }
    }

    fn follow(&mut self, key: KeyEvent, page: usize) -> Effect {
        let Some(key) = meaning(key) else {
            return Effect::Draw;
        };
        let effect = self.state.key(key, page);
        if let Effect::Change(set) = effect {
            let nobody = || CliError::NoBroker {
                socket: self.socket.path().to_owned(),
            };
            let done = self
                .control
                .as_mut()
                .ok_or_else(nobody)
                .and_then(|c| c.set(&set));
            match done {
                Ok(()) => self.state.changed(set),
                Err(error) => self.state.message = Some(shown(&error.to_string(), 200)),
            }
        }
        effect
    }
}

#[derive(PartialEq, Eq)]
enum Input {
    /// Keys, or nothing in that time.
    Open,
    /// The terminal was closed.
    Gone,
}

/// Waits for keys. Polls the terminal itself, because the terminal library reads a closed terminal
/// for ever.
fn input(wait: Duration) -> std::io::Result<Input> {
    match closed(&std::io::stdin(), wait) {
        Ok(true) => Ok(Input::Gone),
        Ok(false) | Err(rustix::io::Errno::INTR) => Ok(Input::Open),
        Err(error) => Err(error.into()),
    }
}

/// Waits for input. Returns whether the terminal was closed.
fn closed(file: &impl AsFd, wait: Duration) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    };
    poll(&mut fds, Some(&timeout))?;
    Ok(fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Avoids a panic of the terminal library: it panics if it can neither restore a closed terminal
/// nor report that on standard error.
fn let_go_of_closed_terminal() {
    let gone = |file: &dyn AsFd| closed(&file.as_fd(), Duration::ZERO).unwrap_or(true);
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else {
        return;
    };
    if gone(&std::io::stdout()) {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    if gone(&std::io::stderr()) {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn meaning(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Quit);
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Char('+' | '=') => Key::Heavier,
        KeyCode::Char('-') => Key::Lighter,
        KeyCode::Char('p') => Key::Raise,
        KeyCode::Char('P') => Key::Lower,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char('g') | KeyCode::Enter => Key::Collector,
        KeyCode::Char('h' | '?') | KeyCode::F(1) => Key::Help,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;

    #[test]
    fn one_frame_is_plain_text() {
        let mut state = State::default();
        state.push(Sample {
            at: 0.0,
            listing: sample(),
        });
        let drawn = text(&state, 80, 9);
        assert!(
            drawn.starts_with("plimsoll 0.1.0  machine 4.00G"),
            "{drawn}"
        );
        assert!(drawn.lines().count() == 8 && drawn.lines().all(|l| l.chars().count() <= 80));
        assert!(!drawn.contains('\x1b'));
    }

    #[test]
    fn a_dumb_terminal_gets_no_screen() {
        assert!(draws(None) && draws(Some("xterm".as_ref())));
        assert!(!draws(Some("dumb".as_ref())));
    }

    #[test]
    fn keys_mean_what_the_help_says() {
        let press = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(press(KeyCode::Char('+')), Some(Key::Heavier));
        assert_eq!(press(KeyCode::Char('P')), Some(Key::Lower));
        assert_eq!(press(KeyCode::Enter), Some(Key::Collector));
        assert_eq!(press(KeyCode::Char('x')), None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(interrupt), Some(Key::Quit));
    }
}
