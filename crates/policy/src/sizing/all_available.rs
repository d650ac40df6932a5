//! A policy that takes all available room: collections cost least in the largest heap.

use super::{Ended, Sizing};

/// A heap that is as large as its bound.
#[derive(Clone, Debug, Default)]
pub struct All {
    most: u64,
}

impl Sizing for All {
    fn bounded(&mut self, most: u64) {
        self.most = most;
    }

    fn ended(&mut self, _ended: &Ended) {}

    fn size(&self) -> u64 {
        self.most
    }
}
