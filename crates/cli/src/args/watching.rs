//! `plimsoll metrics` and `plimsoll events`: what others watch the broker with.

use super::{At, number};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `plimsoll metrics`.
#[derive(Debug, Args)]
pub struct Metrics {
    /// Serve them at this address, as http://ADDRESS/metrics, until a signal comes
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// With --listen: also at an address that other machines can reach
    #[arg(long, requires = "listen")]
    pub anywhere: bool,
    /// Write them to this file, which is replaced as a whole (`*.prom`, for node_exporter)
    #[arg(short, long, value_name = "FILE", conflicts_with = "listen")]
    pub output: Option<PathBuf>,
    /// Print OpenMetrics 1.0 instead of Prometheus's older text format
    #[arg(long, conflicts_with = "listen")]
    pub openmetrics: bool,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}

/// `plimsoll events`.
#[derive(Debug, Args)]
pub struct Events {
    /// Print JSON, for programs: an object on each line
    #[arg(long)]
    pub json: bool,
    /// Milliseconds between two looks at the broker (100 to 60000)
    #[arg(short, long, value_name = "MS", default_value_t = 500,
        value_parser = number::within::<u64>(100..=60_000))]
    pub interval: u64,
    /// The broker.
    #[command(flatten)]
    pub at: Option<At>,
}
