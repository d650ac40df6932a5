//! The name of a program where nobody gave it one: by its jar, main class or script instead of the
//! interpreter that runs it, as `jps` does for Java.

use plimsoll_wire::checks::mend_name;
use std::path::Path;

/// How many programs that start another one are looked through: `nice env X=1 nohup java …`.
const DEEP: usize = 8;
/// Launching options of Java whose value is the next word.
const JAVA_VALUES: &[&str] = &crate::hotspot::flags::WITH_VALUE;

/// A program that starts the one that its command line goes on with.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    values: &'static [&'static str],
    /// Words before the program that are no options.
    words: usize,
}

const fn wrapper(name: &'static str, values: &'static [&'static str], words: usize) -> Wrapper {
    Wrapper {
        name,
        values,
        words,
    }
}

const WRAPPERS: [Wrapper; 10] = [
    wrapper("env", &["-u", "--unset", "-C", "--chdir"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper(
        "stdbuf",
        &["-i", "--input", "-o", "--output", "-e", "--error"],
        0,
    ),
    wrapper("timeout", &["-k", "--kill-after", "-s", "--signal"], 1),
    wrapper("taskset", &[], 1),
    wrapper("chrt", &["-T", "-P", "-D"], 1),
    wrapper("time", &["-f", "--format", "-o", "--output"], 0),
];

/// A program that runs what its command line names.
struct Interpreter {
    /// The beginning of its name; digits, points and `-` may follow (`python3.11`, `guile-3.0`).
    name: &'static str,
    /// Options whose value is the next word.
    values: &'static [&'static str],
    /// Options whose value is what runs.
    runs: &'static [&'static str],
    /// Options with which no file runs, but text of the command line.
    inline: &'static [&'static str],
}

impl Interpreter {
    /// Whether with this option no file runs. One letter may stand among others (`bash -lc`, `perl -ne`), or
    /// have the text behind it; a long option may have it behind `=`.
    fn is_inline(&self, option: &str) -> bool {
        self.inline
            .iter()
            .any(|inline| match inline.strip_prefix("--") {
                Some(_) => option.split('=').next() == Some(inline),
                None => {
                    option.starts_with('-')
                        && !option.starts_with("--")
                        && option.contains(&inline[1..])
                }
            })
    }
}

const fn interpreter(
    name: &'static str,
    values: &'static [&'static str],
    runs: &'static [&'static str],
    inline: &'static [&'static str],
) -> Interpreter {
    Interpreter {
        name,
        values,
        runs,
        inline,
    }
}

const SHELL: [&[&str]; 3] = [
    &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"],
    &[],
    &["-c"],
];

const INTERPRETERS: [Interpreter; 15] = [
    interpreter("java", JAVA_VALUES, &["-jar", "-m", "--module"], &[]),
    interpreter("python", &["-W", "-X"], &["-m"], &["-c"]),
    interpreter("pypy", &["-W", "-X"], &["-m"], &["-c"]),
    interpreter(
        "node",
        &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "-C",
            "--conditions",
        ],
        &[],
        &["-e", "--eval", "-p", "--print"],
    ),
    interpreter(
        "nodejs",
        &["-r", "--require", "--import"],
        &[],
        &["-e", "--eval", "-p", "--print"],
    ),
    interpreter("guile", &["-L", "-C", "-x", "-e"], &["-s", "-l"], &["-c"]),
    interpreter("perl", &["-I"], &[], &["-e", "-E"]),
    interpreter("ruby", &["-I", "-r", "-C"], &[], &["-e"]),
    interpreter("php", &["-c", "-d"], &["-f"], &["-r", "-R", "-B", "-E"]),
    interpreter("lua", &["-l"], &[], &["-e"]),
    interpreter("dotnet", &[], &["exec"], &[]),
    interpreter("bash", SHELL[0], SHELL[1], SHELL[2]),
    interpreter("dash", SHELL[0], SHELL[1], SHELL[2]),
    interpreter("zsh", SHELL[0], SHELL[1], SHELL[2]),
    interpreter("sh", SHELL[0], SHELL[1], SHELL[2]),
];

/// The name of the program that this command line starts: of the jar, the main class, the module or the
/// script, if its first word is an interpreter; else of the program itself. Always a valid name of a
/// principal.
pub fn called(words: &[String]) -> String {
    let mut words = words;
    for _ in 0..DEEP {
        let Some(name) = words.first().map(|word| file_name(word)) else {
            break;
        };
        match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => match wrapped(wrapper, &words[1..]) {
                Some(inner) => words = inner,
                None => break,
            },
            None => break,
        }
    }
    let Some((program, arguments)) = words.split_first() else {
        return mend_name("");
    };
    let name = file_name(program);
    let interpreter = INTERPRETERS.iter().find(|it| is_called(name, it.name));
    let run = interpreter.and_then(|it| run_by(it, arguments));
    mend_name(run.as_deref().unwrap_or(name))
}

/// The command line of the program that a wrapper starts, if there is one.
fn wrapped<'a>(wrapper: &Wrapper, arguments: &'a [String]) -> Option<&'a [String]> {
    let mut left = wrapper.words;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let is_option = word.starts_with('-') && word.len() > 1;
        let is_env = wrapper.name == "env";
        let is_variable = is_env && word.contains('=');
        // Its value is a command line itself.
        if is_env && (word.starts_with("-S") || word.starts_with("--split-string")) {
            return None;
        }
        if is_option && wrapper.values.contains(&word.as_str()) {
            at += 1;
        } else if !is_option && !is_variable {
            if left == 0 {
                return Some(&arguments[at..]);
            }
            left -= 1;
        }
        at += 1;
    }
    None
}

/// The name of the program that an interpreter runs, by its arguments.
fn run_by(interpreter: &Interpreter, arguments: &[String]) -> Option<String> {
    let is_java = interpreter.name == "java";
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let word = word.as_str();
        if interpreter.runs.contains(&word) {
            let value = words.next()?;
            return Some(match word {
                "-m" | "--module" => of_module(value),
                _ => file_name(value).to_owned(),
            });
        }
        if let Some(module) = word.strip_prefix("--module=") {
            return Some(of_module(module));
        }
        if interpreter.values.contains(&word) {
            words.next();
        } else if interpreter.is_inline(word) {
            return None;
        } else if !word.starts_with(['-', '+', '@']) || word == "-" {
            let file = file_name(word);
            return match (word, is_java) {
                ("-", _) => None,
                // The text of a command, behind an option that is not known here.
                _ if word.contains([';', '=']) || word.contains(char::is_whitespace) => None,
                (_, true) if !file.ends_with(".java") => Some(last_part(word).to_owned()),
                _ => Some(file.to_owned()),
            };
        }
    }
    None
}

/// A module's name, or that of its main class: `shop/org.shop.Main`, `http.server`.
fn of_module(module: &str) -> String {
    match module.split_once('/') {
        Some((_, class)) => last_part(class).to_owned(),
        None => module.to_owned(),
    }
}

/// The name of a class without its package.
fn last_part(class: &str) -> &str {
    let part = class.rsplit(['.', '/']).next();
    part.filter(|part| !part.is_empty()).unwrap_or(class)
}

fn file_name(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.unwrap_or(path)
}

/// Whether a file name is that of an interpreter of any version.
fn is_called(name: &str, interpreter: &str) -> bool {
    let version = name.strip_prefix(interpreter);
    version.is_some_and(|rest| {
        rest.bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::checks;
    use proptest::prelude::*;

    fn of(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        called(&words)
    }

    #[test]
    fn a_program_is_called_by_what_runs_and_not_by_what_runs_it() {
        for (line, name) in [
            (
                "java -Xmx1g -jar /opt/shop/search.jar --port 80",
                "search.jar",
            ),
            (
                "/usr/bin/java -cp lib/a.jar:b.jar org.shop.Index x.jar",
                "Index",
            ),
            (
                "java --add-opens java.base/java.lang=ALL-UNNAMED Main",
                "Main",
            ),
            ("java -m shop/org.shop.Server", "Server"),
            ("java --module=jdk.httpserver", "jdk.httpserver"),
            (
                "java -p mods -m jdk.compiler/com.sun.tools.javac.Main",
                "Main",
            ),
            ("java Hello.java one", "Hello.java"),
            ("java @options -version", "java"),
            ("java", "java"),
            ("javac Hello.java", "javac"),
            ("python3.11 -X dev -u app.py run", "app.py"),
            ("python -m http.server", "http.server"),
            ("python3 -c import", "python3"),
            ("python3 -", "python3"),
            (
                "node --max-old-space-size=64 -r dotenv srv/server.js",
                "server.js",
            ),
            ("node -e 1", "node"),
            (
                "guile-3.0 --no-auto-compile -L lib -s report.scm",
                "report.scm",
            ),
            ("guile x.scm", "x.scm"),
            ("bash -eu ./start.sh", "start.sh"),
            ("sh -c java", "sh"),
            ("guile -e main -s x.scm", "x.scm"),
            ("perl -w tool.pl", "tool.pl"),
            ("./sort -n file", "sort"),
            ("shred a", "shred"),
            ("env X=1 -u Y java -jar a.jar", "a.jar"),
            ("stdbuf -oL -e 0 ./ad cache", "ad"),
            ("timeout -k 1 60 nice -n 5 python3 app.py", "app.py"),
            ("nohup", "nohup"),
            ("env X=1", "env"),
            ("taskset -c 0,1 java Main", "Main"),
        ] {
            assert_eq!(of(line), name, "{line}");
        }
        assert_eq!(called(&[]), "unnamed");
        assert_eq!(of(""), "unnamed");
    }

    #[test]
    fn the_text_of_a_command_is_no_name() {
        for (line, name) in [
            ("bash -lc secret", "bash"),
            ("sh -ec secret", "sh"),
            ("bash -o pipefail -euc secret", "bash"),
            ("perl -ne secret", "perl"),
            ("perl -Mstrict -E secret", "perl"),
            ("python3 -uc secret", "python3"),
            ("python3 -cimport secret", "python3"),
            ("node --eval=secret x", "node"),
            ("node -pe secret", "node"),
            ("php -R secret", "php"),
            ("ruby --unknown TOKEN=secret", "ruby"),
            ("ruby --unknown secret;run", "ruby"),
            ("env -S secret", "env"),
        ] {
            assert_eq!(of(line), name, "{line}");
        }
        let text = ["fish", "-C", "export TOKEN=secret; run"].map(str::to_owned);
        let shell = ["zsh", "--emulate", "export secret"].map(str::to_owned);
        assert_eq!(
            (called(&text), called(&shell)),
            ("fish".into(), "zsh".into())
        );
    }

    proptest! {
        #[test]
        fn whatever_a_command_line_is_the_name_is_valid(
            words in proptest::collection::vec("(env|nice|java|sh|-jar|-c|-|@|=|/|.{0,90})", 0..20)
        ) {
            prop_assert!(checks::name(&called(&words)).is_ok());
        }
    }
}
