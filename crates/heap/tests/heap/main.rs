//! Whole collections.

mod collect;
mod dying;
mod kernel;
mod kinds;
mod luck;
mod mapped;
mod shed;
mod steps;
mod swap;
mod tables;
mod verify;
mod world;
