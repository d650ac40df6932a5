//! Real programs of each runtime: what is labelled is what the runtime itself says.

mod cpython;
mod go;
mod libgc;
mod support;
mod swapped;
mod v8;
