//! Others watch the broker: `plimsoll metrics`, `plimsoll events`, and the dashboard.

mod common;

use common::prometheus::{Server, get, project, serving, tool};
use common::{Place, Started, signal_to, stderr, wait_for};
use plimsoll_testbed::skip;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A name with all that has to be escaped.
const ODD: &str = "a \"b\" \\c/#2 é";

/// A place whose broker has two programs of one name, and one of an odd name.
fn busy() -> Place {
    let mut place = Place::new();
    for name in ["twin", "twin", ODD] {
        let started = place.start(&["run", "-n", name, "sleep", "600"]);
        place.keep(started);
    }
    let names = || {
        place
            .listing()
            .map_or(0, |listing| listing.principals.len())
    };
    wait_for("three programs are known", || (names() == 3).then_some(()));
    place
}

/// Gives a program this text, and waits for its end.
fn fed(command: &mut Command, text: &str) -> Output {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

#[test]
fn the_official_tool_finds_no_fault_with_the_metrics() {
    let place = busy();
    let text = place.text(&["metrics"]);
    for path in ["path=\"twin\"", "path=\"twin#2\"", "a \\\"b\\\" \\\\c/#2 é"] {
        assert!(text.contains(path), "{path}: {text}");
    }
    let Some(promtool) = tool("promtool") else {
        return;
    };
    let check = |text: &str| fed(Command::new(&promtool).args(["check", "metrics"]), text);
    let output = check(&text);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "{text}");
    // Without a broker, too.
    let alone = Place::new().text(&["metrics"]);
    assert!(alone.contains("plimsoll_up 0\n"), "{alone}");
    assert!(check(&alone).status.success(), "{alone}");
}

/// Prometheus's own reader in Python keeps to the letter of OpenMetrics.
#[test]
fn a_strict_reader_of_openmetrics_takes_them() {
    let place = busy();
    let text = place.text(&["metrics", "--openmetrics"]);
    let read = "import sys\nfrom prometheus_client.openmetrics.parser import \
                text_string_to_metric_families as read\n\
                for family in read(sys.stdin.read()): print(family.name, family.type, len(family.samples))";
    let output = fed(&mut plimsoll_testbed::python(&["-c", read]), &text);
    if stderr(&output).contains("No module named") {
        skip("prometheus-client for Python is not there; `tools/setup.sh test` fetches it");
        return;
    }
    let families = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in [
        "plimsoll_build info 1\n",
        "plimsoll_revocations counter 4\n",
        "plimsoll_principal_uses_bytes gauge 3\n",
        "plimsoll_principal_level stateset 9\n",
    ] {
        assert!(families.contains(line), "{line}: {families}");
    }
}

/// A real Prometheus finds the programs, and can answer what each panel of the dashboard asks.
#[test]
fn prometheus_scrapes_the_server_and_answers_the_dashboard() {
    let Some(prometheus) = tool("prometheus") else {
        return;
    };
    let place = busy();
    let (_serving, address) = serving(&place);
    let server = Server::start(&prometheus, &place, address);
    let series = wait_for("Prometheus has the programs", || {
        let series = server.query("plimsoll_principal_uses_bytes");
        (series.len() == 3).then_some(series)
    });
    let mut names: Vec<&str> = series
        .iter()
        .filter_map(|one| one["metric"]["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, [ODD, "twin", "twin"]);
    let all = expressions(&dashboard());
    // Collections are those of runtimes that report them, and these programs have none.
    let expected = all.len() - 2;
    wait_for("the dashboard shows something in each other panel", || {
        let shows = |expression: &&String| !server.query(&of_now(expression)).is_empty();
        (all.iter().filter(shows).count() >= expected).then_some(())
    });
}

/// An expression with values for the dashboard's variables.
fn of_now(expression: &str) -> String {
    let expression = expression.replace("$__rate_interval", "1m");
    let expression = expression.replace("$__range", "1m");
    expression.replace("$instance", ".*")
}

#[test]
fn the_server_stays_while_brokers_come_and_go() {
    let place = Place::new();
    let (_serving, address) = serving(&place);
    let page = || get(address, "/metrics", "").unwrap();
    assert!(page().1.contains("plimsoll_up 0\n"));
    let mut run = place.start(&["run", "-n", "one", "sleep", "600"]);
    let shows = |text: &str| {
        wait_for(text, || page().1.contains(text).then_some(()));
    };
    shows("plimsoll_principal_uses_bytes{path=\"one\"");
    let first = place.listing().unwrap().pid;
    signal_to(first, libc::SIGKILL);
    // `plimsoll run` starts another.
    wait_for("another broker", || {
        place.listing().filter(|listing| listing.pid != first)
    });
    shows("plimsoll_principal_uses_bytes{path=\"one\"");
    assert_eq!(get(address, "/", "").unwrap().0, 404);
    let headers = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    assert!(
        get(address, "/metrics", headers)
            .unwrap()
            .1
            .ends_with("# EOF\n")
    );
    run.signal(libc::SIGTERM);
    run.wait();
}

#[test]
fn a_file_for_node_exporter_is_replaced_as_a_whole() {
    let place = Place::new();
    let file = place.write("plimsoll.prom", "old");
    let path = file.to_str().unwrap();
    assert_eq!(place.text(&["metrics", "--output", path]), "");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# TYPE plimsoll_up gauge\n"), "{text}");
    assert!(!place.path("plimsoll.prom.part").exists());
    let output = place.call(&["metrics", "-o", "/nonexistent/plimsoll.prom"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/nonexistent/plimsoll.prom"),
        "{}",
        stderr(&output)
    );
    for (args, needle) in [
        (&["metrics", "--listen", "0.0.0.0:0"][..], "--anywhere"),
        (&["metrics", "--listen", "nowhere"], "invalid"),
        (&["metrics", "--anywhere"], "--listen"),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains(needle),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// `plimsoll events --json`, and its lines as they come.
fn events(place: &Place) -> (Started, Receiver<Value>) {
    let mut command = place.command(&["events", "--json", "-i", "100"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    (Started(child), receiver)
}

/// The next event of this kind; those before it are passed over, but for these.
fn next(events: &Receiver<Value>, kind: &str, never: &[&str]) -> Value {
    loop {
        let event = events.recv_timeout(Duration::from_secs(60));
        let event = event.unwrap_or_else(|_| panic!("waited in vain for `{kind}`"));
        assert!(
            event["time"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z'))
        );
        let found = event["event"].as_str().unwrap_or_default();
        if found == kind {
            return event;
        }
        assert!(!never.contains(&found), "{event} before `{kind}`");
    }
}

#[test]
fn events_tell_of_programs_debts_and_brokers_in_their_order() {
    let place = Place::new();
    let (_events, events) = events(&place);
    next(&events, "away", &["back", "joined"]);
    let hold =
        "x=$(head -c 30000000 /dev/zero | tr '\\0' x); while :; do echo ${#x}; sleep 0.2; done";
    let mut run = place.start(&["run", "-n", "holder", "--", "sh", "-c", hold]);
    next(&events, "back", &["joined"]);
    let joined = next(&events, "joined", &["left", "away"]);
    assert_eq!(joined["name"], "holder");
    wait_for("it holds its text", || {
        place
            .principal("holder")
            .filter(|holder| holder.uses > 30_000_000)
    });
    place.text(&["set", "holder", "--max", "4M"]);
    next(&events, "limited", &["left", "away"]);
    let owes = next(&events, "owes", &["left", "away", "paid"]);
    assert!(owes["owed"].as_u64() > Some(20_000_000), "{owes}");
    assert_eq!(owes["id"], joined["id"]);
    // It does not listen, so its deadline passes.
    wait_for("the deadline is missed", || {
        let text = place.text(&["metrics"]);
        let counted = |name: &str| text.contains(&format!("\n{name} 0\n"));
        let asked = !counted("plimsoll_revocations_total{rung=\"ask\"}");
        (asked && !counted("plimsoll_deadlines_missed_total")).then_some(())
    });
    place.text(&["set", "holder", "--max", "0"]);
    next(&events, "paid", &["left", "away"]);
    signal_to(place.listing().unwrap().pid, libc::SIGKILL);
    next(&events, "away", &["left", "joined"]);
    next(&events, "back", &["left", "joined"]);
    assert_eq!(next(&events, "joined", &["left"])["name"], "holder");
    run.signal(libc::SIGTERM);
    run.wait();
    assert_eq!(next(&events, "left", &["away"])["name"], "holder");
}

/// Also while nothing happens.
#[test]
fn events_end_when_nobody_reads_them() {
    let place = Place::new();
    for args in [&["events"][..], &["events", "--json"]] {
        let mut command = place.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("away") && line.len() <= 81, "{line}");
        drop(reader);
        let output = wait_for("it ends", || child.try_wait().unwrap());
        assert_eq!(output.code(), Some(0));
    }
}

/// Something that takes longer than a terminal waits for a line: a log gets no line that is written over.
#[test]
fn no_line_is_written_over_where_there_is_no_terminal() {
    let place = Place::new();
    let output = place.call(&["sim", "calibrate", "--repeat", "5", "--live", "8M"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains(['\r', '\x1b']),
        "{}",
        stderr(&output)
    );
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(project("packaging/grafana/plimsoll.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The expressions of all panels.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|p| p["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The fields that Grafana's schema of dashboards demands.
#[test]
fn the_dashboard_has_what_grafana_demands() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36));
    assert!(dashboard["title"].is_string() && dashboard["uid"].is_string());
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = &variables[0];
    assert_eq!(
        (&source["type"], &source["query"]),
        (&"datasource".into(), &"prometheus".into())
    );
    let own = format!("${{{}}}", source["name"].as_str().unwrap());
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = std::collections::HashSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: its id is taken"
        );
        let known = ["timeseries", "stat", "state-timeline"];
        assert!(known.contains(&panel["type"].as_str().unwrap()), "{title}");
        assert_eq!(panel["datasource"]["uid"], *own, "{title}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24 && w > 0 && h > 0, "{title}");
        // No panel lies on another.
        let covers = |other: &Value| {
            let [ox, oy, ow, oh] =
                ["x", "y", "w", "h"].map(|side| other["gridPos"][side].as_u64().unwrap());
            x < ox + ow && ox < x + w && y < oy + oh && oy < y + h
        };
        assert_eq!(
            panels.iter().filter(|other| covers(other)).count(),
            1,
            "{title}"
        );
        let mut letters = std::collections::HashSet::new();
        for target in panel["targets"].as_array().unwrap() {
            assert!(letters.insert(target["refId"].as_str().unwrap()), "{title}");
            assert_eq!(target["datasource"]["uid"], *own, "{title}");
            assert!(
                target["expr"].as_str().unwrap().contains("plimsoll_"),
                "{title}"
            );
        }
        assert!(!letters.is_empty(), "{title} shows nothing");
    }
    assert!(Path::new(&project("docs/src/metrics.md")).is_file());
}
