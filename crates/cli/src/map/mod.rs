//! `plimsoll map`.

pub mod html;
