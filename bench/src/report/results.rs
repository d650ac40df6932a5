//! The results of a measurement, as `bench/results/NAME.json` and `NAME.md`. Every figure in the docs comes
//! from these files.

use super::row::{self, Row};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// The machine that something was measured on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Logical processors.
    pub processors: usize,
    /// Model name of the first processor.
    pub model: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Version of the cgroup memory controller that set the limits: `v1`, `v2` or `none`.
    pub cgroup: String,
}

/// One column of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Unit; empty for text and counts.
    pub unit: String,
}

/// A cell of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A measured value. It is printed with about three significant digits.
    Number(f64),
    /// A label.
    Text(String),
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value)
    }
}
impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Number(value as f64)
    }
}
impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}
impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

/// A further table of a measurement: its figures in another arrangement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// A sentence on what it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. Columns as `(name, unit)`.
    pub fn new(title: &str, columns: &[(&str, &str)]) -> Table {
        Table {
            title: title.to_owned(),
            columns: named(columns),
            rows: Vec::new(),
        }
    }
}

/// The results of one measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Its name, as in `make bench-NAME`.
    pub name: String,
    /// A sentence on what the table shows.
    pub title: String,
    /// How it was measured, in a few sentences.
    pub method: String,
    /// Repetitions of each variant.
    pub repetitions: usize,
    /// The machine that computed the tables. Rows name their own.
    pub machine: Machine,
    /// The commit that it was built from: see [`commit`]. That of the oldest row, if rows are kept.
    pub commit: String,
    /// Whether it is a part that represents the measurement (`--slice`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slice: bool,
    /// The argument of `--seed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Rows of the table.
    pub rows: Vec<Vec<Cell>>,
    /// Further tables, below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Targets, and whether they were met.
    pub targets: Vec<Target>,
    /// Variants that the table lacks, because they were not measured yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The runs that the tables are computed from, if they are from runs. Files of before have none.
    #[serde(default, skip_serializing)]
    pub kept: Vec<Row>,
}

/// A target: a claim, and whether the measurement confirms it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The claim.
    pub claim: String,
    /// The measured value.
    pub measured: String,
    /// Whether the measurement meets the claim; `None` if it cannot tell.
    pub met: Option<bool>,
}

impl Target {
    /// The word for `met` in tables.
    pub fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "unresolved",
        }
    }
}

impl Results {
    /// Empty results for `name`, with this machine and this commit.
    pub fn new(name: &str, title: &str, method: &str, repetitions: usize) -> Self {
        Results {
            name: name.to_owned(),
            title: title.to_owned(),
            method: method.to_owned(),
            repetitions,
            machine: Machine::this(),
            commit: commit(),
            slice: false,
            seed: None,
            columns: Vec::new(),
            rows: Vec::new(),
            tables: Vec::new(),
            targets: Vec::new(),
            missing: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Sets the columns, as `(name, unit)`.
    pub fn columns(mut self, columns: &[(&str, &str)]) -> Self {
        self.columns = named(columns);
        self
    }

    /// Adds a row, with one cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    /// Adds a target.
    pub fn target(&mut self, claim: &str, measured: String, met: impl Into<Option<bool>>) {
        self.targets.push(Target {
            claim: claim.to_owned(),
            measured,
            met: met.into(),
        });
    }

    /// The table as text. Its first row holds the headings.
    pub fn cells(&self) -> Vec<Vec<String>> {
        cells(&self.columns, &self.rows)
    }

    /// Title, table and targets as Markdown, then method, commit and machine.
    pub fn markdown(&self) -> String {
        let mut out = format!("{}\n\n", self.title);
        tabulate(&mut out, &self.cells());
        for table in &self.tables {
            let _ = writeln!(out, "\n{}\n", table.title);
            tabulate(&mut out, &cells(&table.columns, &table.rows));
        }
        if !self.targets.is_empty() {
            out.push_str("\n| asked for | measured | met |\n|---|---|---|\n");
            for target in &self.targets {
                let (claim, measured, met) = (&target.claim, &target.measured, target.verdict());
                let _ = writeln!(out, "| {claim} | {measured} | {met} |");
            }
        }
        if !self.missing.is_empty() {
            let _ = writeln!(out, "\nNot measured yet: {}.", self.missing.join(", "));
        }
        let origin = row::origin(&self.kept);
        let origin = origin.unwrap_or_else(|| format!("{}, {}", self.commit, self.machine));
        let _ = writeln!(
            out,
            "\n{} {} `make bench-{}` at {origin}.",
            self.method,
            match self.repetitions {
                1 => "One run each.".to_owned(),
                several => format!("Medians of {several} repetitions."),
            },
            self.name,
        );
        out
    }

    /// The table and the targets, for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.title);
        align(&mut out, &self.cells());
        for table in &self.tables {
            let _ = writeln!(out, "\n{}\n", table.title);
            align(&mut out, &cells(&table.columns, &table.rows));
        }
        for target in &self.targets {
            let verdict = target.verdict().trim_matches('*');
            let _ = write!(out, "\n{}: {} ({verdict})", target.claim, target.measured);
        }
        out
    }

    /// Reads what [`Results::save`] wrote.
    ///
    /// # Errors
    /// When the file cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        serde_json::from_str(&text).map_err(|source| Error::Recorded {
            path: path.to_owned(),
            source,
        })
    }

    /// Writes `NAME.json` and `NAME.md` into a folder.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let write = |end: &str, text: &str| {
            let path = folder.join(format!("{}.{end}", self.name));
            std::fs::write(&path, text).map_err(Error::file("write", &path))
        };
        write("json", &self.json())?;
        write("md", &self.markdown())
    }

    /// All of it. Each row that is kept has a line of its own.
    fn json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("text and numbers");
        let text = |row: &Row| serde_json::to_string(row).expect("text and numbers");
        let rows: Vec<String> = self.kept.iter().map(text).collect();
        if !rows.is_empty() {
            json.truncate(json.trim_end_matches(['}', '\n']).len());
            json += &format!(",\n  \"kept\": [\n    {}\n  ]\n}}", rows.join(",\n    "));
        }
        json + "\n"
    }

    /// Keeps the rows that its tables are computed from.
    pub fn keep(&mut self, rows: Vec<Row>) {
        if let Some(oldest) = row::oldest(&rows) {
            oldest.commit.clone_into(&mut self.commit);
        }
        self.kept = rows;
    }
}

/// `bench/results` of this checkout.
pub fn folder() -> PathBuf {
    root().join("bench/results")
}

/// The checkout that this program was built from, or the current folder if that checkout is gone.
pub fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    match built.parent() {
        Some(root) if root.join("Cargo.toml").exists() => root.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn named(columns: &[(&str, &str)]) -> Vec<Column> {
    let column = |(name, unit): &(&str, &str)| Column {
        name: (*name).to_owned(),
        unit: (*unit).to_owned(),
    };
    columns.iter().map(column).collect()
}

/// A table as text. Its first row holds the headings.
fn cells(columns: &[Column], rows: &[Vec<Cell>]) -> Vec<Vec<String>> {
    let head = |c: &Column| match c.unit.as_str() {
        "" => c.name.clone(),
        unit => format!("{}, {unit}", c.name),
    };
    let heads = columns.iter().map(head).collect();
    let rows = rows.iter().map(|row| row.iter().map(show).collect());
    std::iter::once(heads).chain(rows).collect()
}

/// Adds a table as Markdown.
fn tabulate(out: &mut String, cells: &[Vec<String>]) {
    for (index, row) in cells.iter().enumerate() {
        let row: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(out, "|{}", "---|".repeat(row.len()));
        }
    }
}

/// Adds a table in columns.
fn align(out: &mut String, cells: &[Vec<String>]) {
    let wide = |column: usize| {
        let cells = cells.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in cells {
        for (column, cell) in row.iter().enumerate() {
            let width = wide(column);
            let _ = match column {
                0 => write!(out, "{cell:width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push('\n');
    }
}

fn show(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => number(*value),
    }
}

/// A number as text: about three significant digits, without zeros at the end; integers in full.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 || size >= 1000.0 {
        return format!("{value:.0}");
    }
    let digits = match size {
        100.0.. => 1,
        1.0.. => 2,
        0.001.. => 4,
        _ => return format!("{value:.2e}"),
    };
    let all = format!("{value:.digits$}");
    all.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Machine {
    /// The machine that this runs on.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            text.lines()
                .find(|line| line.starts_with(key))
                .and_then(|line| line.split(':').nth(1))
                .map(|value| value.trim().to_owned())
                .unwrap_or_default()
        };
        let kib = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = kib
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            model: field(&read("/proc/cpuinfo"), "model name"),
            memory: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cgroup: controller(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            processors,
            model,
            memory,
            kernel,
            cgroup,
        } = self;
        let gib = *memory as f64 / (1u64 << 30) as f64;
        write!(
            f,
            "Linux {kernel}, {processors} x {model}, {gib:.0} GiB, cgroup {cgroup}"
        )
    }
}

fn controller() -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let v1 = mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(2);
        words.next() == Some("cgroup")
            && words
                .next()
                .is_some_and(|o| o.split(',').any(|o| o == "memory"))
    });
    let controllers =
        std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match (v1, controllers.split_whitespace().any(|c| c == "memory")) {
        (true, _) => "v1".to_owned(),
        (_, true) => "v2".to_owned(),
        _ => "none".to_owned(),
    }
}

/// The abbreviated commit that this program was built from, with `-dirty` where the tree had
/// changes; `unknown` outside of git.
pub fn commit() -> String {
    env!("PLIMSOLL_COMMIT").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut results =
            Results::new("x", "Title.", "How.", 5).columns(&[("who", ""), ("time", "s")]);
        results.row(["a|b".into(), 1.5.into()]);
        results.target("at most 2 s", "1.5 s".into(), true);
        let table = results.markdown();
        assert!(table.contains("| who | time, s |"), "{table}");
        assert!(table.contains("| a\\|b | 1.5 |"), "{table}");
        assert!(table.contains("| at most 2 s | 1.5 s | yes |"), "{table}");
    }

    #[test]
    fn further_tables_follow_the_first() {
        let mut results = Results::new("x", "Title.", "", 1).columns(&[("who", "")]);
        results.row(["someone".into()]);
        let mut table = Table::new("Ratios.", &[("who", ""), ("ratio", "")]);
        table.rows.push(vec!["someone".into(), 1.5.into()]);
        results.tables.push(table);
        let wanted = "| someone |\n\nRatios.\n\n| who | ratio |\n|---|---|\n| someone | 1.5 |\n";
        assert!(results.markdown().contains(wanted));
        assert!(
            results
                .text()
                .ends_with("someone\n\nRatios.\n\nwho      ratio\nsomeone    1.5\n")
        );
    }

    #[test]
    fn rows_are_kept_in_a_line_each_and_name_the_oldest_commit() {
        let mut results = Results::new("x", "Title.", "How.", 5);
        let row = |name: &str, commit: &str, ended| Row {
            name: name.to_owned(),
            commit: commit.to_owned(),
            ended,
            outcomes: vec![serde_json::json!({"seconds": 1.5})],
            ..Row::default()
        };
        results.keep(vec![row("a", "new", 7), row("b", "old", 3)]);
        let json = results.json();
        let lines = json.lines().filter(|line| line.contains("seconds"));
        assert_eq!(lines.count(), 2);
        let read: Results = serde_json::from_str(&json).unwrap();
        assert_eq!((&read.kept, read.commit.as_str()), (&results.kept, "old"));
        assert!(
            read.markdown()
                .contains("`make bench-x` at old (the oldest row; the newest at new), ")
        );
        results.kept.clear();
        let read: Results = serde_json::from_str(&results.json()).unwrap();
        assert!(read.kept.is_empty());
        assert!(
            read.markdown()
                .contains(&format!("at old, {}", results.machine))
        );
    }

    #[test]
    fn a_terminal_gets_columns_and_verdicts() {
        let mut results = Results::new("x", "Title.", "", 1).columns(&[("who", ""), ("time", "s")]);
        results.row(["someone".into(), 1.5.into()]);
        results.target("at most 1 s", "1.5 s".into(), false);
        let wanted = "Title.\n\nwho      time, s\nsomeone      1.5\n\nat most 1 s: 1.5 s (no)";
        assert_eq!(results.text(), wanted);
    }

    #[test]
    fn the_commit_is_that_of_the_build() {
        let commit = commit();
        let bare = commit.strip_suffix("-dirty").unwrap_or(&commit);
        let hex = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(commit == "unknown" || hex(bare), "{commit:?}");
    }

    #[test]
    fn a_verdict_may_be_open() {
        let target = |met| Target {
            claim: String::new(),
            measured: String::new(),
            met,
        };
        assert_eq!(target(None).verdict(), "unresolved");
        let read: Target =
            serde_json::from_str(r#"{"claim": "", "measured": "", "met": false}"#).unwrap();
        assert_eq!(read.verdict(), "**no**");
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(12345.6), "12346");
        assert_eq!(number(0.02345), "0.0234");
        assert_eq!(number(7.0), "7");
        assert_eq!(number(0.900_000_000_001), "0.9");
        assert_eq!(number(299.99), "300");
        assert_eq!(number(0.0001), "1.00e-4");
    }
}
