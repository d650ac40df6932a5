//! The files that a measurement writes: values with units, tables, plots, a page.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `results` | `bench/results/NAME.json` and `NAME.md` |
//! | `row` | the rows that are kept in them: raw figures, commit, machine |
//! | `recorded` | pictures that are kept with what they are drawn from |
//! | `page` | a report as one HTML file |
//! | `statistics` | medians and the like |
//! | `plot` | plots over time |
//! | `bars` | one bar for each of several things |
//! | `grouped_bars` | bars in groups side by side |
//! | `stacked_bars` | memory by area and state, as stacked bars |
//! | `curves` | utilization over window sizes |
//! | `utilization` | the part of the time in which a program itself runs |

pub mod bars;
pub mod curves;
pub mod grouped_bars;
pub mod page;
pub mod plot;
pub mod recorded;
pub mod results;
pub mod row;
pub mod stacked_bars;
pub mod statistics;
pub mod utilization;
