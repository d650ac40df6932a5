//! `plimsoll top` in a real terminal (tmux). Without tmux the tests say so and check nothing.

mod common;

use common::{Place, wait_for};
use plimsoll_testbed::skip;
use std::process::Command;

/// A tmux server for one test, which ends with it.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn start(
        place: &Place,
        width: u32,
        height: u32,
        variables: &str,
        command: &str,
    ) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("tmux is not installed");
            return None;
        }
        let tmux = Tmux {
            socket: place
                .path(&format!("tmux-{width}-{}", variables.len()))
                .display()
                .to_string(),
        };
        let (exe, socket) = (env!("CARGO_BIN_EXE_plimsoll"), place.socket());
        let line = format!(
            "env -u NO_COLOR {variables} PLIMSOLL_SOCKET={} {exe} {command}; echo left $?; sleep 600",
            socket.display()
        );
        let size = [width.to_string(), height.to_string()];
        tmux.call(&["new-session", "-d", "-x", &size[0], "-y", &size[1], &line]);
        Some(tmux)
    }

    fn call(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command
            .args(["-S", &self.socket, "-f", "/dev/null"])
            .args(args)
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.call(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }

    fn shows(&self, needle: &str) -> String {
        wait_for(&format!("the screen shows {needle}"), || {
            Some(self.screen()).filter(|screen| screen.contains(needle))
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

#[test]
fn the_screen_follows_keys_and_changes_weights() {
    let place = Place::new();
    let _runs = ["light", "heavy"].map(|name| {
        let run = place.start(&["run", "-n", name, "-w", "100", "sleep", "600"]);
        place.attached(name);
        run
    });
    let Some(tmux) = Tmux::start(&place, 80, 24, "", "top --interval 100") else {
        return;
    };
    let screen = tmux.shows("heavy");
    assert!(screen.contains("budget") && screen.contains("light") && screen.contains("q quit"));
    assert!(screen.lines().all(|line| line.chars().count() <= 80));
    tmux.keys(&["Down", "+", "p"]);
    tmux.shows("110(+1)");
    let heavy = place.principal("heavy").unwrap();
    assert_eq!((heavy.weight, heavy.priority), (110, 1));
    tmux.keys(&["Up", "-", "P"]);
    tmux.shows("90(-1)");
    tmux.keys(&["s"]);
    tmux.shows("sorted by name");
    tmux.keys(&["Enter"]);
    tmux.shows("Nothing is known of a collector");
    tmux.keys(&["q"]);
    tmux.shows("HISTORY");
    tmux.keys(&["h"]);
    tmux.shows("bytes it must give back");
    tmux.call(&["resize-window", "-x", "60", "-y", "10"]);
    tmux.keys(&["h"]);
    tmux.shows("light");
    tmux.keys(&["q"]);
    tmux.shows("left 0");
}

#[test]
fn colours_are_off_where_they_are_not_wanted() {
    let place = Place::new();
    let _run = place.start(&["run", "-n", "only", "sleep", "600"]);
    place.attached("only");
    for (variables, colourful) in [("NO_COLOR=1", false), ("NO_COLOR=", true)] {
        let Some(tmux) = Tmux::start(&place, 80, 24, variables, "top") else {
            return;
        };
        tmux.shows("only");
        let escapes = tmux.call(&["capture-pane", "-p", "-e"]);
        // Terminals with 8 colours have other escape sequences than those with more.
        let plain = (1..=6).any(|colour| escapes.contains(&format!("\x1b[3{colour}m")));
        let coloured = plain || escapes.contains("\x1b[38;");
        assert_eq!(coloured, colourful, "{variables}: {escapes:?}");
        tmux.keys(&["C-c"]);
        tmux.shows("left 0");
    }
}

#[test]
fn a_lost_broker_is_told_and_found_again() {
    let place = Place::new();
    let _run = place.start(&["run", "-n", "only", "sleep", "600"]);
    place.attached("only");
    let Some(tmux) = Tmux::start(&place, 80, 24, "", "top --interval 100") else {
        return;
    };
    tmux.shows("only");
    let first = place.listing().unwrap().pid;
    common::signal_to(first, libc::SIGKILL);
    wait_for("another broker", || {
        place.listing().filter(|l| l.pid != first)
    });
    place.attached("only");
    // Presses the key until the screen shows the new broker's principal.
    wait_for("the weight grows", || {
        tmux.keys(&["Down", "+"]);
        Some(()).filter(|()| {
            place
                .principal("only")
                .is_some_and(|only| only.weight > 100)
        })
    });
    tmux.keys(&["Down"]);
    tmux.shows("q quit");
}

#[test]
fn the_programs_of_a_file_run_behind_the_screen() {
    let place = Place::new();
    let file = place.write(
        "p.toml",
        "name='noisy'\n[[program]]\nname='chatter'\n\
         command='sh -c \"echo across the screen; sleep 600\"'\n",
    );
    let command = format!("run --top -f {}", file.display());
    let Some(tmux) = Tmux::start(
        &place,
        80,
        24,
        &format!("TMPDIR={}", file.parent().unwrap().display()),
        &command,
    ) else {
        return;
    };
    let screen = tmux.shows("chatter");
    assert!(!screen.contains("across the screen"), "{screen}");
    tmux.keys(&["q"]);
    tmux.shows("the programs go on");
    tmux.keys(&["C-c"]);
    let screen = tmux.shows("left 143");
    assert!(
        screen.contains("what the programs printed is in"),
        "{screen}"
    );
}

#[test]
fn control_z_stops_the_program_with_us() {
    let place = Place::new();
    let Some(tmux) = Tmux::start(&place, 80, 24, "", "--version") else {
        return;
    };
    tmux.shows("left 0");
    let exe = env!("CARGO_BIN_EXE_plimsoll");
    let shell = format!(
        "PLIMSOLL_SOCKET={} bash --norc -i",
        place.socket().display()
    );
    tmux.call(&["respawn-pane", "-k", &shell]);
    tmux.keys(&[&format!("{exe} run -n job sleep 600"), "Enter"]);
    let pid = place.attached("job").pid.unwrap();
    tmux.keys(&["C-z"]);
    tmux.shows("Stopped");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    wait_for("the program stops", || {
        stat().contains(") T ").then_some(())
    });
    tmux.keys(&["fg", "Enter"]);
    wait_for("the program goes on", || {
        (!stat().contains(") T ")).then_some(())
    });
    tmux.keys(&["C-c"]);
    tmux.keys(&["echo status $?", "Enter"]);
    tmux.shows("status 130");
}

/// The processes that have this variable in their environment.
fn with_variable(variable: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment)
                .split('\0')
                .any(|pair| pair == variable)
        })
        .collect()
}

#[test]
fn a_closed_terminal_ends_the_screen_and_the_programs() {
    let place = Place::new();
    let file = place.write("p.toml", "[[program]]\nname='only'\ncommand='sleep 600'\n");
    let mark = format!("PLIMSOLL_TEST={}", file.display());
    let temporary = format!("TMPDIR={} {mark}", file.parent().unwrap().display());
    let command = format!("run --top -f {}", file.display());
    let Some(tmux) = Tmux::start(&place, 80, 24, &temporary, &command) else {
        return;
    };
    tmux.shows("only");
    place.attached("only");
    drop(tmux);
    let broker = place.listing().unwrap().pid;
    wait_for("all are gone but the broker", || {
        with_variable(&mark)
            .iter()
            .all(|&pid| pid == broker)
            .then_some(())
    });
}
