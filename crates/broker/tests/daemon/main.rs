//! The real broker, in a directory and on a socket of its own, against good and bad clients.

mod bad_input;
mod common;
mod config;
mod files;
mod groups;
mod guest;
mod ladder;
mod life;
mod load;
mod publish;
mod rights;
mod service;
mod user_groups;
mod users;
