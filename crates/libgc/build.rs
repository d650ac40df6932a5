//! Gives the shared library the name that programs on libgc are linked with, and keeps it from being
//! unloaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    // The library registers handlers of forks and of ends of threads, which must stay valid even if the
    // library that needed it is unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
