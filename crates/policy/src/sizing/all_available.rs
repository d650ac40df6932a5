//! A policy that takes all available room: collections cost least in the largest heap.

use super::{Ended, Sizing};
use plimsoll_unit::Bytes;

/// A heap that is as large as its bound.
#[derive(Clone, Debug, Default)]
pub struct All {
    most: Bytes,
}

impl Sizing for All {
    fn bounded(&mut self, most: Bytes) {
        self.most = most;
    }

    fn ended(&mut self, _ended: &Ended) {}

    fn size(&self) -> Bytes {
        self.most
    }
}
