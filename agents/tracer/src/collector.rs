//! Which collector the machine has, as far as it matters here.

use plimsoll_kernel::process::own;

/// The beginnings of the names of threads that collect beside the program: ZGC's, with and without
/// generations, and Shenandoah's.
const BESIDE: [&str; 3] = ["ZDriver", "XDriver", "Shenandoah"];

/// Whether the machine's collector works beside the program. The machine stops it before it reports its own
/// end, and a collection that is asked for afterwards never comes.
pub fn is_beside() -> bool {
    own::thread_names().any(|name| BESIDE.iter().any(|begin| name.starts_with(begin)))
}
