//! Which collector the machine has, as far as it matters here.

/// The beginnings of the names of threads that collect beside the program: ZGC's, with and without
/// generations, and Shenandoah's.
const BESIDE: [&str; 3] = ["ZDriver", "XDriver", "Shenandoah"];

/// Whether the machine's collector works beside the program. The machine stops it before it tells of its own
/// end, and a collection that is asked for afterwards never comes.
pub fn is_beside() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut names = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| BESIDE.iter().any(|begin| name.starts_with(begin)))
}
