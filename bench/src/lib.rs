//! The measurements: [`scenarios`], the [`harness`] that runs them under real memory limits, and what they
//! leave behind ([`report`]).

pub mod harness;
pub mod report;
pub mod scenarios;
