//! `plimsoll metrics`: the broker's numbers in the text formats of Prometheus, printed once or served.
//!
//! | module | is |
//! |---|---|
//! | `exposition` | the formats |
//! | `families` | the metrics, and how they follow from a listing |
//! | `paths` | a label that tells principals apart |
//! | `http` | the server |

mod exposition;
mod families;
mod http;
mod paths;

use crate::args;
use crate::broker_connection::told;
use crate::error::CliError;
use crate::output::{put, say};
use crate::own_broker::Place;
use exposition::Format;
use paths::Paths;
use plimsoll_client::Connection;
use plimsoll_wire::messages::Listing;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A broker that takes longer to answer counts as away. Prometheus waits for ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// A page that is not older is served again, so that many clients ask the broker no more often than one.
const FRESH: Duration = Duration::from_millis(500);

/// Where the broker is at this moment: it may come to another place than it was at before.
type Find<'f> = dyn Fn() -> Place + Sync + 'f;

/// Prints the numbers, or serves them for ever.
///
/// # Errors
/// When the file cannot be written, or the address cannot be listened at. A broker that does not answer is
/// no error: the numbers say so.
pub fn run(find: &Find<'_>, args: &args::Metrics) -> Result<u8, CliError> {
    let source = Source::new(find);
    if let Some(address) = args.listen {
        return serve(&source, address, args.anywhere);
    }
    let format = if args.openmetrics {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    };
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    put(path, &source.page(format)).map(|()| 0)
}

fn serve(source: &Source<'_>, address: SocketAddr, anywhere: bool) -> Result<u8, CliError> {
    if !address.ip().is_loopback() {
        if !anywhere {
            return Err(CliError::Usage(format!(
                "{address} can be reached from other machines, and whoever reaches it reads the names and \
                 sizes of all programs: give an address such as 127.0.0.1:9757, or add --anywhere"
            )));
        }
        say(format_args!(
            "warning: whoever reaches {address} can read the names and sizes of all programs"
        ));
    }
    let listening = TcpListener::bind(address).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    let (listener, address) = listening.map_err(CliError::path(address.to_string()))?;
    say(format_args!("serving http://{address}/metrics"));
    http::serve(&listener, &|format| source.page(format));
    Ok(0)
}

/// Asks the broker, at most twice a second.
struct Source<'f> {
    find: &'f Find<'f>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    asked_at: Option<Instant>,
    listing: Option<Listing>,
    /// Whether it was told that no broker answers.
    told_away: bool,
    paths: Paths,
    /// The page in each format that was asked for.
    pages: Vec<(Format, Arc<str>)>,
}

impl<'f> Source<'f> {
    fn new(find: &'f Find<'f>) -> Source<'f> {
        Source {
            find,
            state: Mutex::default(),
        }
    }

    /// The page, which is never older than [`FRESH`].
    fn page(&self, format: Format) -> Arc<str> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asked_at.is_none_or(|at| at.elapsed() > FRESH) {
            state.ask(self.find);
        }
        let made = state.pages.iter().find(|(of, _)| *of == format);
        if let Some((_, page)) = made {
            return Arc::clone(page);
        }
        let State { listing, paths, .. } = &mut *state;
        let page: Arc<str> = families::write(listing.as_ref(), paths, format).into();
        state.pages.push((format, Arc::clone(&page)));
        page
    }
}

impl State {
    fn ask(&mut self, find: &Find<'_>) {
        let listed = self.list(find);
        self.pages.clear();
        self.asked_at = Some(Instant::now());
        match &listed {
            Ok(_) if self.told_away => say(format_args!("the broker is back")),
            Err(error) if !self.told_away => say(format_args!("{error}")),
            _ => {}
        }
        self.told_away = listed.is_err();
        self.listing = listed.ok();
    }

    /// Asks over the connection of the last time, or else over a new one: the broker may have been restarted.
    fn list(&mut self, find: &Find<'_>) -> Result<Listing, CliError> {
        if let Some(connection) = &mut self.connection
            && let Ok(listing) = connection.list()
        {
            return Ok(listing);
        }
        self.connection = None;
        let socket = find().socket;
        let opened = Connection::open(&socket, PATIENCE);
        let mut connection = opened.map_err(|error| told(error, &socket))?;
        let listing = connection.list().map_err(|error| told(error, &socket))?;
        self.connection = Some(connection);
        Ok(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_client::Socket;

    fn nowhere() -> Place {
        Place {
            socket: Socket::at("/nonexistent/broker.sock"),
            ours: false,
        }
    }

    #[test]
    fn without_a_broker_there_is_a_page_too_and_it_is_kept_for_a_moment() {
        let source = Source::new(&nowhere);
        let page = source.page(Format::OpenMetrics);
        assert!(
            page.contains("plimsoll_up 0\n") && page.ends_with("# EOF\n"),
            "{page}"
        );
        assert!(Arc::ptr_eq(&page, &source.page(Format::OpenMetrics)));
        assert!(!source.page(Format::Prometheus).contains("EOF"));
    }

    #[test]
    fn an_address_for_everybody_is_refused_unless_it_is_wanted() {
        let source = Source::new(&nowhere);
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
            let refused = serve(&source, address.parse().unwrap(), false).unwrap_err();
            assert!(refused.to_string().contains("--anywhere"), "{refused}");
            assert_eq!(refused.status(), crate::error::USAGE);
        }
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let names: Vec<String> = families::all().iter().map(|f| f.sample_name()).collect();
        let (page, dashboard) = (
            read("docs/src/metrics.md"),
            read("packaging/grafana/plimsoll.json"),
        );
        for name in &names {
            assert!(
                page.contains(&format!("`{name}`")),
                "docs/src/metrics.md: {name}"
            );
        }
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        for word in dashboard
            .split(word)
            .filter(|word| word.starts_with("plimsoll_"))
        {
            assert!(
                names.iter().any(|name| name == word),
                "the dashboard asks for {word}"
            );
        }
    }

    fn read(path: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join(path)).unwrap()
    }
}
