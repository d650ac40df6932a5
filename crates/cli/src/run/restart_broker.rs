//! Restarts the user's broker if it was killed. Meanwhile programs live on by local sensing, and
//! their members rejoin by themselves.

use crate::own_broker::{self, Place};
use plimsoll_kernel::environment::variable;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tracing::{info, warn};

/// The first and the longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// Inside another run the keeper waits this long, to let the outer one go first. A broker lives in
/// the cgroup of the process that starts it, and limits of the inner run should not bind it.
const COURTESY: Duration = Duration::from_secs(2);

/// Starts the keeper, which ends with us. Does nothing if we may not start a broker there.
pub fn keep(place: &Place) {
    if !place.ours {
        return;
    }
    let place = place.clone();
    let inner = variable("PLIMSOLL_ID").is_some();
    let courtesy = if inner { COURTESY } else { Duration::ZERO };
    let thread = std::thread::Builder::new().name("keeper".into());
    if let Err(error) = thread.spawn(move || watch(&place, courtesy)) {
        warn!("nobody watches the broker, no thread: {error}");
    }
}

fn watch(place: &Place, courtesy: Duration) {
    let mut pause = PAUSES.0;
    loop {
        if let Ok(mut connection) = UnixStream::connect(place.socket.path()) {
            // We ask nothing on this connection, so any event is its end.
            let mut byte = [0];
            while connection.read(&mut byte).is_ok_and(|count| count > 0) {}
            std::thread::sleep(courtesy);
            info!("the broker is gone; starting another");
        }
        match own_broker::ensure(place) {
            Ok(_) => pause = PAUSES.0,
            Err(error) if pause == PAUSES.0 => warn!("no broker any more: {error}"),
            Err(_) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}
