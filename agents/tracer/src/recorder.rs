//! The events of one thread, in a file of its own.
//!
//! Where another thread has recorded an event since this one did, this one draws a number, which is written
//! as a stamp: it is this thread's turn, until others draw.

use crate::classes::Classes;
use crate::fields;
use plimsoll_trace::merlin::groups::MEMBERS;
use plimsoll_trace::{
    ClassId, Deaths, Event, Header, Named, ObjectId, ThreadId, TraceError, Writer,
};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The thread's clock is read once for this many events.
const CLOCK: u32 = 64;
/// The number of objects that are known to be recorded as in use without another event since.
const RECENT: usize = 64;
/// In sampled recordings a thread looks once for this many allocations whether it is its turn: they are in
/// the order as if they had come together.
const TOGETHER: u32 = 16;
/// A field whose number was not asked for yet.
const UNASKED: u32 = u32::MAX;
/// Bytes that are collected before they are written.
const BUFFER: usize = 64 << 10;
/// The clock of a thread's processor time.
const CPU: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;

/// The order in which events are recorded: in the low bits the thread whose events come now, or [`NOBODY`],
/// and above them the number of its turn.
static ORDER: AtomicU64 = AtomicU64::new(NOBODY);
/// Bits of a thread in [`ORDER`], all of them for none. 2^40 turns are enough for weeks.
const THREAD: u32 = 24;
const NOBODY: u64 = (1 << THREAD) - 1;

/// Draws the number of the current thread's turn. `None` if it is its turn already: no other thread has
/// recorded an event since this one did. A thread that looks before another one draws comes before it, and
/// so it suffices to look. A thread that learns of what another one did, by a lock or by what it wrote, sees
/// what that one saw here.
#[allow(
    deprecated,
    reason = "Rust 1.90 does not know the new name, `try_update`"
)]
fn draw_turn(thread: ThreadId) -> Option<u64> {
    let own = u64::from(thread.0).min(NOBODY);
    let now = ORDER.load(Ordering::Acquire);
    if now & NOBODY == own && own != NOBODY {
        return None;
    }
    let next = |now: u64| Some((((now >> THREAD) + 1) << THREAD) | own);
    let drawn = ORDER.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    drawn.ok().map(|before| (before >> THREAD) + 1)
}

/// The events of one thread.
#[derive(Debug)]
pub struct Recorder {
    thread: ThreadId,
    /// The file, until the thread has ended or it cannot be written any more.
    writer: Option<Writer<BufWriter<File>>>,
    /// Events until the clock is read again.
    until_clock: u32,
    /// The clock when it was read last, nanoseconds.
    clock: u64,
    /// Allocations that come together, 1 in exact recordings; and how many of them are left.
    together: u32,
    left: u32,
    /// Objects that were used since the last event of another kind, with the count of those events then.
    recent: [u64; RECENT],
    /// Events of other kinds than uses.
    others: u32,
    /// Since when the thread sleeps, nanoseconds of the monotonic clock; 0 while it does not.
    sleeping: u64,
    /// The classes that this thread has met.
    pub classes: Classes,
    /// The numbers of fields, by their keys.
    slots: Vec<u32>,
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
            until_clock: CLOCK,
            clock: now(CPU),
            together: match header.deaths {
                Deaths::AtCollections => TOGETHER,
                _ => 1,
            },
            left: 0,
            recent: [0; RECENT],
            others: 1,
            sleeping: 0,
            classes: Classes::new(),
            slots: Vec::new(),
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
    pub fn member(&mut self, class: usize, next: impl FnOnce() -> u64) -> (u64, u64) {
        let met = self.classes.at(class);
        if met.members.is_multiple_of(MEMBERS) {
            (met.group, met.members) = (next(), 0);
        }
        met.members += 1;
        (met.group, met.members - 1)
    }

    /// The number of the field that has a key.
    pub fn slot(&mut self, key: u32) -> u32 {
        let index = key as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, UNASKED);
        }
        if self.slots[index] == UNASKED {
            self.slots[index] = fields::slot(key);
        }
        self.slots[index]
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
        self.others = self.others.wrapping_add(1);
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
        let known = u64::from(self.others) << 32 | u64::from(object);
        if std::mem::replace(place, known) == known {
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
        match event {
            Event::Alloc { .. } if self.left > 0 => self.left -= 1,
            _ => {
                if let Some(order) = draw_turn(self.thread) {
                    writer.push(self.thread, &Event::Stamp { order })?;
                }
                let is_alloc = matches!(event, Event::Alloc { .. });
                self.left = if is_alloc { self.together - 1 } else { 0 };
            }
        }
        self.until_clock -= 1;
        if self.until_clock == 0 {
            self.until_clock = CLOCK;
            let before = std::mem::replace(&mut self.clock, now(CPU));
            let time = self.clock.saturating_sub(before);
            writer.push(self.thread, &Event::Compute { time })?;
        }
        writer.push(self.thread, event)
    }

    /// The thread begins to sleep. Its next event ends that.
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
