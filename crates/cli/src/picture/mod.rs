//! Drawing, for pages of HTML.
//!
//! | module | is |
//! |---|---|
//! | `svg` | writes SVG, escapes what comes from outside |
//! | `scale` | round numbers along an axis, sizes as people read them |
//! | `page` | the page around the pictures |

pub(crate) mod page;
pub(crate) mod scale;
pub(crate) mod svg;
