//! `plimsoll events`: follows the broker and tells what happens to principals, a line for each event.
//!
//! | module | is |
//! |---|---|
//! | `changes` | the differences between two listings |
//! | `line` | an event as a line |

mod changes;
mod line;

use crate::args;
use crate::error::CliError;
use crate::output::printed;
use crate::own_broker::Place;
use changes::Changes;
use line::{News, line, now};
use plimsoll_client::{Connection, Stream};
use plimsoll_wire::messages::Listing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// A broker that takes longer to answer, beyond the interval, counts as away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to find a broker.
const REST: Duration = Duration::from_millis(500);
/// Shortest time between two looks whether somebody still reads.
const LOOK: Duration = Duration::from_millis(200);

/// Tells what happens until the reader goes.
///
/// # Errors
/// When standard output cannot be written, other than because its reader went.
pub fn run(find: &dyn Fn() -> Place, args: &args::Events) -> Result<u8, CliError> {
    let mut teller = Teller {
        as_json: args.json,
        changes: Changes::default(),
        broker: None,
        is_away: false,
    };
    printed(teller.follow(find, args.interval))
}

/// Tells news, and knows what was told.
struct Teller {
    as_json: bool,
    changes: Changes,
    /// Process of the broker whose listings were told.
    broker: Option<u32>,
    /// Whether it was told that no broker is there.
    is_away: bool,
}

impl Teller {
    /// Ends only by an error of standard output.
    fn follow(&mut self, find: &dyn Fn() -> Place, interval: u64) -> io::Result<()> {
        loop {
            let socket = find().socket;
            let opened = Connection::open(&socket, PATIENCE);
            let watched = opened.and_then(|connection| connection.watch(interval));
            match watched {
                Ok(stream) => self.tell_all(stream, Duration::from_millis(interval) + PATIENCE)?,
                Err(_) => self.tell_away()?,
            }
            is_read(REST)?;
        }
    }

    /// Tells of one connection, until it breaks.
    fn tell_all(&mut self, mut stream: Stream<Listing>, longest: Duration) -> io::Result<()> {
        let mut heard = Instant::now();
        while heard.elapsed() < longest {
            match stream.next(LOOK) {
                Ok(Some(listing)) => {
                    heard = Instant::now();
                    self.tell(&listing)?;
                }
                Ok(None) => {}
                Err(_) => return Ok(()),
            }
            is_read(Duration::ZERO)?;
        }
        Ok(())
    }

    fn tell(&mut self, listing: &Listing) -> io::Result<()> {
        let is_other = self.broker.is_some_and(|broker| broker != listing.pid);
        if is_other {
            self.tell_away()?;
            self.changes.forget();
        }
        if self.is_away {
            self.is_away = false;
            self.say(&News::Broker { event: "back" })?;
        }
        self.broker = Some(listing.pid);
        for event in self.changes.look(listing) {
            self.say(&News::Event(&event))?;
        }
        Ok(())
    }

    /// Tells it once. A connection that breaks alone is no news: the broker may have found us too slow.
    fn tell_away(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_away, true) {
            return Ok(());
        }
        self.say(&News::Broker { event: "away" })
    }

    fn say(&self, news: &News<'_>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(line(&now(), news, self.as_json).as_bytes())?;
        out.flush()
    }
}

/// Waits, and fails as a write would once nobody reads standard output: without that, we would stay until the
/// next event.
fn is_read(wait: Duration) -> io::Result<()> {
    let wait = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    };
    let out = io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut fds, Some(&wait)) {
        Ok(_) if fds[0].revents().contains(PollFlags::ERR) => Err(io::ErrorKind::BrokenPipe.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
