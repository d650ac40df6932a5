//! The library is never unmapped: a virtual machine closes the library of an agent that declined to
//! start, and threads may still hold pointers into it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
