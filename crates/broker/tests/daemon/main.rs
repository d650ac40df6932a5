//! The real broker, in a directory and on a socket of its own, with well-behaved and misbehaving clients.

mod bad_input;
mod balance;
mod common;
mod config;
mod files;
mod first_process;
mod ground;
mod groups;
mod guest;
mod hostile;
mod ladder;
mod life;
mod load;
mod mapped_files;
mod pin;
mod publish;
mod rights;
mod service;
mod unit;
mod user_groups;
mod users;
