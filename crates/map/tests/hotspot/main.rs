//! Real Java virtual machines of each version and collector: what is labelled is what they say of
//! themselves when they are asked (which only a test does).

mod allocation;
mod collectors;
mod elsewhere;
mod jvm;
mod native_memory;
mod said;
mod tables;
