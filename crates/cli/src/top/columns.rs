//! The columns of the table, and which of them a screen has room for. A column is there as a whole or not at
//! all, so that no number is cut.

use super::state::{HISTORY, State};
use crate::rows::{Faults, Row, shown, standing};
use crate::size::Human;

/// The narrowest column of names.
const LEAST_NAME: usize = 14;
/// The narrowest history, with the gap before it.
const LEAST_HISTORY: usize = 9;
/// Names get a third of what is left over, and no more than a third of this.
const MOST_MORE: usize = 60;
/// The widest history; also the most that names get where there is none.
const WIDEST: usize = HISTORY + 10;

/// A column right of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Pid,
    Standing,
    Uses,
    Limit,
    Could,
    Owes,
    WorkingSet,
    Faults,
    History,
}

/// From left to right.
const ALL: [Column; 9] = [
    Column::Pid,
    Column::Standing,
    Column::Uses,
    Column::Limit,
    Column::Could,
    Column::Owes,
    Column::WorkingSet,
    Column::Faults,
    Column::History,
];

/// The columns to drop, first to last, where there is no room for all.
const DROPPED: [Column; 8] = [
    Column::WorkingSet,
    Column::History,
    Column::Faults,
    Column::Could,
    Column::Pid,
    Column::Standing,
    Column::Owes,
    Column::Limit,
];

/// The columns of a screen, and their widths.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    shown: Vec<Column>,
    id: usize,
    pid: usize,
    pub(super) name: usize,
    /// 0 where there is none.
    pub(super) history: usize,
}

impl Columns {
    /// Those that fit into `width`, for the numbers that are to be shown.
    pub(super) fn of(width: usize, rows: &[Row<'_>]) -> Columns {
        let digits = |number: u64| number.to_string().len();
        let ids = rows.iter().map(|row| digits(row.principal.id));
        let pids = rows.iter().filter_map(|row| row.principal.pid);
        let pids = pids.map(|pid| digits(pid.into()));
        let mut columns = Columns {
            shown: ALL.to_vec(),
            id: ids.max().unwrap_or(0).max(2),
            pid: pids.max().unwrap_or(0).max(4),
            name: LEAST_NAME,
            history: 0,
        };
        for dropped in DROPPED {
            if columns.total() <= width {
                break;
            }
            columns.shown.retain(|&column| column != dropped);
        }
        let spare = width.saturating_sub(columns.total());
        if columns.shown.contains(&Column::History) {
            let more = spare.min(MOST_MORE) / 3;
            columns.name += more;
            columns.history = (LEAST_HISTORY + spare - more).min(WIDEST);
        } else {
            columns.name += spare.min(WIDEST);
        }
        columns
    }

    fn width(&self, column: Column) -> usize {
        match column {
            Column::Pid => self.pid + 1,
            Column::Standing => 9,
            Column::Faults => 6,
            Column::History => LEAST_HISTORY,
            _ => 7,
        }
    }

    fn total(&self) -> usize {
        let right: usize = self.shown.iter().map(|&column| self.width(column)).sum();
        1 + self.id + 1 + self.name + right
    }

    fn right(&self, value: impl Fn(Column) -> String) -> String {
        let columns = self
            .shown
            .iter()
            .filter(|&&column| column != Column::History);
        columns
            .map(|&column| format!("{:>width$}", value(column), width = self.width(column)))
            .collect()
    }

    pub(super) fn head(&self) -> String {
        let right = self.right(|column| {
            let head = match column {
                Column::Pid => "PID",
                Column::Standing => "WT(PRIO)",
                Column::Uses => "USES",
                Column::Limit => "LIMIT",
                Column::Could => "COULD",
                Column::Owes => "OWES",
                Column::WorkingSet => "WSET",
                Column::Faults => "FLT/S",
                Column::History => "",
            };
            head.to_owned()
        });
        let history = match self.history {
            0 => String::new(),
            width => format!(" {:<width$}", "HISTORY", width = width - 1),
        };
        let (id, name) = (self.id, self.name);
        format!(" {:>id$} {:<name$}{right}{history}", "ID", "NAME")
    }

    /// A row, without what follows the numbers.
    pub(super) fn row(&self, row: Row<'_>, mark: char, faults: &Faults) -> String {
        let p = row.principal;
        let dash = || "-".to_owned();
        let right = self.right(|column| match column {
            Column::Pid => p.pid.map_or_else(dash, |pid| pid.to_string()),
            Column::Standing => standing(p),
            Column::Uses => Human(p.uses).to_string(),
            Column::Limit => Human(p.limit).to_string(),
            Column::Could => Human(p.available).to_string(),
            Column::Owes => Human(p.owed).to_string(),
            Column::WorkingSet => p.working_set.map_or_else(dash, |b| Human(b).to_string()),
            Column::Faults => faults.get(&p.id).map_or_else(dash, |&rate| rate_text(rate)),
            Column::History => String::new(),
        });
        let indent = (row.depth * 2).min(self.name / 2);
        let (id, width) = (self.id, self.name - indent);
        let name = shown(&p.name, width.saturating_sub(1));
        format!("{mark}{:>id$} {:indent$}{name:<width$}{right}", p.id, "")
    }
}

fn rate_text(rate: f64) -> String {
    match rate {
        r if r < 0.05 => "0".into(),
        r if r < 99.5 => format!("{r:.1}"),
        r if r < 9_999.0 => format!("{r:.0}"),
        r if r < 9_999_000.0 => format!("{:.0}k", r / 1e3),
        r => format!("{:.0}M", (r / 1e6).min(9999.0)),
    }
}

/// These parts of a line, with `between` between them. While they do not fit into `width`, parts are left
/// out, in the order of their indices in `dropped`.
pub(super) fn fitting(parts: &[String], dropped: &[usize], between: &str, width: usize) -> String {
    let mut kept: Vec<usize> = (0..parts.len()).collect();
    let line = |kept: &[usize]| {
        let words: Vec<&str> = kept.iter().map(|&index| parts[index].as_str()).collect();
        words.join(between)
    };
    for part in dropped {
        if line(&kept).chars().count() <= width {
            break;
        }
        kept.retain(|index| index != part);
    }
    line(&kept)
}

/// The widths for the rows of a state.
pub(super) fn of(state: &State, width: usize) -> Columns {
    Columns::of(width, &state.rows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::sample;
    use crate::rows::{Order, rows};

    #[test]
    fn a_column_is_there_as_a_whole_or_not_at_all() {
        let listing = sample();
        let rows = rows(&listing, Order::Arrival, &Faults::new());
        for width in 20..260 {
            let columns = Columns::of(width, &rows);
            let head = columns.head();
            let least = 1 + columns.id + 1 + LEAST_NAME + 7;
            assert!(head.chars().count() <= width.max(least), "{width}: {head}");
            for row in &rows {
                let line = columns.row(*row, ' ', &Faults::new());
                assert!(
                    line.chars().count() + columns.history <= width.max(least),
                    "{line}"
                );
            }
        }
        let head = |width| Columns::of(width, &rows).head();
        assert!(
            head(80).contains("PID") && head(80).contains("HISTORY"),
            "{}",
            head(80)
        );
        assert!(!head(80).contains("WSET") && head(90).contains("WSET"));
        let narrow = head(60);
        for word in ["ID", "PID", "WT(PRIO)", "USES", "LIMIT", "OWES"] {
            assert!(narrow.contains(word), "{narrow}");
        }
        assert!(!narrow.contains("HISTORY"), "{narrow}");
    }

    #[test]
    fn parts_of_a_line_go_as_a_whole() {
        let parts = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(fitting(&parts, &[1, 0], "  ", 80), "one  two  three");
        assert_eq!(fitting(&parts, &[1, 0], "  ", 12), "one  three");
        assert_eq!(fitting(&parts, &[1, 0], "  ", 9), "three");
    }

    #[test]
    fn rates_fit_their_column() {
        for rate in [0.0, 0.01, 3.04, 99.4, 120.0, 12_345.0, 1e6, 1e12, f64::MAX] {
            assert!(rate_text(rate).len() <= 5, "{}", rate_text(rate));
        }
    }
}
