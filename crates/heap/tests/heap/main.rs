//! Whole collections.

mod collect;
mod finalizable;
mod kernel;
mod kinds;
mod luck;
mod mapped;
mod nursery;
mod page_out;
mod steps;
mod swap;
mod tables;
mod verify;
mod world;
