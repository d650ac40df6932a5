//! The adapter in real processes, tested from outside.

mod loading;
mod stage;
mod steering;
mod swap;
