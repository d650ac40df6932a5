//! Small programs that are made up from numbers, so that a failing one can be shrunk.

use plimsoll_trace::{Event, MonitorId, ObjectId, ThreadId};

/// A deed of a thread: its kind and a number for it.
pub(crate) type Deed = (u8, u64);
/// Kinds of deeds, and one more.
pub(crate) const DEEDS: u8 = 19;

/// Bounds of waits, nanoseconds. The first and the last are none.
const TIMEOUTS: [u64; 4] = [0, 7, 18, i64::MAX as u64];

/// An object is allocated.
pub(crate) fn allocation(object: u64, size: u64) -> Event {
    Event::Alloc {
        object: ObjectId(object),
        size,
        class: None,
        site: None,
    }
}

/// A stamp between those of the other threads, some turns after the one before.
fn stamp(turn: &mut u64, number: u64, (thread, threads): (u64, u64)) -> Event {
    *turn += 1 + number;
    Event::Stamp {
        order: *turn * threads + thread,
    }
}

/// The streams of a program whose threads do this. Monitors are released, and each object dies at most once;
/// but threads may wait for each other for ever.
pub(crate) fn program(deeds: &[Vec<Deed>]) -> Vec<Vec<Event>> {
    let count = deeds.len() as u64;
    let (mut objects, mut living, mut to_start) = (0, Vec::new(), 1);
    let mut streams = Vec::new();
    for (index, deeds) in deeds.iter().enumerate() {
        let (mut stream, mut held) = (Vec::new(), Vec::<MonitorId>::new());
        let mut turn = 0;
        to_start = to_start.max(index as u64 + 1);
        for &(deed, number) in deeds {
            let thread = ThreadId((number % count) as u32);
            let monitor = MonitorId(number % 3);
            stream.extend(match (deed, held.last()) {
                (0..3, _) => Some(Event::Compute { time: number * 5 }),
                (3..7, _) => {
                    objects += 1;
                    living.push(objects);
                    Some(allocation(objects, number * 4))
                }
                (7..10, _) if living.len() > 2 => {
                    let which = number as usize % living.len();
                    let object = ObjectId(living.swap_remove(which));
                    Some(Event::Death { object })
                }
                // Monitors are entered in one order with a few exceptions, so that not all threads wait for
                // ever.
                (10 | 11, last)
                    if held.len() < 4 && (last.is_none_or(|&it| it <= monitor) || number == 9) =>
                {
                    held.push(monitor);
                    Some(Event::Enter { monitor })
                }
                (12, Some(_)) => held.pop().map(|monitor| Event::Exit { monitor }),
                (13, Some(&monitor)) => Some(Event::Wait {
                    monitor,
                    timeout: TIMEOUTS[number as usize % 4],
                }),
                (14, Some(&monitor)) => Some(Event::Notify {
                    monitor,
                    all: number.is_multiple_of(2),
                }),
                (15, _) => Some(match number % 3 {
                    0 => Event::Sleep { time: number },
                    1 => Event::Park {
                        timeout: TIMEOUTS[number as usize % 4],
                    },
                    _ => Event::Unpark { thread },
                }),
                (16, _) if to_start < count => {
                    to_start += 1;
                    Some(Event::Start {
                        thread: ThreadId(to_start as u32 - 1),
                        priority: 1 + (number % 10) as u8,
                    })
                }
                (18, _) => Some(stamp(&mut turn, number, (index as u64, count))),
                (17, None) if thread.0 as usize > index || number == 9 => {
                    Some(Event::Join { thread })
                }
                _ => None,
            });
        }
        let exits = held.into_iter().rev();
        stream.extend(exits.map(|monitor| Event::Exit { monitor }));
        stream.push(Event::End);
        streams.push(stream);
    }
    streams
}
