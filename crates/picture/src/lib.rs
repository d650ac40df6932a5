//! Pictures as SVG, and pages of HTML that hold them. Pure functions from values to text: no clock, no I/O.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | [`svg`] | writes SVG, and escapes text from outside |
//! | [`scale`] | values to pixels, round numbers along an axis |
//! | [`palette`] | the colours, on a light and on a dark background |
//! | [`shade`] | shades of a colour, by which pictures of memory tell states of pages apart |
//! | [`chart`] | charts of lines and areas over an axis |
//! | `series` | a chart's lines and areas, and the pixels where they are |
//! | `names` | where the names of a chart's series stand |
//! | [`page`] | pages of HTML |
//!
//! # Invariants
//!
//! A picture never has an empty line, because that would end it within Markdown. Text from outside is escaped
//! in [`svg::escape`] alone. Pixels are those of a page that is not zoomed.

#![forbid(unsafe_code)]

pub mod chart;
mod names;
pub mod page;
pub mod palette;
pub mod scale;
mod series;
pub mod shade;
pub mod svg;

pub use scale::{Axis, Scale};
pub use svg::{Align, Rect, Svg};

/// Width of all pictures, pixels.
pub const WIDTH: f64 = 960.0;
