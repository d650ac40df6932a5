//! The options that the user gave, from every place where the launcher and the machine look for them.
//!
//! | place | read by | its words |
//! |---|---|---|
//! | `JAVA_TOOL_OPTIONS` | the machine, first | `words` |
//! | `JDK_JAVA_OPTIONS` | the launcher, before its command line | `words`, argument files in place |
//! | the command line | the launcher | argument files in place; up to the class, the jar or the module |
//! | `_JAVA_OPTIONS` | the machine, last | `words` |
//!
//! Each is read by itself, so that the end of one does not hide another. In a variable nothing is a
//! class: what is neither an option nor the value of one is skipped there.

use super::files::Files;
use super::words::{argument_file, words};
use crate::setting::Setting;
use std::path::Path;

/// Read by the `java` launcher of JDK 9 and later.
pub const LAUNCHER: &str = "JDK_JAVA_OPTIONS";
/// Read by the machine before its command line.
const FIRST: &str = "JAVA_TOOL_OPTIONS";
/// Read by the machine after it.
const LAST: &str = "_JAVA_OPTIONS";
/// Options whose value is the next word: `IsWhiteSpaceOption` of the launcher, without the module
/// that it starts. The machine itself knows none.
const WITH_VALUE: [&str; 16] = [
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
/// Flags of a machine that is built for debugging, in its working directory.
const UNASKED: &str = ".hotspotrc";
/// The most that is read of a file with options, bytes.
const MOST_READ: u64 = 1 << 20;
/// The most that is read of all together. Each counts as a page at the least, so that there is an end to
/// empty ones, too.
const MOST_OF_ALL: u64 = 4 << 20;
const PAGE: u64 = 4096;

/// Options that the user gave, in the order in which they count: the last of a name wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    options: Vec<String>,
    /// Experimental flags were unlocked before the command line.
    unlocked: bool,
    /// A file was named that could not be read to its end.
    partial: bool,
}

impl Given {
    /// Those of a command line (without `java` itself), where it will be started.
    pub fn collect(arguments: impl IntoIterator<Item = String>, setting: &Setting<'_>) -> Given {
        let files = Files::Ours(setting.folder.to_path_buf());
        Gather::of(arguments, setting, &files).given
    }

    /// Those of a program that runs already; `files` are what it finds.
    pub fn of_running(
        arguments: impl IntoIterator<Item = String>,
        setting: &Setting<'_>,
        files: &Files,
    ) -> Given {
        let mut gather = Gather::of(arguments, setting, files);
        // Builds for debugging read it unasked, and pass over a link that leads nowhere.
        let is_there = setting.folder.join(UNASKED).symlink_metadata().is_ok();
        if is_there && !files.lacks(Path::new(UNASKED)) {
            gather.add(&format!("-XX:Flags={UNASKED}"));
        }
        gather.given
    }

    /// Whether all is known: every file that was named could be read.
    pub fn is_whole(&self) -> bool {
        !self.partial
    }

    /// Whether SIGQUIT may be anything but the machine's. What stands anywhere counts, whatever stands after
    /// it.
    pub fn keeps_signals(&self) -> bool {
        let own = |option: &String| option == "-Xrs" || option == "-XX:+ReduceSignalUsage";
        self.options.iter().any(own)
    }

    /// Whether this flag is switched on anywhere, whatever stands after it.
    pub fn ever_on(&self, flag: &str) -> bool {
        let on = |option: &String| option.strip_prefix("-XX:+") == Some(flag);
        self.options.iter().any(on)
    }

    /// Whether an option begins with one of these.
    pub(super) fn has(&self, prefixes: &[&str]) -> bool {
        let begins = |option: &String| prefixes.iter().any(|p| option.starts_with(p));
        self.options.iter().any(begins)
    }

    /// What follows `prefix` in the last option that begins with it.
    pub(super) fn last(&self, prefix: &str) -> Option<&str> {
        let mut options = self.options.iter().rev();
        options.find_map(|option| option.strip_prefix(prefix))
    }

    /// Whether a flag of this name is switched on.
    pub(super) fn is_on(&self, flag: &str) -> bool {
        let mut options = self.options.iter().rev();
        let last = options.find(|option| name(option) == Some(flag));
        last.is_some_and(|option| option.starts_with("-XX:+"))
    }

    /// Whether `flag` would change what the user gave: its name with something else. One from a
    /// variable would lose against a flag of ours on the command line.
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

    /// Bytes that options of these names give; `None` for one that cannot be read.
    pub(super) fn sizes(&self, names: &[&str]) -> Vec<Option<u64>> {
        let value = |option: &String| {
            let mut names = names.iter();
            names.find_map(|name| option.strip_prefix(name)).map(bytes)
        };
        self.options.iter().filter_map(value).collect()
    }
}

/// Gathers them, place by place.
struct Gather<'a> {
    given: Given,
    files: &'a Files,
    /// Bytes of files that may still be read.
    left: u64,
}

impl<'a> Gather<'a> {
    fn of(
        arguments: impl IntoIterator<Item = String>,
        setting: &Setting<'_>,
        files: &'a Files,
    ) -> Gather<'a> {
        let value = |name: &str| {
            let value = (setting.variables)(name).unwrap_or_default();
            words(&value.to_string_lossy())
        };
        let mut gather = Gather {
            given: Given::default(),
            files,
            left: MOST_OF_ALL,
        };
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

    /// An option, and those of the file that it may name.
    fn add(&mut self, option: &str) {
        if let Some(path) = option.strip_prefix("-XX:VMOptionsFile=") {
            let words = words(&self.read(path)).into_iter();
            let options = &mut self.given.options;
            options.extend(words.filter(|word| word.starts_with('-')));
        }
        if let Some(path) = option.strip_prefix("-XX:Flags=") {
            // Names without `-XX:`, and comments.
            for line in self.read(path).lines() {
                let flags = words(line).into_iter();
                let flags = flags.take_while(|word| !word.starts_with('#'));
                let options = &mut self.given.options;
                options.extend(flags.map(|flag| format!("-XX:{flag}")));
            }
            // Such a file is read before anything else, wherever it is named.
            self.unlock();
        }
        self.given.options.push(option.to_owned());
    }

    /// Experimental flags are unlocked from here on if they are now.
    fn unlock(&mut self) {
        self.given.unlocked |= self.given.is_on("UnlockExperimentalVMOptions");
    }

    /// What a file holds; nothing where it cannot be read.
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

/// The launcher's way through its words.
struct Walk<'a, 'b> {
    gather: &'a mut Gather<'b>,
    /// A word that is no option is the class (or the jar), and what follows is the program's.
    to_class: bool,
    /// `@FILE` stands for the words of a file.
    files: bool,
    /// The next word is a value.
    value: bool,
    /// The class was there.
    over: bool,
}

impl Walk<'_, '_> {
    fn word(&mut self, word: &str) {
        match word.strip_prefix('@').filter(|_| self.files) {
            // `@` stands for itself, `@@x` for the word `@x`.
            None | Some("") => self.take(word),
            Some(escaped) if escaped.starts_with('@') => self.take(escaped),
            Some(path) => {
                // Files that are named in a file are not looked into.
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
fn bytes(text: &str) -> Option<u64> {
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
    number.checked_mul(1 << shift)
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
