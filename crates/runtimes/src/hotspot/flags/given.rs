//! The options that the user gave, from all places where the launcher and the machine look for
//! them.
//!
//! | place | read by | its words |
//! |---|---|---|
//! | `JAVA_TOOL_OPTIONS` | the machine, first | `words` |
//! | `JDK_JAVA_OPTIONS` | the launcher, before its command line | `words`, argument files in place |
//! | the command line | the launcher | argument files in place; up to the class, the jar or the module |
//! | `_JAVA_OPTIONS` | the machine, last | `words` |
//!
//! Each place is read by itself, so that the end of one does not hide another. A variable names no
//! class: a word that is neither an option nor an option's value is skipped there.

use super::files::Files;
use super::words::{argument_file, words};
use plimsoll_programs::Setting;
use plimsoll_unit::{Bytes, PAGE};
use std::path::Path;

/// Read by the `java` launcher of JDK 9 and later.
pub const LAUNCHER: &str = "JDK_JAVA_OPTIONS";
/// Read by the machine before its command line.
const FIRST: &str = "JAVA_TOOL_OPTIONS";
/// Read by the machine after its command line.
const LAST: &str = "_JAVA_OPTIONS";
/// The launcher's options whose value is the next word (its `IsWhiteSpaceOption`, without the
/// module to start). The machine itself has none.
pub(crate) const WITH_VALUE: [&str; 16] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--patch-module",
    "--enable-native-access",
    "-d",
    "--describe-module",
    "--source",
];
/// A file of flags in the working directory, which only debug builds of the machine read.
const UNASKED: &str = ".hotspotrc";
/// Bytes of a file with options that are read at most.
const MOST_READ: u64 = 1 << 20;
/// Bytes that are read of all files together. Each file counts as at least a page, so that the
/// number of empty files is bounded too.
const MOST_OF_ALL: u64 = 4 << 20;

/// The options that the user gave, in order of precedence: the last one of a name wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The options, of all places.
    options: Vec<String>,
    /// Experimental flags are unlocked before the command line begins.
    unlocked: bool,
    /// A named file could not be read to its end.
    partial: bool,
    /// The flags of a file that only a debug build reads, if there is one where the machine starts.
    unasked: Vec<String>,
}

impl Given {
    /// The options of a command line (without `java` itself) that is to be started in `setting`.
    pub fn collect(arguments: impl IntoIterator<Item = String>, setting: &Setting<'_>) -> Given {
        let files = Files::Ours(setting.folder.to_path_buf());
        let mut given = Gather::of(arguments, setting, &files).given;
        let mut unasked = Gather::none(&files);
        unasked.add(&format!("-XX:Flags={UNASKED}"));
        given.unasked = unasked.given.options;
        given
    }

    /// The options of a running program. `files` is the program's view of the file system.
    pub fn of_running(
        arguments: impl IntoIterator<Item = String>,
        setting: &Setting<'_>,
        files: &Files,
    ) -> Given {
        let mut gather = Gather::of(arguments, setting, files);
        // Debug builds read this file unasked, and ignore a dangling link.
        let is_there = setting.folder.join(UNASKED).symlink_metadata().is_ok();
        if is_there && !files.lacks(Path::new(UNASKED)) {
            gather.add(&format!("-XX:Flags={UNASKED}"));
        }
        gather.given
    }

    /// Whether all options are known: every named file could be read.
    pub fn is_whole(&self) -> bool {
        !self.partial
    }

    /// Whether the machine may leave SIGQUIT to the program. The option counts wherever it stands,
    /// even if a later one revokes it.
    pub fn keeps_signals(&self) -> bool {
        let own = |option: &String| option == "-Xrs" || option == "-XX:+ReduceSignalUsage";
        self.options.iter().any(own)
    }

    /// Whether this flag is switched on anywhere, even if a later option revokes it.
    pub fn ever_on(&self, flag: &str) -> bool {
        let on = |option: &String| option.strip_prefix("-XX:+") == Some(flag);
        self.options.iter().any(on)
    }

    /// Whether any option begins with one of these prefixes.
    pub fn has(&self, prefixes: &[&str]) -> bool {
        let begins = |option: &String| prefixes.iter().any(|p| option.starts_with(p));
        self.options.iter().any(begins)
    }

    /// The rest of the last option that begins with `prefix`.
    pub fn last(&self, prefix: &str) -> Option<&str> {
        let mut options = self.options.iter().rev();
        options.find_map(|option| option.strip_prefix(prefix))
    }

    /// Whether the flag of this name is switched on in the end.
    pub(super) fn is_on(&self, flag: &str) -> bool {
        let mut options = self.options.iter().rev();
        let last = options.find(|option| name(option) == Some(flag));
        last.is_some_and(|option| option.starts_with("-XX:+"))
    }

    /// The options with those that count only in a debug build, whose kind is not known before it runs.
    pub(super) fn in_any_build(&self) -> Given {
        let mut all = self.clone();
        all.options.extend_from_slice(&self.unasked);
        all
    }

    /// Whether the user gave the same flag with another value. Ours, on the command line, would win
    /// over one in a variable.
    pub(super) fn contradicts(&self, flag: &str) -> bool {
        let Some(own) = name(flag) else {
            return false;
        };
        self.options
            .iter()
            .any(|option| option != flag && name(option) == Some(own))
    }

    /// Whether experimental flags are unlocked where the command line begins.
    pub(super) fn unlocked_before(&self) -> bool {
        self.unlocked
    }

    /// The sizes given by options of these names; `None` for one that cannot be parsed.
    pub(super) fn sizes(&self, names: &[&str]) -> Vec<Option<Bytes>> {
        let value = |option: &String| {
            let mut names = names.iter();
            names.find_map(|name| option.strip_prefix(name)).map(bytes)
        };
        self.options.iter().filter_map(value).collect()
    }
}

/// Gathers the options, place by place.
struct Gather<'a> {
    given: Given,
    files: &'a Files,
    /// How many bytes of files may still be read.
    left: u64,
}

impl<'a> Gather<'a> {
    fn none(files: &'a Files) -> Gather<'a> {
        Gather {
            given: Given::default(),
            files,
            left: MOST_OF_ALL,
        }
    }

    fn of(
        arguments: impl IntoIterator<Item = String>,
        setting: &Setting<'_>,
        files: &'a Files,
    ) -> Gather<'a> {
        let value = |name: &str| {
            let value = (setting.variables)(name).unwrap_or_default();
            words(&value.to_string_lossy())
        };
        let mut gather = Gather::none(files);
        gather.machine(value(FIRST));
        gather.launcher(value(LAUNCHER), false);
        gather.unlock();
        gather.launcher(arguments, true);
        gather.machine(value(LAST));
        gather
    }

    fn machine(&mut self, words: Vec<String>) {
        for word in words.iter().filter(|word| word.starts_with('-')) {
            self.add(word);
        }
    }

    fn launcher(&mut self, words: impl IntoIterator<Item = String>, to_class: bool) {
        let mut walk = Walk {
            gather: self,
            to_class,
            files: true,
            value: false,
            over: false,
        };
        for word in words {
            walk.word(&word);
            if walk.over {
                break;
            }
        }
    }

    /// Adds an option, and those of the file that it names.
    fn add(&mut self, option: &str) {
        if let Some(path) = option.strip_prefix("-XX:VMOptionsFile=") {
            let words = words(&self.read(path)).into_iter();
            let options = &mut self.given.options;
            options.extend(words.filter(|word| word.starts_with('-')));
        }
        if let Some(path) = option.strip_prefix("-XX:Flags=") {
            // The file has names without `-XX:`, and comments.
            for line in self.read(path).lines() {
                let flags = words(line).into_iter();
                let flags = flags.take_while(|word| !word.starts_with('#'));
                let options = &mut self.given.options;
                options.extend(flags.map(|flag| format!("-XX:{flag}")));
            }
            // The machine reads such a file before anything else, wherever it is named.
            self.unlock();
        }
        self.given.options.push(option.to_owned());
    }

    /// Notes whether experimental flags are unlocked at this point.
    fn unlock(&mut self) {
        self.given.unlocked |= self.given.is_on("UnlockExperimentalVMOptions");
    }

    /// The text of a file; empty if it cannot be read.
    fn read(&mut self, path: &str) -> String {
        let most = self.left.min(MOST_READ);
        let read = (most > 0).then(|| self.files.read(Path::new(path), most));
        let (text, whole) = read.flatten().unwrap_or_default();
        let counted = u64::try_from(text.len()).unwrap_or(u64::MAX).max(PAGE);
        self.left = self.left.saturating_sub(counted);
        self.given.partial |= !whole;
        text
    }
}

/// Walks through words as the launcher does.
struct Walk<'a, 'b> {
    gather: &'a mut Gather<'b>,
    /// The first word that is not an option is the class or the jar, and the rest belongs to the
    /// program.
    to_class: bool,
    /// `@FILE` stands for the words of a file.
    files: bool,
    /// The next word is an option's value.
    value: bool,
    /// The class was found, so the options are over.
    over: bool,
}

impl Walk<'_, '_> {
    fn word(&mut self, word: &str) {
        match word.strip_prefix('@').filter(|_| self.files) {
            // A lone `@` is a word, and `@@x` means the word `@x`.
            None | Some("") => self.take(word),
            Some(escaped) if escaped.starts_with('@') => self.take(escaped),
            Some(path) => {
                // Files named inside a file are not expanded.
                for word in argument_file(&self.gather.read(path)) {
                    self.take(&word);
                }
            }
        }
    }

    fn take(&mut self, word: &str) {
        if self.over || std::mem::take(&mut self.value) {
            return;
        }
        if !word.starts_with('-') {
            self.over = self.to_class;
            return;
        }
        let module = matches!(word, "-m" | "--module") || word.starts_with("--module=");
        self.over = self.to_class && module;
        self.files &= word != "--disable-@files";
        self.value = WITH_VALUE.contains(&word);
        self.gather.add(word);
    }
}

/// The name in `-XX:+Name` or `-XX:Name=1`.
pub(super) fn name(option: &str) -> Option<&str> {
    let flag = option.strip_prefix("-XX:")?;
    let flag = flag.strip_prefix(['+', '-']).unwrap_or(flag);
    flag.split(['=', ':']).next()
}

/// A size as the machine takes it: `300m`, `0x1000`.
fn bytes(text: &str) -> Option<Bytes> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (radix, text) = hexadecimal.map_or((10, text), |digits| (16, digits));
    let end = text.find(|c: char| !c.is_digit(radix));
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let number = u64::from_str_radix(digits, radix).ok()?;
    number.checked_mul(1 << shift).map(Bytes)
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
