//! What a measurement leaves behind: values with units, a table, a plot, a page.

pub mod chart;
pub mod curves;
pub mod page;
pub mod plot;
pub mod results;
pub mod statistics;
pub mod utilization;
