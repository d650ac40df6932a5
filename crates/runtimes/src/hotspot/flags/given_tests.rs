//! Command lines, files and variables are read as Java's launcher and the machine read them.

use super::*;
use std::ffi::OsString;
use std::path::Path;

fn given(arguments: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let arguments = arguments.iter().map(|&word| word.to_owned());
    let setting = Setting {
        variables: &variable,
        folder: Path::new(""),
    };
    Given::collect(arguments, &setting).options
}

#[test]
fn quotes_hold_words_together_in_variables() {
    for (text, expected) in [
        ("", vec![]),
        (" \t-a\n\x0b-b  ", vec!["-a", "-b"]),
        ("-Dname=\"My App\" -Xmx2g", vec!["-Dname=My App", "-Xmx2g"]),
        ("'-Da=b c'd e", vec!["-Da=b cd", "e"]),
        ("-Da='say \"hi\"'", vec!["-Da=say \"hi\""]),
        // A backslash escapes nothing here.
        ("-Da=\\\"b c\\\" d", vec!["-Da=\\b c\\", "d"]),
        ("'' x", vec!["", "x"]),
        ("-a 'b c", vec!["-a", "b c"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn argument_files_have_comments_and_escapes() {
    for (text, expected) in [
        ("-a # -b\n#-c\r\n-d", vec!["-a", "-d"]),
        ("\"C:\\\\a b\" c:\\x", vec!["C:\\a b", "c:\\x"]),
        ("\"a\\\n   b\" c", vec!["ab", "c"]),
        ("'open quote\n-d", vec!["open quote", "-d"]),
        ("'line #2'\x0cx", vec!["line #2", "x"]),
        ("\"a\\tb\\", vec!["a\tb"]),
    ] {
        assert_eq!(argument_file(text), expected, "{text}");
    }
}

#[test]
fn values_of_options_are_no_class() {
    for option in WITH_VALUE {
        let words = [option, "-Xmx9m", "-Xms1m", "A", "-Xmn1m"];
        assert_eq!(given(&words, &[]), [option, "-Xms1m"], "{option}");
    }
    assert_eq!(
        given(&["-jar", "-Xms1m", "a.jar", "-Xmx1g"], &[]),
        ["-jar", "-Xms1m"]
    );
    for module in ["-m", "--module", "--module=m/A"] {
        assert_eq!(given(&[module, "-Xmx1g"], &[]), [module]);
    }
}

#[test]
fn each_place_is_read_by_itself() {
    let variables = [
        (LAST, "stray -d"),
        (
            LAUNCHER,
            "--add-opens java.base/java.lang=ALL-UNNAMED stray -b",
        ),
        (FIRST, "stray '-Dx=y z' -a -cp -e"),
    ];
    let options = given(&["-c", "A", "-x"], &variables);
    // The machine, unlike the launcher, takes no value from the next word.
    let expected = "-Dx=y z|-a|-cp|-e|--add-opens|-b|-c|-d";
    assert_eq!(options.join("|"), expected);
    // If a value is missing at the end of a variable, it is not taken from the next variable.
    let options = given(&["-c", "A"], &[(LAUNCHER, "-b --add-opens")]);
    assert_eq!(options, ["-b", "--add-opens", "-c"]);
}

#[test]
fn files_are_read_where_they_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let arguments = format!("@{}", write("arguments", "-Xmx1g -cp\n'a b' # c\n"));
    let arguments = arguments.as_str();
    let options = given(&[arguments, "-Xms1m", "A", "-x"], &[]);
    assert_eq!(options, ["-Xmx1g", "-cp", "-Xms1m"]);
    assert!(given(&["A", arguments], &[]).is_empty());
    let options = given(&[], &[(LAUNCHER, arguments)]);
    assert_eq!(options, ["-Xmx1g", "-cp"]);
    // The machine, unlike the launcher, reads no such files.
    assert!(given(&[], &[(FIRST, arguments)]).is_empty());
    let off = ["--disable-@files", "-Xms1m", arguments, "-x"];
    assert_eq!(given(&off, &[]), ["--disable-@files", "-Xms1m"]);
    let class = format!("@{}", write("class", "-Xmx1g A -Xmn1m"));
    assert_eq!(given(&[class.as_str(), "-Xms1m"], &[]), ["-Xmx1g"]);
    assert_eq!(given(&["@/nonexistent", "-Xms1m"], &[]), ["-Xms1m"]);
    assert!(given(&["@@a", "-Xms1m"], &[]).is_empty());

    let options = write("options", "-Xmx1g\n'-Da=b c'");
    let flags = write("flags", "# -a\n+UseZGC # -b\nNewRatio=3\n");
    let value = format!("-XX:VMOptionsFile={options} -XX:Flags={flags}");
    let all = given(&["-c"], &[(FIRST, value.as_str())]);
    for option in ["-Xmx1g", "-Da=b c", "-XX:+UseZGC", "-XX:NewRatio=3", "-c"] {
        assert!(all.iter().any(|one| one == option), "{option}: {all:?}");
    }
    // The two options that name the files count too.
    assert_eq!(all.len(), 7, "{all:?}");
}

/// The options of a program that runs in this folder.
fn running(folder: &Path, arguments: &[&str], variable: (&str, &str)) -> Given {
    let files = Files::Ours(folder.to_path_buf());
    running_with(folder, arguments, variable, &files)
}

/// As [`running`], with these files.
fn running_with(folder: &Path, arguments: &[&str], variable: (&str, &str), files: &Files) -> Given {
    let variables = |name: &str| (name == variable.0).then(|| OsString::from(variable.1));
    let setting = Setting {
        variables: &variables,
        folder,
    };
    Given::of_running(
        arguments.iter().map(|&word| word.to_owned()),
        &setting,
        files,
    )
}

#[test]
fn wherever_signals_and_attaching_are_spoken_of_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("args", "-Xrs -XX:+DisableAttachMechanism");
    write("flags", "+DisableAttachMechanism\n+ReduceSignalUsage\n");
    let args = "-Xrs -XX:+DisableAttachMechanism";
    for (words, variable) in [
        ("-Xrs -XX:+DisableAttachMechanism A", ("", "")),
        // A later option takes it back, but the order in which they are read is not certain.
        (
            "-Xrs -XX:+DisableAttachMechanism -XX:-DisableAttachMechanism A",
            ("", ""),
        ),
        ("@args A", ("", "")),
        ("-XX:VMOptionsFile=args A", ("", "")),
        ("-XX:Flags=flags A", ("", "")),
        ("A", (FIRST, args)),
        ("A", (LAUNCHER, args)),
        ("A", (LAUNCHER, "@args")),
        ("A", (LAST, args)),
        ("A", (FIRST, "-XX:Flags=flags")),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let given = running(dir.path(), &words, variable);
        let told = given.keeps_signals() && given.ever_on("DisableAttachMechanism");
        assert!(told && given.is_whole(), "{words:?} {variable:?}");
    }
    let own = running(dir.path(), &["A", "-Xrs", "@args"], ("", ""));
    assert!(!own.keeps_signals() && own.is_whole());
    write(UNASKED, "+ReduceSignalUsage\n");
    assert!(running(dir.path(), &["A"], ("", "")).keeps_signals());
}

#[test]
fn what_cannot_be_read_is_not_taken_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("args"), "-cp x").unwrap();
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let large = std::fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(MOST_READ + 1).unwrap();
    for word in ["@pipe", "@large", "@.", "@nothing", "-XX:Flags=nothing"] {
        let given = running(dir.path(), &[word, "A"], ("", ""));
        assert!(!given.is_whole(), "{word}");
    }
    assert!(running(dir.path(), &["@args", "A"], ("", "")).is_whole());
    // A dangling link is ignored if no option names the file.
    std::os::unix::fs::symlink("nowhere", dir.path().join(UNASKED)).unwrap();
    assert!(running(dir.path(), &["A"], ("", "")).is_whole());
    let named = format!("-XX:Flags={UNASKED}");
    assert!(!running(dir.path(), &[&named, "A"], ("", "")).is_whole());
    let unseen = running_with(dir.path(), &["A"], ("", ""), &Files::Closed);
    assert!(!unseen.is_whole());
    std::fs::remove_file(dir.path().join(UNASKED)).unwrap();
    // We have no access to the files that the program sees.
    let closed = |word| running_with(dir.path(), &[word, "A"], ("", ""), &Files::Closed);
    assert!(!closed("@args").is_whole() && closed("-Xmx9m").is_whole());
}

#[test]
fn however_many_files_are_named_reading_ends() {
    let dir = tempfile::tempdir().unwrap();
    let blank = vec![b' '; usize::try_from(MOST_READ).unwrap()];
    std::fs::write(dir.path().join("blank"), blank).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    for (word, most) in [
        ("@blank", MOST_OF_ALL / MOST_READ),
        ("@empty", MOST_OF_ALL / PAGE),
    ] {
        let most = usize::try_from(most).unwrap();
        let is_whole = |count: usize| running(dir.path(), &vec![word; count], ("", "")).is_whole();
        assert!(is_whole(most) && !is_whole(most + 1), "{word}");
    }
}

#[test]
fn the_last_of_a_name_counts() {
    let options = ["-XX:+UseZGC", "-XX:-UseZGC", "-XX:A=1", "-XX:A=2"];
    let given = Given {
        options: options.map(str::to_owned).into(),
        ..Given::default()
    };
    assert!(!given.is_on("UseZGC") && !given.is_on("UseG1GC"));
    assert_eq!(given.last("-XX:A="), Some("2"));
    assert!(given.contradicts("-XX:+UseZGC") && given.contradicts("-XX:A=2"));
    assert!(!given.contradicts("-XX:AB=1") && !given.contradicts("-Xmx1g"));
}

#[test]
fn sizes_are_read_as_the_machine_reads_them() {
    for (text, expected) in [
        ("300m", Some(300 << 20)),
        ("2G", Some(2 << 30)),
        ("1t", Some(1 << 40)),
        ("4096", Some(4096)),
        ("0x40000000", Some(1 << 30)),
        ("0x10k", Some(16 << 10)),
        ("odd", None),
        ("", None),
        ("1mb", None),
        ("99999999999t", None),
    ] {
        assert_eq!(bytes(text), expected.map(Bytes), "{text}");
    }
}
