//! The files that a measurement writes: values with units, tables, plots, a page.

mod axis;
pub mod bars;
pub mod breakdown;
pub mod chart;
pub mod curves;
pub mod grouped_bars;
mod names;
pub mod page;
pub mod plot;
pub mod recorded;
pub mod results;
pub mod statistics;
pub mod utilization;
