//! How often the kernel made this process wait for memory, as a difference from collection to
//! collection.

use plimsoll_kernel::stalls::{Stalled, Stalls};

/// The stalls of this process. Without any tier that works there are never any.
#[derive(Debug)]
pub(crate) struct Signal {
    stalls: Option<Stalls>,
    last: Stalled,
}

impl Signal {
    /// Opens the best tier. Takes a few dozen microseconds, once.
    pub(crate) fn open() -> Signal {
        let mut stalls = Stalls::own().ok();
        let now = stalls.as_mut().and_then(|stalls| stalls.read().ok());
        Signal {
            stalls,
            last: now.unwrap_or_default(),
        }
    }

    /// The name of the tier in use.
    pub(crate) fn name(&self) -> &'static str {
        self.stalls.as_ref().map_or("none", |s| s.tier().name())
    }

    /// Whether there is a tier that works.
    pub(crate) fn works(&self) -> bool {
        self.stalls.is_some()
    }

    /// Stalls since the last call; none where the counter cannot be read or went backwards. A tier that
    /// only tells time counts as one stall.
    pub(crate) fn since_last(&mut self) -> Stalled {
        let Some(Ok(now)) = self.stalls.as_mut().map(Stalls::read) else {
            return Stalled::default();
        };
        let since = now.since(self.last);
        self.last = now;
        Stalled {
            count: since.count.max(u64::from(since.any())),
            ..since
        }
    }
}
