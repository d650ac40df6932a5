//! The adapter in real processes, from outside.

mod loading;
mod stage;
mod steering;
mod swap;
