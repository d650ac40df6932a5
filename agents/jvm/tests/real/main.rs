//! The agent in real machines: each JDK, each collector, both ways of loading, and whatever can go
//! wrong. They need a JDK with a compiler; what needs rights skips without.

#[path = "../../../../crates/runtimes/tests/support/mod.rs"]
mod support;

mod at_bound;
mod churn;
mod elsewhere;
mod filtered;
mod giving_back;
mod loading;
mod machine;
mod pressure;
mod start_lines;
mod steered;
mod strange;
