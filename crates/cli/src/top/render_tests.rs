use super::*;
use crate::rows::tests::sample;
use crate::top::state::{Key, Sample};
use plimsoll_wire::messages::Statistics;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

fn draw(state: &State, width: u16, height: u16, colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|f| frame(f, state, Colours(colours)))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(width).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn running() -> State {
    let mut state = State::default();
    for second in 0..9u64 {
        let mut listing = sample();
        let search = &mut listing.principals[1].children[0];
        search.uses = search.uses * (second + 1) / 9;
        search.major_faults += second * 3;
        if second < 4 {
            listing.principals[1].children.truncate(1);
        }
        state.push(Sample {
            at: second as f64,
            listing,
        });
    }
    state
}

#[test]
fn fits_eighty_by_twenty_four() {
    let expected = "\
plimsoll 0.1.0  machine 4.00G  4 principals, sorted by arrival
outsiders 700M  reserve 82.0M  budget 3.24G  uses 1.15G  owed 43.0M
[▒▒▒▒▒▒▒▒▒▒▒▒▒██████████████████████                                         ░░]
 ID NAME             PID WT(PRIO)   USES  LIMIT  COULD   OWES FLT/S HISTORY
  1 an editor wit~    99      100  64.0M  90.0M  9.00G      0     0 ▆▆▆▆▆▆▆▆▆
! 2 demo               -      100  1.09G  1.05G  1.13G  43.0M     0 █████████
* 4   search        4712   40(+2)   900M   857M   857M  43.0M   3.0 ▂▃▃▄▅▆▆▇█
  3   index         4711       10   212M   214M   300M      0     0     █████
";
    let drawn = text(&draw(&running(), 80, 24, false));
    let mut lines: Vec<&str> = drawn.lines().collect();
    let foot = lines.pop().unwrap();
    assert_eq!(lines.join("\n").trim_end(), expected.trim_end());
    assert_eq!(
        foot,
        "↑↓ select  +- weight  pP priority  s sort  g details  h help  q quit"
    );
}

#[test]
fn a_narrow_screen_has_fewer_columns_and_cuts_no_number() {
    let mut state = running();
    let mut listing = sample();
    listing.domain = "/sys/fs/cgroup/memory/machine/web-service".into();
    state.push(Sample { at: 9.0, listing });
    let drawn = text(&draw(&state, 60, 24, false));
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "plimsoll 0.1.0  ~web-service 4.00G  4 principals",
            "outsiders 700M  budget 3.24G  uses 1.15G  owed 43.0M",
            "[▒▒▒▒▒▒▒▒▒▒█████████████████                              ░]",
            " ID NAME            PID WT(PRIO)   USES  LIMIT  COULD   OWES",
            "  1 an editor wi~    99      100  64.0M  90.0M  9.00G      0",
        ],
        "{drawn}"
    );
    let wide = text(&draw(&state, 100, 24, false));
    assert!(
        wide.starts_with("plimsoll 0.1.0  /sys/fs/cgroup/memory/machine/web-service 4.00G"),
        "{wide}"
    );
    assert!(wide.contains("WSET"), "{wide}");
}

#[test]
fn levels_and_selection_have_colours_unless_they_are_unwanted() {
    let state = running();
    let coloured = draw(&state, 80, 24, true);
    assert_eq!(coloured[(4, 6)].fg, Color::Red);
    assert_eq!(coloured[(4, 5)].fg, Color::Yellow);
    assert!(coloured[(4, 4)].modifier.contains(Modifier::REVERSED));
    let plain = draw(&state, 80, 24, false);
    assert!(
        plain
            .content
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    assert_eq!(text(&plain), text(&coloured));
}

#[test]
fn help_explains_every_column_and_key() {
    let mut state = running();
    state.key(Key::Help, 10);
    let drawn = text(&draw(&state, 80, 24, false));
    for word in [
        "USES", "LIMIT", "COULD", "OWES", "WSET", "FLT/S", "+ -", "p P", "quit",
    ] {
        assert!(drawn.contains(word), "{word}\n{drawn}");
    }
}

#[test]
fn the_collectors_page_fits_eighty_by_twenty_four() {
    let mut state = running();
    let mut listing = sample();
    let search = &mut listing.principals[1].children[0];
    search.collections = Some(3);
    search.collector = Some(Statistics {
        last_pause_us: Some(1500),
        ..Statistics::default()
    });
    state.push(Sample { at: 9.0, listing });
    state.selected = Some(4);
    state.key(Key::Collector, 10);
    let drawn = text(&draw(&state, 80, 24, false));
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines[3], " search  process 4712  hotspot");
    assert_eq!(lines[4], " USES              900M  accounted to it");
    assert!(
        drawn.contains(" COLLECTIONS          3  since its start"),
        "{drawn}"
    );
    assert!(drawn.contains(" LAST PAUSE     1.50 ms"), "{drawn}");
    assert!(lines[23].contains("g details"), "{drawn}");
    state.selected = Some(1);
    let drawn = text(&draw(&state, 80, 24, false));
    assert!(drawn.contains("Nothing is known of a collector"), "{drawn}");
    state.selected = None;
    assert!(text(&draw(&state, 80, 24, false)).contains("HISTORY"));
    state.selected = Some(4);
    for (width, height) in [(1, 1), (10, 3), (40, 5), (200, 60)] {
        draw(&state, width, height, true);
    }
}

#[test]
fn says_when_there_is_nothing_to_show() {
    let drawn = text(&draw(&State::default(), 80, 24, true));
    assert!(drawn.contains("waiting for the broker"));
    let mut empty = State::default();
    empty.push(Sample {
        at: 0.0,
        listing: Listing::default(),
    });
    assert!(text(&draw(&empty, 80, 24, true)).contains("plimsoll run PROGRAM"));
}

#[test]
fn a_message_takes_the_last_line_until_the_next_key() {
    let mut state = running();
    state.message = Some("refused".into());
    assert!(text(&draw(&state, 80, 24, true)).ends_with("refused\n"));
    state.key(Key::Down, 5);
    assert!(text(&draw(&state, 80, 24, true)).ends_with("q quit\n"));
}

#[test]
fn no_screen_is_too_small_or_too_large() {
    let state = running();
    for (width, height) in [
        (1, 1),
        (10, 3),
        (40, 5),
        (59, 24),
        (61, 6),
        (200, 60),
        (500, 200),
    ] {
        draw(&state, width, height, true);
    }
    let wide = text(&draw(&state, 140, 24, false));
    assert!(wide.contains("an editor with a rather long n"), "{wide}");
}

#[test]
fn absurd_numbers_are_shown_all_the_same() {
    let mut listing = sample();
    listing.capacity = 0;
    listing.outsiders = u64::MAX;
    listing.reserve = u64::MAX;
    listing.principals[0].uses = u64::MAX / 2;
    let mut state = State::default();
    state.push(Sample {
        at: 1.0,
        listing: listing.clone(),
    });
    listing.principals[0].major_faults = u64::MAX;
    state.push(Sample { at: 1.0, listing });
    draw(&state, 80, 24, true);
}
