//! Programs that are made up: the five of Table 1 (Xian, Srisa-an and Jiang), with the statistics that the
//! table gives and threads that allocate and compute in turns.
//!
//! One thread, the main one, loads data that stay (`base`) and starts the others. Each of these repeats a
//! cycle: it allocates a working set, then it computes, and meanwhile the objects of its working set die.
//! Some objects do not die then but go to a store that all threads share, whose oldest objects die when the
//! program would otherwise have more live bytes than the table says. Now and then a thread enters a monitor
//! that is shared, too.
//!
//! The recorded order is that of a round robin with the quantum of the paper on one processor. The same seed
//! gives the same bytes, on any machine.
//!
//! | module | is |
//! |---|---|
//! | [`table`] | the programs and what is known of them |
//! | `random` | numbers from a seed |
//! | `store` | live objects: the shared store and the sum of live bytes |
//! | `worker` | the cycles of a thread |

mod random;
mod store;
pub mod table;
mod worker;

pub use table::Program;

use crate::error::TraceError;
use crate::event::{Event, ObjectId, ThreadId, TimeUnit};
use crate::header::{Deaths, Header};
use crate::names::Named;
use crate::writer::Writer;
use random::Random;
use std::collections::VecDeque;
use std::io::Write;
use store::Store;
use worker::{Budget, Worker};

/// The quantum of the recorded order, ns: "the average quantum length" of the paper's platform.
const QUANTUM: u64 = 1_140_000;
/// The main thread.
const MAIN: ThreadId = ThreadId(0);
/// Objects that the main thread allocates between two of its computations.
const LOADED_AT_ONCE: u64 = 64;

/// How large a made-up trace is, and which one.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Objects, bytes, live bytes and time are divided by this. Threads are not.
    pub scale: f64,
    /// Objects, bytes and time of all but the base are divided by this: a shorter run of the same program.
    pub shorten: f64,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            scale: 1.0,
            shorten: 1.0,
            seed: 1,
        }
    }
}

/// The aims of a made-up trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aims {
    /// Objects.
    pub objects: u64,
    /// Bytes that are allocated.
    pub bytes: u64,
    /// The most bytes of objects that live at one time in the recorded order.
    pub largest_live: u64,
    /// Threads, the main one among them.
    pub threads: u32,
    /// Processor time of all threads, ns.
    pub time: u64,
    /// Bytes that the main thread loads and that stay.
    pub base: u64,
    /// Bytes of a working set.
    pub working_set: u64,
}

impl Aims {
    /// The aims of a program.
    pub fn of(program: &Program, options: &Options) -> Aims {
        let scale = options.scale.max(1.0);
        let scaled = |value: u64| (value as f64 / scale) as u64;
        let (objects, bytes) = (scaled(program.objects), scaled(program.bytes));
        let live = scaled(program.largest_live);
        let base = (live as f64 * program.base) as u64;
        let base_objects = (base as f64 * objects as f64 / bytes as f64) as u64;
        // The store has to be full once, or the largest live size is not reached.
        let most = (bytes - base) as f64 / (6 * (live - base)).max(1) as f64;
        let shorten = options.shorten.clamp(1.0, most.max(1.0));
        let shortened = |value: u64, base: u64| base + ((value - base) as f64 / shorten) as u64;
        let threads = u64::from(program.threads);
        let transient = (live - base) / (2 * threads);
        Aims {
            objects: shortened(objects, base_objects),
            bytes: shortened(bytes, base),
            largest_live: live,
            threads: program.threads,
            time: shortened(scaled(program.time), 0),
            base,
            working_set: table::WORKING_SET.min(transient).max(64),
        }
    }
}

/// Writes the trace of a made-up program; `name` is what errors call it.
///
/// # Errors
/// Those of writing.
pub fn write<W: Write>(
    program: &Program,
    options: &Options,
    into: W,
    name: &str,
) -> Result<W, TraceError> {
    let aims = Aims::of(program, options);
    let facts = [
        ("program", program.name.to_owned()),
        ("recorder", "plimsoll trace synth".to_owned()),
        ("scale", options.scale.to_string()),
        ("shorten", options.shorten.to_string()),
        ("seed", options.seed.to_string()),
        (
            "made-up",
            "the statistics of a program, not a recording".to_owned(),
        ),
    ];
    let mut identity = [0; 16];
    let mut random = Random::new(options.seed);
    for half in identity.chunks_mut(8) {
        half.copy_from_slice(&random.next().to_le_bytes());
    }
    let header = Header {
        identity,
        unit: TimeUnit::Nanoseconds,
        deaths: Deaths::Exact,
        raw: false,
        facts: facts.map(|(key, value)| (key.to_owned(), value)).into(),
    };
    let mut writer = Writer::new(into, name, &header)?;
    let mut made = Made {
        out: Out {
            writer: &mut writer,
            stamp: 0,
        },
        program,
        aims,
        store: Store::new(aims.largest_live),
        random,
    };
    made.run()?;
    let largest = made.store.largest();
    writer.largest_live(largest);
    writer.finish()
}

/// Where events go.
struct Out<'a, W: Write> {
    writer: &'a mut Writer<W>,
    stamp: u64,
}

/// The destination of a made-up program's events.
trait Sink {
    fn put(&mut self, thread: ThreadId, event: Event) -> Result<(), TraceError>;
}

impl<W: Write> Sink for Out<'_, W> {
    fn put(&mut self, thread: ThreadId, event: Event) -> Result<(), TraceError> {
        self.writer.push(thread, &event)
    }
}

impl<W: Write> Out<'_, W> {
    /// The processor goes to a thread.
    fn switch_to(&mut self, thread: ThreadId) -> Result<(), TraceError> {
        self.stamp += 1;
        self.put(thread, Event::Stamp { order: self.stamp })
    }
}

struct Made<'a, W: Write> {
    out: Out<'a, W>,
    program: &'a Program,
    aims: Aims,
    store: Store,
    random: Random,
}

impl<W: Write> Made<'_, W> {
    fn run(&mut self) -> Result<(), TraceError> {
        let workers = u64::from(self.aims.threads - 1);
        self.out.writer.name(Named::Thread, 0, "main")?;
        for number in 1..=workers {
            let name = format!("worker-{number}");
            self.out.writer.name(Named::Thread, number, &name)?;
        }
        let base = self.load()?;
        let left = Budget {
            objects: self.aims.objects.saturating_sub(base.objects).max(workers),
            bytes: self.aims.bytes.saturating_sub(base.bytes),
            time: self.aims.time.saturating_sub(base.time),
        };
        let mut ready: VecDeque<Worker> = VecDeque::new();
        for number in 1..=workers {
            let thread = ThreadId(number as u32);
            let start = Event::Start {
                thread,
                priority: 5,
            };
            self.out.put(MAIN, start)?;
            let seed = self.random.next();
            let part = left.part(number - 1, workers);
            ready.push_back(Worker::new(thread, part, self.program, &self.aims, seed));
        }
        self.take_turns(&mut ready)?;
        self.out.switch_to(MAIN)?;
        for number in 1..=workers {
            let thread = ThreadId(number as u32);
            self.out.put(MAIN, Event::Join { thread })?;
        }
        self.out.put(MAIN, Event::End)
    }

    /// The main thread loads what stays.
    fn load(&mut self) -> Result<Budget, TraceError> {
        self.out.switch_to(MAIN)?;
        let part = self.aims.base as f64 / self.aims.bytes as f64;
        let mut left = Budget {
            objects: (self.aims.objects as f64 * part) as u64,
            bytes: self.aims.base,
            time: (self.aims.time as f64 * part) as u64,
        };
        let whole = left;
        let mut spent = Budget::default();
        while spent.objects < whole.objects {
            let size = left.size(&mut self.random);
            spent.objects += 1;
            spent.bytes += size;
            let object = ObjectId(spent.objects);
            self.store.born(size);
            let alloc = Event::Alloc {
                object,
                size,
                class: None,
                site: None,
            };
            self.out.put(MAIN, alloc)?;
            if spent.objects.is_multiple_of(LOADED_AT_ONCE) || spent.objects == whole.objects {
                let done = spent.objects as f64 / whole.objects as f64;
                let time = (whole.time as f64 * done) as u64 - spent.time;
                spent.time += time;
                self.out.put(MAIN, Event::Compute { time })?;
            }
        }
        Ok(spent)
    }

    /// The workers take turns on one processor until all have ended.
    fn take_turns(&mut self, ready: &mut VecDeque<Worker>) -> Result<(), TraceError> {
        while let Some(mut worker) = ready.pop_front() {
            self.out.switch_to(worker.thread())?;
            let mut used = 0;
            while used < QUANTUM && !worker.is_done() {
                used += worker.step(&mut self.store, &mut self.out)?;
            }
            if worker.is_done() {
                worker.end(&mut self.store, &mut self.out)?;
            } else {
                ready.push_back(worker);
            }
        }
        Ok(())
    }
}
