//! The parts of a service: signals, the service manager, locked memory, descriptors.

mod limits;
mod manager;
mod signals;

pub use limits::{lock_memory, raise_descriptors};
pub use manager::Manager;
pub use signals::Signals;

/// Logs to standard error, for the service manager or the terminal. `RUST_LOG` selects
/// (`plimsoll_broker=debug`); by default information and worse.
pub fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // The journal adds the time itself.
    let _ = if journal {
        builder.without_time().try_init()
    } else {
        builder.try_init()
    };
}
