//! The recording of this process: state that all its threads share.

use crate::biased_lock::{Biased, Own};
use crate::function_table::Object;
use crate::jni::Jni;
use crate::jvmti::Jvmti;
use crate::recorder::Recorder;
use crate::sizes;
use plimsoll_trace::merlin::groups;
use plimsoll_trace::{ClassId, Event, Header, MonitorId, ObjectId, ThreadId, TraceError};
use std::cell::Cell;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// How exact deaths are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reference stores and uses are recorded, from which deaths are computed.
    Exact,
    /// Deaths of some objects are recorded where a collection finds them.
    Sampled,
}

/// State of a recording that all threads share. It lives as long as the process.
#[derive(Debug)]
pub struct Session {
    /// The machine's interface.
    pub jvmti: Jvmti,
    /// How exact deaths are to be.
    pub mode: Mode,
    folder: PathBuf,
    header: Header,
    threads: Mutex<Threads>,
    classes: RwLock<HashMap<u32, ClassId>>,
    /// Held while an object gets its hash, so that no two objects get the same one; the last one.
    hashing: Mutex<u32>,
    /// The method `Object.clone`, by its identifier.
    pub clone_method: OnceLock<usize>,
    /// In sampled recordings the number of the next group.
    groups: AtomicU64,
    /// The groups whose first object was found dead, and whether there are any.
    freed: Mutex<Vec<u64>>,
    any_freed: AtomicBool,
    /// Objects whose hash was one that had been given before.
    pub doubles: AtomicU64,
    /// Objects and bytes allocated by threads that have ended.
    allocated: (AtomicU64, AtomicU64),
    /// Why the recording cannot be written any more.
    failed: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Threads {
    next: u32,
    /// The numbers of threads, by the hash of the object `Thread`.
    by_object: HashMap<u32, ThreadId>,
    recorders: Vec<&'static Biased<Recorder>>,
}

/// The class of an object, by its place among those that the thread has met, and the object's bytes.
type Allocated = (usize, u64);

/// The recorder of this thread.
#[derive(Clone, Copy)]
enum Mine {
    /// It has done nothing yet that is recorded.
    Unknown,
    Begun(&'static Biased<Recorder>),
    /// It has ended, or it cannot be recorded.
    Ended,
}

thread_local! {
    static MINE: Cell<Mine> = const { Cell::new(Mine::Unknown) };
    /// Whether this thread may be about to clone an object.
    static CLONES: Cell<bool> = const { Cell::new(false) };
    /// The allocation of this thread for a clone that has no number yet.
    static CLONE: Cell<Option<Allocated>> = const { Cell::new(None) };
    /// The thread whose end this one waits for: the hash of its object, its number, and the timeout,
    /// nanoseconds.
    static JOINS: Cell<Option<(u32, ThreadId, u64)>> = const { Cell::new(None) };
}

/// The name of the stream with the deaths that the last collection finds.
const LAST: &str = "the end of the machine";

static SESSION: OnceLock<Session> = OnceLock::new();
/// Whether events are recorded: after everything is set up, and until the machine ends.
static RECORDING: AtomicBool = AtomicBool::new(false);

/// The session, while it records.
pub fn recording() -> Option<&'static Session> {
    SESSION.get().filter(|_| RECORDING.load(Ordering::Acquire))
}

/// The session, once it exists.
pub fn session() -> Option<&'static Session> {
    SESSION.get()
}

/// Locks, also after a panic of another thread: what is in there stays whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder of the current thread, for use. This thread does not use it yet.
fn own(mine: &Biased<Recorder>) -> Own<'_, Recorder> {
    // SAFETY: a recorder is in `MINE` of one thread alone, and every caller gives it up before it calls
    // anything that asks for it again.
    unsafe { mine.own() }
}

impl Session {
    /// Makes the session of this process. False if there is one.
    pub fn create(jvmti: Jvmti, mode: Mode, folder: PathBuf, header: Header) -> bool {
        let session = Session {
            jvmti,
            mode,
            folder,
            header,
            threads: Mutex::default(),
            classes: RwLock::default(),
            hashing: Mutex::new(0),
            clone_method: OnceLock::new(),
            groups: AtomicU64::new(1),
            freed: Mutex::default(),
            any_freed: AtomicBool::new(false),
            doubles: AtomicU64::new(0),
            allocated: (AtomicU64::new(0), AtomicU64::new(0)),
            failed: OnceLock::new(),
        };
        SESSION.set(session).is_ok()
    }

    /// Begins to record.
    pub fn start(&self) {
        RECORDING.store(true, Ordering::Release);
    }

    /// Ends the recording: what runs on is not recorded any more. Returns objects and bytes allocated.
    pub fn stop(&self) -> (u64, u64) {
        RECORDING.store(false, Ordering::Release);
        for recorder in self.recorders() {
            let mut recorder = recorder.turn();
            self.sum_up(&mut recorder);
            if let Err(error) = recorder.finish(false) {
                self.fail(&error);
            }
        }
        (
            self.allocated.0.load(Ordering::Relaxed),
            self.allocated.1.load(Ordering::Relaxed),
        )
    }

    fn sum_up(&self, recorder: &mut Recorder) {
        let (objects, bytes) = std::mem::take(&mut recorder.allocated);
        self.allocated.0.fetch_add(objects, Ordering::Relaxed);
        self.allocated.1.fetch_add(bytes, Ordering::Relaxed);
    }

    fn recorders(&self) -> Vec<&'static Biased<Recorder>> {
        lock(&self.threads).recorders.clone()
    }

    /// Writes what all threads have collected.
    pub fn sync(&self) {
        for recorder in self.recorders() {
            let synced = recorder.turn().sync();
            if let Err(error) = synced {
                self.fail(&error);
            }
        }
    }

    /// The recording cannot be written. The program goes on; a message is printed once.
    pub fn fail(&self, error: &TraceError) {
        RECORDING.store(false, Ordering::Release);
        if self.failed.set(error.to_string()).is_ok() {
            eprintln!("plimsoll: the program is not recorded any further: {error}");
        }
    }

    /// Why the recording could not be written, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// The number of an object that was just allocated: its identity hash, which it gets here.
    pub fn number(&self, object: Object) -> u32 {
        let mut last = lock(&self.hashing);
        let hash = self.jvmti.hash(object);
        if hash <= *last {
            self.doubles.fetch_add(1, Ordering::Relaxed);
        }
        *last = hash;
        hash
    }

    /// The number of a thread, by the hash of its object; a new one if it has none.
    pub fn thread(&self, object: u32) -> ThreadId {
        let mut threads = lock(&self.threads);
        let threads = &mut *threads;
        *threads.by_object.entry(object).or_insert_with(|| {
            threads.next += 1;
            ThreadId(threads.next - 1)
        })
    }

    /// The number of a thread that has one.
    pub fn known_thread(&self, object: u32) -> Option<ThreadId> {
        lock(&self.threads).by_object.get(&object).copied()
    }

    /// Begins the recording of the current thread, whose object is given. The machine may report the start of
    /// the main thread twice.
    pub fn begin_thread(&self, object: Object) -> Option<&'static Biased<Recorder>> {
        if let Mine::Begun(recorder) = MINE.get() {
            return Some(recorder);
        }
        let thread = self.thread(self.jvmti.hash(object));
        self.begin_stream(thread, &self.jvmti.thread(object).name)
    }

    fn begin_stream(&self, thread: ThreadId, name: &str) -> Option<&'static Biased<Recorder>> {
        match Recorder::create(&self.folder, &self.header, thread, name) {
            Ok(recorder) => {
                let recorder: &'static Biased<Recorder> =
                    Box::leak(Box::new(Biased::new(recorder)));
                lock(&self.threads).recorders.push(recorder);
                MINE.set(Mine::Begun(recorder));
                Some(recorder)
            }
            Err(error) => {
                MINE.set(Mine::Ended);
                self.fail(&error);
                None
            }
        }
    }

    /// Ends the recording of the current thread.
    pub fn end_thread(&self) {
        if let Mine::Begun(recorder) = MINE.replace(Mine::Ended) {
            {
                let mut recorder = own(recorder);
                self.sum_up(&mut recorder);
                if let Err(error) = recorder.finish(true) {
                    self.fail(&error);
                }
            }
            lock(&self.threads)
                .recorders
                .retain(|it| !std::ptr::eq(*it, recorder));
        }
    }

    /// The recorder of the current thread.
    pub fn mine(&self) -> Option<&'static Biased<Recorder>> {
        match MINE.get() {
            Mine::Begun(recorder) => Some(recorder),
            Mine::Ended => None,
            Mine::Unknown => self
                .jvmti
                .current_thread()
                .and_then(|thread| self.begin_thread(thread)),
        }
    }

    /// Appends an event to the stream of the current thread.
    pub fn push(&self, event: &Event) {
        self.record(|recorder| recorder.push(event));
    }

    /// Does something with the recorder of the current thread.
    pub fn record(&self, work: impl FnOnce(&mut Recorder) -> Result<(), TraceError>) {
        if let Some(mine) = self.mine()
            && let Err(error) = work(&mut own(mine))
        {
            self.fail(&error);
        }
    }

    /// The current thread has allocated an object of `told` bytes, as the virtual machine counts.
    pub fn allocated(&self, jni: Jni, object: Object, class: Object, told: i64) {
        let Some(mine) = self.mine() else {
            return;
        };
        let mut recorder = own(mine);
        let place = match recorder.classes.find(class) {
            Some(place) => place,
            None => {
                drop(recorder);
                let Some(place) = self.add_class(mine, jni, class) else {
                    return;
                };
                recorder = own(mine);
                place
            }
        };
        let is_wide = recorder.classes.at(place).is_wide;
        let size = match sizes::believed(told, is_wide) {
            Some(size) => size,
            None => {
                drop(recorder);
                let size = self.jvmti.size(object);
                recorder = own(mine);
                size
            }
        };
        if self.mode == Mode::Sampled {
            return self.allocated_in_group(recorder, object, place, size);
        }
        drop(recorder);
        // The machine gives a clone the head of a new object when it has copied the rest, and a number that
        // it had would be lost.
        if CLONES.get() && self.jvmti.method() == self.clone_method.get().copied() {
            CLONE.set(Some((place, size)));
            return;
        }
        self.born(object, (place, size));
    }

    /// The current thread has allocated an object, which dies with others of its group.
    fn allocated_in_group(
        &self,
        mut recorder: Own<'_, Recorder>,
        object: Object,
        place: usize,
        size: u64,
    ) {
        let (group, member) =
            recorder.member(place, || self.groups.fetch_add(1, Ordering::Relaxed));
        let class = recorder.classes.at(place).class;
        recorder.allocated.0 += 1;
        recorder.allocated.1 += size;
        let pushed = recorder.push(&Event::Alloc {
            object: groups::member(group, member),
            size,
            class: Some(class),
            site: None,
        });
        drop(recorder);
        if let Err(error) = pushed {
            self.fail(&error);
        }
        // Asking the machine may wait for it, so that is not done under the lock.
        if member == 0 {
            self.jvmti.tag(object, group as i64);
        }
        if self.any_freed.load(Ordering::Acquire) {
            self.bury();
        }
    }

    /// A collection has found that the first object of a group is dead. A thread of the machine reports this;
    /// it
    /// has no stream.
    pub fn freed(&self, group: u64) {
        lock(&self.freed).push(group);
        self.any_freed.store(true, Ordering::Release);
    }

    /// Puts the deaths that collections have found into the stream of the current thread.
    pub fn bury(&self) {
        self.any_freed.store(false, Ordering::Release);
        let freed = std::mem::take(&mut *lock(&self.freed));
        for group in freed {
            self.push(&Event::Death {
                object: groups::member(group, 0),
            });
        }
    }

    /// As [`Session::bury`], when the machine ends. The thread that ends it has reported its own end before,
    /// so what the last collection has found gets a stream of its own.
    pub fn bury_last(&self) {
        if matches!(MINE.get(), Mine::Ended) && self.any_freed.load(Ordering::Acquire) {
            let mut threads = lock(&self.threads);
            let thread = ThreadId(threads.next);
            threads.next += 1;
            drop(threads);
            self.begin_stream(thread, LAST);
        }
        self.bury();
    }

    /// The current thread may be about to clone an object.
    pub fn clones(&self) {
        CLONES.set(true);
        CLONE.set(None);
    }

    /// The current thread has cloned an object, if it was about to.
    pub fn cloned(&self, clone: Object) {
        CLONES.set(false);
        if let Some(allocated) = CLONE.take() {
            self.born(clone, allocated);
        }
    }

    /// An object gets its number.
    fn born(&self, object: Object, (place, size): Allocated) {
        let number = self.number(object);
        if number == 0 {
            return;
        }
        self.record(|recorder| {
            recorder.allocated.0 += 1;
            recorder.allocated.1 += size;
            let object = ObjectId(number.into());
            let class = recorder.classes.at(place).class;
            recorder.push(&Event::Alloc {
                object,
                size,
                class: Some(class),
                site: None,
            })
        });
    }

    /// The current thread meets a class that it does not know at its address. It gets a name where it is met
    /// first. Calls into the virtual machine may wait for it, so they are not made under the lock.
    #[cold]
    fn add_class(&self, mine: &'static Biased<Recorder>, jni: Jni, class: Object) -> Option<usize> {
        let hash = self.jvmti.hash(class);
        if let Some(place) = own(mine).classes.find_by_hash(hash, class) {
            return Some(place);
        }
        let kept = jni.weak(class)?;
        let name = self.jvmti.signature(class);
        let is_wide = name.as_deref().is_some_and(sizes::is_wide);
        let number = self.class(hash);
        let mut recorder = own(mine);
        let place = recorder.classes.add(hash, number, is_wide, kept);
        let named = name.map_or(Ok(()), |name| recorder.name(number, &readable(&name)));
        drop(recorder);
        if let Err(error) = named {
            self.fail(&error);
        }
        Some(place)
    }

    /// The current thread waits in a monitor. In that of another thread it waits for the thread's end: the
    /// machine notifies it then, and no stream does.
    pub fn waits(&self, object: Object, timeout: u64) {
        let hash = self.jvmti.hash(object);
        let me = self.mine().map(|mine| own(mine).thread());
        match self.known_thread(hash).filter(|thread| Some(*thread) != me) {
            Some(thread) => JOINS.set(Some((hash, thread, timeout))),
            None => self.push(&Event::Wait {
                monitor: monitor(hash),
                timeout,
            }),
        }
    }

    /// The current thread has waited.
    pub fn waited(&self, timed_out: bool) {
        let Some((hash, thread, timeout)) = JOINS.take() else {
            return;
        };
        let monitor = monitor(hash);
        if timed_out {
            return self.push(&Event::Wait { monitor, timeout });
        }
        // A thread that joins waits with the other's monitor, and gives it up meanwhile.
        self.push(&Event::Exit { monitor });
        self.push(&Event::Join { thread });
        self.push(&Event::Enter { monitor });
    }

    /// The number of a class, by the hash of its object.
    pub fn class(&self, object: u32) -> ClassId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let read = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(class) = read.get(&object) {
            return *class;
        }
        drop(read);
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        *classes.entry(object).or_insert_with(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            ClassId(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
        })
    }
}

/// The number of a monitor, by the hash of its object: that of the object where objects have their hashes for
/// numbers.
pub fn monitor(object: u32) -> MonitorId {
    let sampled = session().is_some_and(|session| session.mode == Mode::Sampled);
    MonitorId(u64::from(object) | if sampled { groups::MONITORS } else { 0 })
}

/// A class's name as people write it, from its signature.
fn readable(signature: &str) -> String {
    let element = signature.trim_start_matches('[');
    let dimensions = signature.len() - element.len();
    let name = match element {
        "Z" => "boolean".into(),
        "B" => "byte".into(),
        "C" => "char".into(),
        "S" => "short".into(),
        "I" => "int".into(),
        "J" => "long".into(),
        "F" => "float".into(),
        "D" => "double".into(),
        _ => element
            .trim_start_matches('L')
            .trim_end_matches(';')
            .replace('/', "."),
    };
    name + &"[]".repeat(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_those_of_the_language() {
        assert_eq!(readable("Ljava/util/Map$Entry;"), "java.util.Map$Entry");
        assert_eq!(readable("[[I"), "int[][]");
        assert_eq!(readable("[Lq/A;"), "q.A[]");
    }
}
