//! The measurements: scenarios, the harness that runs them under real memory limits, and reports.

pub mod harness;
pub mod report;
pub mod scenarios;
