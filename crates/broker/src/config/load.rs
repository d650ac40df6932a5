//! Reads the configuration files and explains errors in them.

use super::{Config, File, WINDOWS};
use std::io;
use std::path::{Path, PathBuf};

/// A file of configuration longer than this (bytes) is refused.
const MAX_FILE: u64 = 1 << 20;
/// More drop-in files than this are refused.
const MAX_DROP_INS: usize = 256;

/// An error in the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: the configuration cannot be read ({source}); check the path and its \
             permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file says something that is not understood.
    #[error("{}:{line}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// The error, and the text to write instead.
        message: String,
    },
}

const KNOWN: &str = "known are budget, reserve, max_principals, max_per_user, cgroups, working_sets, \
                     sharing, revoke, lending, show_others, \
                     [balance] with measure, shift, [pin] with enabled, budget, window \
                     and [[rule]] with cgroup, unit, user, executable, weight, priority, adapter, \
                     user_weight, \
                     user_priority";

/// Reads `path` and the drop-in files in `path` + `.d`. Without `required`, a missing file, or one
/// in a directory that the broker may not read, counts as empty.
///
/// # Errors
/// [`ConfigError`] for the first file that cannot be used.
pub fn load(path: &Path, required: bool) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    if !required && is_out_of_reach(path) {
        tracing::info!("{}: the directory is closed to us", path.display());
        return Ok(config);
    }
    match read(path) {
        Ok(text) => config.apply(parse(&text, path)?),
        Err(source) if source.kind() == io::ErrorKind::NotFound && !required => {}
        Err(source) => {
            return Err(ConfigError::Unreadable {
                path: path.into(),
                source,
            });
        }
    }
    for drop_in in drop_ins(path)? {
        let text = read(&drop_in).map_err(|source| ConfigError::Unreadable {
            path: drop_in.clone(),
            source,
        })?;
        config.apply(parse(&text, &drop_in)?);
    }
    Ok(config)
}

/// `su`, `sudo -u` and containers may leave another user's `HOME`. Its files are not meant for this
/// broker.
fn is_out_of_reach(path: &Path) -> bool {
    let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    std::fs::symlink_metadata(path).is_err_and(denied)
}

fn read(path: &Path) -> io::Result<String> {
    let length = std::fs::metadata(path)?.len();
    if length > MAX_FILE {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    std::fs::read_to_string(path)
}

fn drop_ins(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut directory = path.as_os_str().to_owned();
    directory.push(".d");
    let directory = PathBuf::from(directory);
    let unreadable = |source| ConfigError::Unreadable {
        path: directory.clone(),
        source,
    };
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(unreadable(source)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(unreadable)?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(file);
        }
        if files.len() > MAX_DROP_INS {
            return Err(unreadable(io::Error::other(
                "it holds more than 256 files; join some",
            )));
        }
    }
    files.sort();
    Ok(files)
}

/// Parses and checks one file's text; `path` is for the messages.
///
/// # Errors
/// [`ConfigError::Wrong`] with the line and what to write.
pub fn parse(text: &str, path: &Path) -> Result<File, ConfigError> {
    let wrong = |line, message| ConfigError::Wrong {
        path: path.into(),
        line,
        message,
    };
    let mut file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let mut message = error.message().lines().collect::<Vec<_>>().join("; ");
        if let Some((unknown, _)) = message.split_once(", expected")
            && unknown.starts_with("unknown field")
        {
            message = format!("{unknown}; {KNOWN}");
        }
        wrong(line, message)
    })?;
    for (what, value) in [
        ("max_principals", file.max_principals),
        ("max_per_user", file.max_per_user),
    ] {
        if let Some(value) = value.filter(|value| !(1..=100_000).contains(value)) {
            return Err(wrong(
                line_of(text, what, 0),
                format!("{what} {value} is out of range: give 1 to 100000"),
            ));
        }
    }
    if let Some(window) = file.pin.window.filter(|window| !WINDOWS.contains(window)) {
        let message = format!("window {window} is out of range: give 1 to 3600 seconds");
        return Err(wrong(line_of(text, "window", 0), message));
    }
    for (index, rule) in file.rules.iter_mut().enumerate() {
        rule.check()
            .map_err(|message| wrong(line_in_rule(text, index, &message), message))?;
    }
    Ok(file)
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// Number of the line in the `nth` rule that a message is about: that of the key with which it begins, or
/// else the first.
fn line_in_rule(text: &str, nth: usize, message: &str) -> usize {
    let first = line_of(text, "[[rule]]", nth);
    let key = message.split(' ').next().unwrap_or_default();
    let lines = text.lines().enumerate().skip(first);
    let own = lines.take_while(|(_, line)| !line.trim_start().starts_with('['));
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let mut named = own.filter(|(_, line)| names(line));
    named.next().map_or(first, |(index, _)| index + 1)
}

/// Number of the `nth` line (from 0) that starts with `what`.
fn line_of(text: &str, what: &str, nth: usize) -> usize {
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with(what))
        .nth(nth)
        .map_or(1, |(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Facts;
    use plimsoll_unit::Bytes;
    use plimsoll_wire::messages::{Priority, Weight};
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        parse(text, Path::new("plimsoll.toml"))
            .expect_err(text)
            .to_string()
    }

    #[test]
    fn errors_name_file_line_and_what_to_write() {
        for (text, line, say) in [
            ("budget = \"1500M\"\nbudgett = 1\n", 2, "known are budget"),
            ("\n\nreserve = \"lots\"\n", 3, "write bytes"),
            ("budget = -5\n", 1, "give 0 or more"),
            ("max_principals = 0\n", 1, "give 1 to 100000"),
            ("max_principals = -1\n", 1, ""),
            (
                "[[rule]]\nuser = \"0\"\nweight = 1\n[[rule]]\nweight = 3\n",
                4,
                "without a condition",
            ),
            ("[[rule]]\nunit = \"a\"\nweight = 0\n", 3, "give 1 to 10000"),
            (
                "[[rule]]\nunit = \"a\"\nweight=7\n[[rule]]\nunit = \"b\"\n\n weight=0\n",
                7,
                "give 1 to 10000",
            ),
            (
                "[[rule]]\nunit = \"a\"\nadapter = \"hotspott\"\n",
                3,
                "adapter `hotspott` is not known: give one of ",
            ),
            (
                "[[rule]]\nunit = \"a\"\npriority = 101\n",
                3,
                "give -100 to 100",
            ),
            ("[[rule]]\nunit = \"a\"\n", 1, "gives nothing"),
            (
                "[[rule]]\nuser = \"0\"\nuser_weight = 0\n",
                3,
                "give 1 to 10000",
            ),
            (
                "[[rule]]\nuser = \"0\"\nuser_priority = -101\n",
                3,
                "give -100 to 100",
            ),
            (
                "[[rule]]\nexecutable = \"*/java\"\nuser_priority = 1\n",
                1,
                "`user` and `unit` only",
            ),
            (
                "[[rule]]\nuser = \"no such user\\n\"\nweight = 1\n",
                1,
                "no user is called",
            ),
            ("[pin]\nenabled = true\nwindow = 0\n", 3, "give 1 to 3600"),
            ("[pin]\nbudget = \"lots\"\n", 2, "write bytes"),
            ("[balance]\nshifted = true\n", 2, "[balance] with"),
            ("[[rule]]\nwait = 3\n", 2, "known are"),
            ("budget = [", 1, ""),
        ] {
            let message = message(text);
            assert!(
                message.starts_with(&format!("plimsoll.toml:{line}: ")),
                "{text:?}: {message}"
            );
            assert!(message.contains(say), "{text:?}: {message}");
            assert!(
                message.matches("max_principals, ").count() <= 1,
                "{message}"
            );
        }
    }

    #[test]
    fn drop_ins_come_later_and_their_rules_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plimsoll.toml");
        let drop_in = directory.path().join("plimsoll.toml.d");
        std::fs::create_dir(&drop_in).unwrap();
        std::fs::write(
            &path,
            "budget = 1\nreserve = 2\nlending = false\n[[rule]]\nexecutable=\"*\"\nweight=5\npriority=4\n",
        )
        .unwrap();
        std::fs::write(
            drop_in.join("10.toml"),
            "budget = 9\n[[rule]]\nexecutable=\"/b*\"\nweight=7\n",
        )
        .unwrap();
        std::fs::write(drop_in.join("README"), "not read").unwrap();
        let config = load(&path, true).unwrap();
        assert_eq!(config.budget.unwrap().bytes(Bytes::ZERO), Bytes(9));
        assert_eq!(config.reserve.unwrap().bytes(Bytes::ZERO), Bytes(2));
        assert!(!config.lending);
        let given = config.given(&Facts {
            executable: "/bin/x".into(),
            ..Facts::default()
        });
        let numbers = (
            given.weight.map(Weight::get),
            given.priority.map(Priority::get),
        );
        assert_eq!(numbers, (Some(7), Some(4)));
        let given = config.given(&Facts {
            executable: "/usr/x".into(),
            ..Facts::default()
        });
        assert_eq!(given.weight.map(Weight::get), Some(5));
    }

    #[test]
    fn absent_is_empty_unless_it_was_asked_for() {
        let path = Path::new("/nonexistent/plimsoll.toml");
        assert!(load(path, false).is_ok());
        let message = load(path, true).expect_err("must exist").to_string();
        assert!(message.contains("check the path"), "{message}");
    }

    #[test]
    fn what_is_in_another_users_home_is_as_good_as_absent() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("closed/plimsoll.toml");
        std::fs::create_dir(directory.path().join("closed")).unwrap();
        std::fs::write(&path, "budget = 9").unwrap();
        let set = |mode| {
            for folder in [directory.path(), path.parent().unwrap()] {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(folder, mode).unwrap();
            }
        };
        let as_nobody = |required| {
            plimsoll_kernel::identity::as_user(65534, 65534, || load(&path, required)).unwrap()
        };
        set(0o755);
        assert!(as_nobody(false).unwrap().budget.is_some());
        set(0o700);
        let closed = (as_nobody(false), as_nobody(true));
        if rustix::process::geteuid().is_root() {
            assert!(closed.0.unwrap().budget.is_none() && closed.1.is_err());
        }
        // An unreadable file of one's own is a mistake.
        let mode = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(&path, mode).unwrap();
        set(0o755);
        if rustix::process::geteuid().is_root() {
            assert!(as_nobody(false).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "\\PC{0,200}") {
            let _ = parse(&text, Path::new("p"));
        }

        #[test]
        fn no_value_breaks_the_checks(weight: i64, priority: i64, budget in "[ -~]{0,12}") {
            let text = format!("budget = {budget:?}\n[[rule]]\nunit = \"*\"\nweight = {weight}\npriority \
                                = {priority}\n");
            let good = parse(&text, Path::new("p")).is_ok();
            prop_assert!(!good || ((1..=10_000).contains(&weight) && (-100..=100).contains(&priority)));
        }
    }
}
