//! All that a binding of MMTk 0.33 adds, for any virtual machine; the steps are those of
//! `docs/src/mmtk.md`. Run by itself, it opens the sizer and says what it found:
//! `cargo run -p plimsoll-mmtk --example adopt`.

use mmtk::util::VMMutatorThread;
use mmtk::util::heap::GCTriggerPolicy;
use mmtk::util::options::GCTriggerSelector;
use mmtk::vm::VMBinding;
use mmtk::{MMTK, MMTKBuilder, memory_manager};
use plimsoll_mmtk::{Builder, Bytes, Control, GiveBack, Sizer, Trigger, sizing};
use std::sync::{Mutex, OnceLock};

/// MMTk asks for the trigger by a function without arguments, so the sizer waits here.
static SIZER: Mutex<Option<Sizer<sizing::Mmtk>>> = Mutex::new(None);
/// For the rest of the runtime.
static CONTROL: OnceLock<Control> = OnceLock::new();

/// Step 2: before the heap is built, where an error can still be told to the user. `max` is the
/// runtime's own option; without it the memory of the machine or of the process's group is the
/// maximum.
pub fn open(max: Option<Bytes>) -> plimsoll_mmtk::Result<&'static Control> {
    let mut builder = Builder::new().give_back(GiveBack::WhenShort);
    if let Some(max) = max {
        builder = builder.max(max);
    }
    let sizer = builder.open()?;
    let control = CONTROL.get_or_init(|| sizer.control());
    *SIZER.lock().unwrap_or_else(|e| e.into_inner()) = Some(sizer);
    Ok(control)
}

/// Step 3: where the options are set.
pub fn choose(builder: &mut MMTKBuilder) {
    builder.options.gc_trigger.set(GCTriggerSelector::Delegated);
}

/// Step 4: what `create_gc_trigger` in `impl Collection<MyVm> for …` returns.
///
/// # Panics
/// If `open` was not called: there is no way to tell MMTk.
pub fn create_gc_trigger<MyVm: VMBinding>() -> Box<dyn GCTriggerPolicy<MyVm>> {
    let sizer = SIZER.lock().unwrap_or_else(|e| e.into_inner()).take();
    Box::new(Trigger::new(sizer.expect("open is called first")))
}

/// Step 5: right after `memory_manager::initialize_collection`. Until then no broker's limit counts, because
/// MMTk panics if a collection is asked for before.
pub fn ready() {
    if let Some(control) = CONTROL.get() {
        control.ready();
    }
}

/// Step 6: in the idle loop, if the runtime has one, from time to time, by a mutator. Without one, an
/// idle program keeps what it has, because nothing polls.
pub fn idle<MyVm: VMBinding>(mmtk: &'static MMTK<MyVm>, thread: VMMutatorThread) {
    memory_manager::gc_poll(mmtk, thread);
}

fn main() {
    match open(None) {
        Ok(control) => println!(
            "a heap of at most {} MiB; stalls are known by {}",
            control.max().0 >> 20,
            control.tier()
        ),
        Err(error) => eprintln!("{error}"),
    }
}
