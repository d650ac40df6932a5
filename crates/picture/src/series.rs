//! The lines and areas of a chart, and the pixels where they are.

use crate::scale::Scale;
use serde::{Deserialize, Serialize};

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A solid line: what was measured.
    #[default]
    Line,
    /// A dashed line: what the others are compared with.
    Dashed,
    /// A dotted line: a second such thing.
    Dotted,
    /// An area that is filled down to the axis.
    Area,
}

/// A line or an area.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The name that is written beside it. Empty: none is written.
    pub name: String,
    /// A smaller text below its name; may be empty.
    pub note: String,
    /// The points: the value on the horizontal axis, then that on the vertical one, in the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// Index of its colour in the palette.
    pub colour: usize,
    /// How it is drawn.
    pub kind: Kind,
}

/// The axes of a chart as pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// Scale of the horizontal axis.
    pub(crate) x: Scale,
    /// Scale of the vertical axis.
    pub(crate) y: Scale,
}

impl Frame {
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }
}
