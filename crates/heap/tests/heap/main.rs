//! Whole collections.

mod collect;
mod kernel;
mod luck;
mod swap;
mod world;
