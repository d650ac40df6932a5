//! The rows of a recording. Those of a recording that was cut are in `bench/out/begun`, so that the next one
//! goes on; those of the last that was complete are in `bench/results`.

use super::Options;
use crate::report::results::{Machine, Results};
use crate::report::row::{Row, rounded};
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file of a recording that has begun, in a folder with its pictures.
const FILE: &str = "rows.json";

/// The conditions of a recording. Runs under other ones are not mixed with its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    commit: String,
    /// As tables name it.
    machine: String,
    slice: bool,
    seed: Option<u64>,
}

/// A recording that has begun, as it is saved.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    head: Head,
    /// Variants that are recorded anew whatever is kept: those whose names this `--only` names. `None`: no
    /// variants.
    again: Option<String>,
    rows: Vec<Row>,
}

/// The rows of one recording, or of runs that are not recorded.
#[derive(Debug)]
pub(super) struct Ledger {
    name: &'static str,
    head: Head,
    again: Option<String>,
    /// The folder of the recording. `None` if nothing is recorded.
    folder: Option<PathBuf>,
    /// Rows of the results, by variant.
    kept: BTreeMap<String, Row>,
    /// Rows of this recording.
    begun: BTreeMap<String, Row>,
    /// The rows that this result is made of, in the order of its experiments.
    result: Vec<Row>,
    /// The fewest runs of a variant that is repeated.
    pub(super) fewest: Option<usize>,
    /// Number of variants, of those that were wanted, and of those of whose row this recording has a part.
    pub(super) asked: usize,
    pub(super) wanted: usize,
    partial: usize,
    /// Variants without a row of any commit.
    pub(super) missing: Vec<String>,
    /// Whether there was no time for all runs, and how long the longest of those that were done took.
    pub(super) is_cut: bool,
    pub(super) longest: Duration,
    /// How long the values took that runs need and do not measure ([`super::Runner::known`]).
    pub(super) searched: Duration,
}

impl Ledger {
    /// The ledger of a measurement that is built from a commit. `recording` has the folders of what was
    /// recorded before, and of a recording that was cut: it goes on where that ended. `None`: nothing is
    /// recorded.
    ///
    /// # Errors
    /// When a file cannot be read, or another recording has begun.
    pub(super) fn open(
        name: &'static str,
        options: &Options,
        commit: &str,
        recording: Option<(&Path, PathBuf)>,
    ) -> Result<Ledger> {
        let mut ledger = Ledger {
            name,
            head: Head {
                commit: commit.to_owned(),
                machine: Machine::this().to_string(),
                slice: options.slice,
                seed: options.seed,
            },
            again: None,
            folder: None,
            kept: BTreeMap::new(),
            begun: BTreeMap::new(),
            result: Vec::new(),
            fewest: None,
            asked: 0,
            wanted: 0,
            partial: 0,
            missing: Vec::new(),
            is_cut: false,
            longest: Duration::ZERO,
            searched: Duration::ZERO,
        };
        let Some((results, folder)) = recording else {
            return Ok(ledger);
        };
        let path = results.join(format!("{name}.json"));
        if path.exists() {
            ledger.take(Results::read(&path)?);
        }
        ledger.again = options
            .again
            .then(|| options.only.clone().unwrap_or_default());
        ledger.go_on(&folder)?;
        ledger.folder = Some(folder);
        Ok(ledger)
    }

    /// Knows the rows of what was recorded before under the same conditions.
    fn take(&mut self, results: Results) {
        if (results.slice, results.seed) == (self.head.slice, self.head.seed) {
            let rows = results.kept.into_iter();
            self.kept = rows.map(|row| (row.name.clone(), row)).collect();
        }
    }

    /// Goes on with a recording that was cut. Rows that are to be recorded again begin anew.
    fn go_on(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        if self.again.is_some() || !path.exists() {
            let _ = fs::remove_dir_all(folder);
            return Ok(());
        }
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let recorded = |source| Error::Recorded { path, source };
        let begun: Begun = serde_json::from_str(&text).map_err(recorded)?;
        if begun.head != self.head || !self.is_known() {
            return Err(Error::Begun {
                name: self.name,
                commit: begun.head.commit,
                folder: folder.to_owned(),
            });
        }
        self.again = begun.again;
        let rows = begun.rows.into_iter();
        self.begun = rows.map(|row| (row.name.clone(), row)).collect();
        Ok(())
    }

    /// Whether the commit says of what sources this program was built.
    fn is_known(&self) -> bool {
        self.head.commit != "unknown" && !self.head.commit.ends_with("-dirty")
    }

    /// The row whose runs count: that of this recording, or a kept one of the same commit and machine. To
    /// either, runs may be added.
    fn current(&self, variant: &str) -> Option<&Row> {
        let again = self.again.as_ref();
        let is_again = again.is_some_and(|only| super::names(Some(only), variant));
        let same = |row: &&Row| {
            let is_same = row.commit == self.head.commit && row.machine == self.head.machine;
            is_same && self.is_known() && !is_again
        };
        let kept = || self.kept.get(variant).filter(same);
        self.begun.get(variant).or_else(kept)
    }

    /// How many runs of a variant are done.
    pub(super) fn done(&self, variant: &str) -> usize {
        self.current(variant).map_or(0, |row| row.outcomes.len())
    }

    /// How long these took.
    pub(super) fn took(&self, variant: &str) -> Duration {
        let took = self.current(variant).map_or(0.0, |row| row.took);
        Duration::from_secs_f64(took)
    }

    /// Whether this recording has no rows yet.
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// The outcomes of this recording that are there of a variant.
    ///
    /// # Errors
    /// As [`read`].
    pub(super) fn begun<O: DeserializeOwned>(&self, variant: &str) -> Result<Vec<O>> {
        self.begun.get(variant).map_or(Ok(Vec::new()), read)
    }

    /// Keeps the outcome of a run.
    ///
    /// # Errors
    /// When it cannot be read back, or the file cannot be written.
    pub(super) fn keep<O: Serialize + DeserializeOwned>(
        &mut self,
        variant: &str,
        took: Duration,
        outcome: &O,
    ) -> Result<()> {
        let unreadable = |source| Error::Unreadable {
            variant: variant.to_owned(),
            source,
        };
        let value = serde_json::to_value(outcome).map_err(unreadable)?;
        let value = rounded(value);
        O::deserialize(&value).map_err(unreadable)?;
        let mut row = self.current(variant).cloned().unwrap_or_default();
        variant.clone_into(&mut row.name);
        row.commit.clone_from(&self.head.commit);
        row.machine.clone_from(&self.head.machine);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        row.ended = now.unwrap_or_default().as_secs();
        row.took += took.as_millis() as f64 / 1e3;
        row.outcomes.push(value);
        self.begun.insert(variant.to_owned(), row);
        self.longest = self.longest.max(took);
        self.save()
    }

    /// The outcomes of a variant for the result. If `is_done`, those of this recording; otherwise those that
    /// were kept before, whatever their commit, if there are any.
    ///
    /// # Errors
    /// As [`read`].
    pub(super) fn outcomes<O: DeserializeOwned>(
        &mut self,
        variant: &str,
        is_done: bool,
    ) -> Result<Option<Vec<O>>> {
        if is_done && let Some(row) = self.current(variant).cloned() {
            let outcomes = read(&row)?;
            self.result.push(row);
            return Ok(Some(outcomes));
        }
        self.partial += usize::from(self.begun.contains_key(variant));
        let kept = self.kept.get(variant).cloned();
        // A row that another commit kept may be unreadable to this one.
        let found = kept.and_then(|row| Some((read(&row).ok()?, row)));
        Ok(found.map(|(outcomes, row)| {
            self.result.push(row);
            outcomes
        }))
    }

    /// Completes a result: its rows, its conditions, and how often its variants were repeated.
    pub(super) fn complete(&self, results: &mut Results, repeat: usize) {
        results.keep(self.result.clone());
        (results.slice, results.seed) = (self.head.slice, self.head.seed);
        results.missing.clone_from(&self.missing);
        if results.repetitions == repeat {
            results.repetitions = self.fewest.unwrap_or(repeat);
        }
    }

    /// The folder of pictures that wait until the result is saved. `None` if nothing is recorded.
    pub(super) fn pictures(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("pictures"))
    }

    /// Called when the result was saved into a folder: its pictures follow. Forgets the recording, if it is
    /// complete.
    ///
    /// # Errors
    /// When a file cannot be moved or removed.
    pub(super) fn settle(&self, results: &Path) -> Result<()> {
        let Some(folder) = self.folder.as_ref().filter(|folder| folder.exists()) else {
            return Ok(());
        };
        move_all(&folder.join("pictures"), results)?;
        if !self.is_cut && self.partial == 0 {
            fs::remove_dir_all(folder).map_err(Error::file("remove", folder))
        } else {
            Ok(())
        }
    }

    fn save(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let begun = Begun {
            head: self.head.clone(),
            again: self.again.clone(),
            rows: self.begun.values().cloned().collect(),
        };
        let (path, beside) = (folder.join(FILE), folder.join("rows.new"));
        let text = serde_json::to_string(&begun).expect("text and numbers");
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        // A recording that is killed leaves either file whole.
        fs::write(&beside, text).map_err(Error::file("write", &beside))?;
        fs::rename(&beside, &path).map_err(Error::file("write", &path))
    }
}

/// Moves the files of a folder and of those in it, if it is there.
fn move_all(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    fs::create_dir_all(to).map_err(Error::file("make", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
        let path = entry.map_err(Error::file("read", from))?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            move_all(&path, &place)?;
        } else {
            fs::rename(&path, &place).map_err(Error::file("move", &path))?;
        }
    }
    Ok(())
}

/// The outcomes of a row.
///
/// # Errors
/// When they are not of this type.
fn read<O: DeserializeOwned>(row: &Row) -> Result<Vec<O>> {
    let each = row.outcomes.iter().map(O::deserialize);
    each.collect::<std::result::Result<_, _>>()
        .map_err(|source| Error::Unreadable {
            variant: row.name.clone(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::folder::Folder;
    use crate::report::bars::Bars;
    use crate::runner::{Runner, Variant};

    /// A measurement of two variants that is recorded in a folder.
    struct Recorded(Folder);

    impl Recorded {
        fn new(name: &str) -> Recorded {
            Recorded(Folder::new(name).expect("there is room"))
        }

        fn results(&self) -> PathBuf {
            self.0.path().join("results")
        }

        fn begun(&self) -> PathBuf {
            self.0.path().join("begun")
        }

        fn runner(&self, commit: &str, options: Options) -> Result<Runner> {
            let options = Options {
                record: true,
                ..options
            };
            Runner::of("test", options, commit, self.results(), self.begun())
        }

        /// Records, with a run that fails after so many. Returns which were run.
        fn record(&self, commit: &str, options: Options, runs: usize) -> (String, Result<Results>) {
            let mut order = String::new();
            let recorded = self.runner(commit, options).and_then(|runner| {
                let experiment = runner.experiment([("a", ()), ("b", ())]).wanted();
                let ran: Vec<Variant<(), String>> = experiment.run(|(), turn| {
                    if order.len() == runs {
                        return Err(Error::Interrupted);
                    }
                    order.push_str(turn.variant);
                    runner.bars("", &Bars::default())?;
                    Ok(format!("{commit} {}", order.len()))
                })?;
                let mut results = runner.results("Title.", "How.").columns(&[("who", "")]);
                ran.iter()
                    .for_each(|one| results.row([one.name.as_str().into()]));
                runner.save(&mut results)?;
                runner.end().map(|()| results)
            });
            (order, recorded)
        }

        /// The recorded rows: each with its commit and the number of its runs.
        fn rows(&self) -> Vec<(String, String, usize)> {
            let path = self.results().join("test.json");
            let results = Results::read(&path).expect("it is recorded");
            let rows = results.kept.into_iter();
            rows.map(|row| (row.name, row.commit, row.outcomes.len()))
                .collect()
        }
    }

    fn row(name: &str, commit: &str, runs: usize) -> (String, String, usize) {
        (name.to_owned(), commit.to_owned(), runs)
    }

    fn only(variant: &str, again: bool) -> Options {
        Options {
            only: Some(variant.to_owned()),
            again,
            ..Options::of(2)
        }
    }

    #[test]
    fn a_recording_that_was_cut_goes_on_where_it_stopped() {
        let test = Recorded::new("ledger-cut");
        let (order, cut) = test.record("one", Options::of(2), 3);
        assert_eq!(order, "aba");
        assert!(matches!(cut, Err(Error::Interrupted)) && !test.results().exists());
        // Not with runs of another commit, nor of sources that nobody knows.
        for commit in ["two", "one-dirty"] {
            let (_, refused) = test.record(commit, Options::of(2), 9);
            assert!(matches!(refused, Err(Error::Begun { .. })), "{commit}");
        }
        let (order, whole) = test.record("one", Options::of(2), 9);
        assert_eq!((order.as_str(), whole.unwrap().repetitions), ("b", 2));
        assert_eq!(test.rows(), [row("a", "one", 2), row("b", "one", 2)]);
        let picture = test.results().join("plots/test.json");
        assert!(picture.exists() && !test.begun().exists());
        // Further repetitions are added, and nothing is measured twice.
        assert_eq!(test.record("one", Options::of(2), 9).0, "");
        assert_eq!(test.record("one", Options::of(3), 9).0, "ab");
        assert_eq!(test.rows(), [row("a", "one", 3), row("b", "one", 3)]);
    }

    #[test]
    fn a_row_that_is_recorded_alone_replaces_only_itself() {
        let test = Recorded::new("ledger-only");
        test.record("old", Options::of(2), 9).1.unwrap();
        let (order, mixed) = test.record("new", only("b", false), 9);
        assert_eq!(
            (order.as_str(), mixed.unwrap().commit.as_str()),
            ("bb", "old")
        );
        assert_eq!(test.rows(), [row("a", "old", 2), row("b", "new", 2)]);
        assert_eq!(test.record("new", only("b", false), 9).0, "");
        assert_eq!(
            test.record("new", only("b", true), 1).0,
            "b",
            "and it is cut"
        );
        assert_eq!(test.record("new", only("b", false), 9).0, "b");
        assert_eq!(test.record("new", Options::of(2), 9).0, "aa");
        assert_eq!(test.rows(), [row("a", "new", 2), row("b", "new", 2)]);
        let (order, none) = test.record("new", only("c", false), 9);
        assert!(order.is_empty() && matches!(none, Err(Error::NoVariant { .. })));
    }

    #[test]
    fn rows_wait_until_all_are_there() {
        let test = Recorded::new("ledger-wait");
        let out = crate::runner::out("test");
        assert_eq!(test.record("one", only("a", false), 9).0, "aa");
        assert!(test.begun().exists() && !test.results().exists() && out.exists());
        assert_eq!(test.record("one", Options::of(2), 9).0, "bb");
        assert_eq!(test.rows(), [row("a", "one", 2), row("b", "one", 2)]);
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_table_with_gaps_names_them_and_later_recordings_fill_them() {
        let test = Recorded::new("ledger-gaps");
        let gaps = |options| Options {
            gaps: true,
            ..options
        };
        let (_, recorded) = test.record("one", gaps(only("a", false)), 9);
        let text = recorded.unwrap().markdown();
        assert!(text.contains("Not measured yet: b."), "{text}");
        assert_eq!(test.rows(), [row("a", "one", 2)]);
        let (order, whole) = test.record("two", only("b", false), 9);
        assert_eq!((order.as_str(), whole.unwrap().missing.len()), ("bb", 0));
        assert_eq!(test.rows(), [row("a", "one", 2), row("b", "two", 2)]);
        // A part of a row is no row.
        let test = Recorded::new("ledger-gaps-cut");
        let none = Options {
            minutes: Some(0),
            ..Options::of(2)
        };
        let (_, cut) = test.record("one", gaps(none), 9);
        assert!(matches!(cut, Err(Error::Unfinished { .. })) && !test.results().exists());
    }

    #[test]
    fn without_time_what_was_recorded_before_is_shown() {
        let test = Recorded::new("ledger-time");
        test.record("old", Options::of(1), 9).1.unwrap();
        let none = Options {
            minutes: Some(0),
            ..Options::of(1)
        };
        let (order, cut) = test.record("new", none, 9);
        assert!(order.is_empty() && matches!(cut, Err(Error::Unfinished { .. })));
        assert_eq!(test.rows(), [row("a", "old", 1), row("b", "old", 1)]);
    }

    #[test]
    fn what_cannot_be_read_back_is_not_kept() {
        let runner = Runner::new("test", Options::of(1)).unwrap();
        let ran = runner.experiment([("a", ())]).run(|(), _| Ok(f64::NAN));
        assert!(matches!(ran, Err(Error::Unreadable { .. })));
        let mut asked = 0;
        for _ in 0..2 {
            let known = runner.known("b", |_| {
                asked += 1;
                Ok(7)
            });
            assert_eq!((known.unwrap(), asked), (7, 1));
        }
    }
}
