//! The shared library is found by the name that programs were linked with, and stays once it is loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    // Who brought it may be unloaded; handlers of forks and of ends of threads stay.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
