//! The recorder for tests: it does what the installed one does, and when the machine ends it also writes
//! down which objects are alive. It is a crate of its own, not a feature: with a feature, cargo would
//! rebuild the real library under the same name, and `make install` could install that one.
//!
//! `PLIMSOLL_TRACE_ALIVE=FILE` says where the numbers of these objects go, a line each.

use plimsoll_tracer::entry::AT_END;
use plimsoll_tracer::session::Session;

/// The path of the file.
const ALIVE: &str = "PLIMSOLL_TRACE_ALIVE";
/// The tag of objects that the last collection has left.
const LEFT: i64 = 1;

/// The loader calls this before the machine calls the recorder.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // It is called once, and nothing else sets it.
    let _ = AT_END.set(write_alive);
}

fn write_alive(session: &Session) {
    let Some(path) = std::env::var_os(ALIVE) else {
        return;
    };
    let lines: String = survivors(session)
        .iter()
        .map(|number| format!("{number}\n"))
        .collect();
    // A test that misses the file fails.
    let _ = std::fs::write(path, lines);
}

/// The numbers of all objects that a collection leaves.
fn survivors(session: &Session) -> Vec<u32> {
    let jvmti = session.jvmti;
    jvmti.collect();
    jvmti.tag_all(LEFT);
    jvmti
        .tagged(LEFT)
        .into_iter()
        .map(|object| jvmti.hash(object))
        .collect()
}
