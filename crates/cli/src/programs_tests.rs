use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Programs, String> {
    Programs::parse(text, Path::new("p.toml")).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    parse(text).expect_err(text)
}

#[test]
fn reads_a_whole_file() {
    let programs = parse(
        r#"
        name = "demo"
        budget = "1500M"
        [[program]]
        name = "index"
        command = ["java", "-jar", "a b.jar"]
        weight = 10
        priority = -1
        max = "1G"
        adapter = "hotspot"
        env = { LANG = "C" }
        [[program]]
        name = "search"
        command = "java -jar 'a b.jar' --port \"80 80\""
        start = "20s"
        stop = 60
        stdout = "search.log"
        [[outsider]]
        name = "hog"
        command = "./hog 750M"
        start = "1.5m"
        "#,
    )
    .unwrap();
    assert_eq!(programs.budget, Some(Size::Bytes(1500 << 20)));
    assert_eq!(programs.programs[0].command.0, ["java", "-jar", "a b.jar"]);
    assert_eq!(
        programs.programs[0].adapter,
        Some(AdapterChoice::Named("hotspot"))
    );
    assert_eq!(programs.programs[0].max, Some(Size::Bytes(1 << 30)));
    assert_eq!(
        programs.programs[1].command.0,
        ["java", "-jar", "a b.jar", "--port", "80 80"]
    );
    assert_eq!(programs.programs[1].start, Duration::from_secs(20));
    assert_eq!(programs.programs[1].stop, Some(Duration::from_secs(60)));
    assert_eq!(programs.outsiders[0].start, Duration::from_secs(90));
}

#[test]
fn paths_are_relative_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(
        &path,
        "[[program]]\nname='a'\ncommand='true'\nstdout='log'\ncwd='/tmp'\n",
    )
    .unwrap();
    let programs = Programs::read(&path).unwrap();
    assert_eq!(
        programs.programs[0].stdout.as_deref(),
        Some(&*dir.path().join("log"))
    );
    assert_eq!(programs.programs[0].cwd.as_deref(), Some(Path::new("/tmp")));
    assert_eq!(programs.name.as_deref(), Some("mine"));
}

#[test]
fn says_what_is_wrong_and_where() {
    let one = |line: &str| format!("[[program]]\nname = 'a'\ncommand = 'true'\n{line}\n");
    for (text, needle) in [
        (String::new(), "no [[program]]"),
        ("budget = '1G".into(), "line 1"),
        ("[[program]]\nname = 'a'".into(), "missing field `command`"),
        (
            "[[program]]\nname = 'a'\ncommand = ''".into(),
            "command is empty",
        ),
        (
            "[[program]]\nname = 'a'\ncommand = []".into(),
            "command is empty",
        ),
        (
            "[[program]]\nname = 'a'\ncommand = \"x 'y\"".into(),
            "unclosed quote",
        ),
        (
            "[[program]]\nname = \"a\\nb\"\ncommand = 'true'".into(),
            "printable text only",
        ),
        (
            "[[program]]\nname = ''\ncommand = 'true'".into(),
            "1 to 64 bytes",
        ),
        (
            one("weight = 0"),
            "weight 0 is out of range: give 1 to 10000",
        ),
        (one("weight = -3"), "weight"),
        (
            one("weight = 'ten'"),
            "expected a whole number without quotes",
        ),
        (
            one("priority = 1.5"),
            "expected a whole number without quotes",
        ),
        (one("priority = 101"), "priority 101 is out of range"),
        (one("max = '-1M'"), "negative"),
        (one("max = 'lots'"), "no size"),
        (one("start = '-1s'"), "no time"),
        (one("start = 'soon'"), "no time"),
        (one("start = '5s'\nstop = '5s'"), "stop is not after start"),
        (one("adapter = 'magic'"), "adapter"),
        (one("wieght = 3"), "unknown field `wieght`"),
        (one("wieght = 3"), "`stderr`, `policy`"),
        (one("wieght = 3"), "line 4"),
        (
            one("[[outsider]]\nname='h'\ncommand='true'\nagent='never'"),
            "unknown to the broker",
        ),
        (one("env = { 'A=B' = 'c' }"), "impossible name"),
        (format!("budget = 0\n{}", one("")), "budget is 0"),
        (one("max = '0%'"), "max is 0%"),
        (
            one("[[outsider]]\nname='h'\ncommand='true'\nweight=3"),
            "unknown to the broker",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.contains(needle), "{text}\n=> {message}");
        assert!(message.starts_with("p.toml: "), "{message}");
    }
}

#[test]
fn bounds_that_no_broker_takes_are_named() {
    let refused = |text: &str| {
        let programs = parse(text).unwrap();
        let checked = programs.check_bounds(Path::new("p.toml"), Bytes::mib(64));
        checked.map_err(|error| error.to_string())
    };
    let one = |line: &str| format!("{line}\n[[program]]\nname = 'a'\ncommand = 'true'\n");
    assert_eq!(refused(&one("budget = '50%'")), Ok(()));
    for budget in ["'1K'", "'1%'", "1000"] {
        let error = refused(&one(&format!("budget = {budget}"))).unwrap_err();
        assert!(error.contains("p.toml: budget: max "), "{error}");
    }
    for max in ["'1K'", "0", "'1%'"] {
        let error = refused(&(one("") + &format!("max = {max}"))).unwrap_err();
        assert!(error.contains("p.toml: program `a`: max "), "{error}");
    }
}

#[test]
fn missing_and_oversized_files_are_refused() {
    let error = Programs::read(Path::new("/nonexistent/p.toml")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read /nonexistent/p.toml"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.toml");
    std::fs::write(&path, vec![b'#'; MOST_BYTES as usize + 1]).unwrap();
    assert!(matches!(
        Programs::read(&path),
        Err(ProgramsError::TooLarge { .. })
    ));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(
        Programs::read(&path),
        Err(ProgramsError::Read { .. })
    ));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_time_is_read_or_refused(text in ".{0,12}") {
        let _ = parse_duration(&text);
    }
}

#[test]
fn two_of_a_name_and_a_budget_above_the_machine_are_doubted() {
    let program = "[[program]]\nname = \"a\"\ncommand = \"x\"\n";
    let programs = parse(&format!("budget = \"100G\"\n{}", program.repeat(3))).unwrap();
    let doubts = programs.doubts(Bytes(24 << 30));
    assert_eq!(
        doubts,
        [
            "several programs are called `a`: `plimsoll set` takes their numbers only",
            "the budget of 100G is more than the 24.0G that there are",
        ]
    );
    assert!(programs.doubts(Bytes(100 << 30)).len() == 1);
    assert!(parse(program).unwrap().doubts(Bytes(1)).is_empty());
}
