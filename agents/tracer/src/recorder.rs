//! What one thread records, into a file of its own.
//!
//! All threads draw the numbers of their events' order from one counter. A stamp is written where another
//! thread drew a number in between.

use crate::fields;
use plimsoll_trace::merlin::groups::MEMBERS;
use plimsoll_trace::{ClassId, Event, Header, Named, ObjectId, ThreadId, TraceError, Writer};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The thread's clock is read once for so many events.
const CLOCK: u32 = 64;
/// Objects of which is known that they were recorded as in use and that nothing happened since.
const RECENT: usize = 64;
/// Bytes that are collected before they are written.
const BUFFER: usize = 64 << 10;
/// The clock of a thread's processor time.
const CPU: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;

/// The order in which events are recorded. 0 is before all.
static ORDER: AtomicU64 = AtomicU64::new(1);

/// The events of one thread.
#[derive(Debug)]
pub struct Recorder {
    thread: ThreadId,
    /// The file, until the thread has ended or it cannot be written any more.
    writer: Option<Writer<BufWriter<File>>>,
    /// The number of the event before.
    order: u64,
    /// Events until the clock is read again.
    until_clock: u32,
    /// The clock when it was read last, nanoseconds.
    clock: u64,
    /// What was used since the last event of another kind.
    recent: [u32; RECENT],
    /// Since when the thread sleeps, nanoseconds of the monotonic clock; 0 while it does not.
    sleeping: u64,
    /// The classes that this thread has met, by the hash of the class.
    pub classes: HashMap<u32, ClassId>,
    /// The numbers of fields, by their keys.
    slots: HashMap<u32, u32>,
    /// The group that is being filled of each class, and its members so far.
    groups: HashMap<ClassId, (u64, u64)>,
    /// Objects and bytes allocated.
    pub allocated: (u64, u64),
}

impl Recorder {
    /// Begins a file in a folder.
    ///
    /// # Errors
    /// [`TraceError::Io`] if it cannot be made.
    pub fn create(
        folder: &Path,
        header: &Header,
        thread: ThreadId,
        name: &str,
    ) -> Result<Recorder, TraceError> {
        let mut recorder = Recorder {
            thread,
            writer: None,
            order: 0,
            until_clock: CLOCK,
            clock: now(CPU),
            recent: [0; RECENT],
            sleeping: 0,
            classes: HashMap::new(),
            slots: HashMap::new(),
            groups: HashMap::new(),
            allocated: (0, 0),
        };
        let path = file(folder, thread);
        let shown = path.display().to_string();
        let io = |source| TraceError::Io {
            trace: shown.as_str().into(),
            source,
        };
        let out = BufWriter::with_capacity(BUFFER, File::create(&path).map_err(io)?);
        let mut writer = Writer::new(out, &shown, header)?;
        writer.level(1)?;
        writer.name(Named::Thread, thread.0.into(), name)?;
        recorder.writer = Some(writer);
        Ok(recorder)
    }

    /// The thread.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The group of the next object of a class, and its place there. `next` numbers a new group.
    pub fn member(&mut self, class: ClassId, next: impl FnOnce() -> u64) -> (u64, u64) {
        let (group, members) = self.groups.entry(class).or_insert((0, MEMBERS));
        if *members == MEMBERS {
            (*group, *members) = (next(), 0);
        }
        *members += 1;
        (*group, *members - 1)
    }

    /// The number of the field that has a key.
    pub fn slot(&mut self, key: u32) -> u32 {
        *self.slots.entry(key).or_insert_with(|| fields::slot(key))
    }

    /// Gives a class a name, where one of its objects is met first.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn name(&mut self, class: ClassId, name: &str) -> Result<(), TraceError> {
        match &mut self.writer {
            Some(writer) => writer.name(Named::Class, class.0.get().into(), name),
            None => Ok(()),
        }
    }

    /// Appends an event. After an error nothing more is recorded of this thread.
    ///
    /// # Errors
    /// [`TraceError::Io`], such as of a full disk.
    pub fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        self.recent = [0; RECENT];
        let pushed = self.try_push(event);
        if pushed.is_err() {
            self.writer = None;
        }
        pushed
    }

    /// Appends that the thread has a reference to an object, unless that is known already.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn used(&mut self, object: u32) -> Result<(), TraceError> {
        let place = &mut self.recent[object as usize % RECENT];
        if std::mem::replace(place, object) == object {
            return Ok(());
        }
        let object = ObjectId(object.into());
        let pushed = self.try_push(&Event::Use { object });
        if pushed.is_err() {
            self.writer = None;
        }
        pushed
    }

    fn try_push(&mut self, event: &Event) -> Result<(), TraceError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        if self.sleeping > 0 {
            let time = now(libc::CLOCK_MONOTONIC).saturating_sub(self.sleeping);
            self.sleeping = 0;
            writer.push(self.thread, &Event::Sleep { time })?;
        }
        let order = ORDER.fetch_add(1, Ordering::Relaxed);
        if order != self.order + 1 {
            writer.push(self.thread, &Event::Stamp { order })?;
        }
        self.order = order;
        self.until_clock -= 1;
        if self.until_clock == 0 {
            self.until_clock = CLOCK;
            let before = std::mem::replace(&mut self.clock, now(CPU));
            let time = self.clock.saturating_sub(before);
            writer.push(self.thread, &Event::Compute { time })?;
        }
        writer.push(self.thread, event)
    }

    /// The thread begins to sleep. What it does next ends that.
    pub fn sleeps(&mut self) {
        self.sleeping = now(libc::CLOCK_MONOTONIC);
    }

    /// Writes what is collected, so that it stays even if the machine is killed.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn sync(&mut self) -> Result<(), TraceError> {
        match &mut self.writer {
            Some(writer) => writer.sync(),
            None => Ok(()),
        }
    }

    /// The thread ends, or the machine does while the thread runs.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn finish(&mut self, ends: bool) -> Result<(), TraceError> {
        if ends {
            self.until_clock = 1;
            self.push(&Event::End)?;
        }
        match self.writer.take() {
            Some(writer) => writer.finish().map(drop),
            None => Ok(()),
        }
    }
}

/// The file of a thread.
pub fn file(folder: &Path, thread: ThreadId) -> PathBuf {
    folder.join(format!("thread-{thread}.trace"))
}

/// A clock's time, nanoseconds.
fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}
