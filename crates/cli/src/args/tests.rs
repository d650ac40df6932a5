use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, String> {
    Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
}

fn run_of(line: &str) -> Run {
    match parse(line).unwrap().command {
        Command::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn definitions_hold_together() {
    Cli::command().debug_assert();
}

#[test]
fn the_brokers_socket_is_for_commands_that_ask_it() {
    let socket = |line: &str| parse(line).unwrap().socket().map(Path::to_owned);
    for line in [
        "plimsoll ps --socket /x",
        "plimsoll --socket /x ps",
        "plimsoll --socket /y ps --socket /x",
    ] {
        assert_eq!(socket(line).as_deref(), Some(Path::new("/x")), "{line}");
    }
    let mut command = Cli::command();
    command.build();
    for sub in command.get_subcommands() {
        let asks = [
            "run", "adopt", "top", "ps", "explain", "metrics", "events", "set", "map", "doctor",
            "broker",
        ]
        .contains(&sub.get_name());
        let has = sub
            .get_arguments()
            .any(|arg| arg.get_long() == Some("socket"));
        assert_eq!(has, asks, "{}", sub.get_name());
        let runs = sub.get_name() == "run";
        let help = sub.clone().render_help().to_string();
        assert!(runs || !help.contains("plimsoll run` exits"), "{help}");
    }
}

#[test]
fn everything_after_the_program_is_its_own() {
    let run = run_of("plimsoll run -w 40 java -jar x.jar --weight 3 -- y");
    assert_eq!(run.principal.weight, Weight::new(40).ok());
    assert_eq!(
        run.program,
        ["java", "-jar", "x.jar", "--weight", "3", "--", "y"]
    );
    let run = run_of("plimsoll run --priority -5 --max 1.5G -- -odd -v");
    assert_eq!(run.principal.priority, Priority::new(-5).ok());
    assert_eq!(run.principal.max, Some(Size::Bytes(1536 << 20)));
    assert_eq!(run.program, ["-odd", "-v"]);
    assert!(!run.verbose);
}

#[test]
fn bad_input_is_named() {
    for (line, needle) in [
        ("plimsoll run", "PROGRAM"),
        (
            "plimsoll run --budget 1G true",
            "unexpected argument '--budget'",
        ),
        (
            "plimsoll run -w 0 true",
            "weight 0 is out of range: give 1 to 10000",
        ),
        ("plimsoll run -w -1 true", "weight -1 is out of range"),
        ("plimsoll run -w 10001 true", "out of range"),
        ("plimsoll run -w heavy true", "`heavy` is no weight"),
        ("plimsoll run -p 101 true", "priority 101 is out of range"),
        ("plimsoll run -n a\nb true", "printable text only"),
        ("plimsoll run --max=-5M true", "negative"),
        ("plimsoll run -m much true", "is no size"),
        ("plimsoll run --max 1K true", "max 1024 is out of range"),
        ("plimsoll run --max 0 true", "leave it out"),
        ("plimsoll adopt --max 1K 5", "max 1024 is out of range"),
        ("plimsoll set x --max 1K", "max 1024 is out of range"),
        ("plimsoll run -f p.toml -w 3", "cannot be used with"),
        ("plimsoll adopt 0", "`0` is no process number"),
        ("plimsoll adopt -- -4", "-4"),
        ("plimsoll adopt 4294967297", "no process number"),
        ("plimsoll adopt java", "`java` is no process number"),
        ("plimsoll set x", "--weight"),
        (
            "plimsoll top --interval 5",
            "`5` is out of range: give a whole number, 100 to 60000",
        ),
        ("plimsoll pin", "--all"),
        ("plimsoll pin 1 --all", "cannot be used with"),
        ("plimsoll pin 1 --budget much", "is no size"),
        ("plimsoll pin 1 --window 0", "is no time"),
        ("plimsoll pin 1 --share 3M", "--budget"),
        ("plimsoll pin 1 --once --dry-run", "cannot be used with"),
        ("plimsoll completions cmd", "invalid value"),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.contains(needle), "{line:?} => {error}");
    }
}
