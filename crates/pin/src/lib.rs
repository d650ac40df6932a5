//! Which file pages are worth keeping in memory, and keeping them.
