//! Whole collections.

mod collect;
mod kernel;
mod swap;
mod world;
