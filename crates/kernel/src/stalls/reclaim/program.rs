//! The instructions of the two BPF programs. Source: kernel document `instruction-set.rst`;
//! helpers by their numbers in `linux/bpf.h`. Pure.
//!
//! Both compare the running thread's process with the one number that they are made for, so that a
//! reclaim of any other process costs three instructions.

/// An instruction: operation, registers (destination in the lower half), offset, constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Step {
    operation: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const KTIME_GET_NS: i32 = 5;
const GET_CURRENT_PID_TGID: i32 = 14;

/// How a constant of 64 bits names a map: by its descriptor, or the value of its first entry.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// The frame pointer, and the places below it that hold the thread's number and the time.
const FRAME: u8 = 10;
const THREAD: i16 = -4;
const TIME: i16 = -16;

/// Where a total lies in the value of the map of totals, bytes.
pub(super) const COUNT: usize = 0;
/// As [`COUNT`].
pub(super) const NS: usize = 8;

const fn step(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> Step {
    Step {
        operation,
        registers: from << 4 | to,
        offset,
        constant,
    }
}

const fn call(helper: i32) -> Step {
    step(0x85, 0, 0, 0, helper)
}

const fn copy(to: u8, from: u8) -> Step {
    step(0xbf, to, from, 0, 0)
}

const fn set(to: u8, constant: i32) -> Step {
    step(0xb7, to, 0, 0, constant)
}

const fn add(to: u8, constant: i32) -> Step {
    step(0x07, to, 0, 0, constant)
}

const fn load_map(to: u8, kind: u8, descriptor: i32) -> [Step; 2] {
    [step(0x18, to, kind, 0, descriptor), step(0, 0, 0, 0, 0)]
}

/// Leaves unless the running thread belongs to the process; else notes the thread's number.
/// `rest` is how many instructions come after it, without the two that leave.
fn only(process: i32, rest: usize) -> [Step; 5] {
    [
        call(GET_CURRENT_PID_TGID),
        copy(1, 0),
        step(0x77, 1, 0, 0, 32),
        step(0x55, 1, 0, rest as i16 + 1, process),
        step(0x63, FRAME, 0, THREAD, 0),
    ]
}

const LEAVE: [Step; 2] = [set(0, 0), step(0x95, 0, 0, 0, 0)];

/// Points register 2 to the thread's number.
const KEY: [Step; 2] = [copy(2, FRAME), add(2, THREAD as i32)];

/// Notes when a thread of `process` began, in the map with the descriptor `starts`.
pub(super) fn begin(process: i32, starts: i32) -> Vec<Step> {
    let mut rest = vec![call(KTIME_GET_NS), step(0x7b, FRAME, 0, TIME, 0)];
    rest.extend(load_map(1, MAP, starts));
    rest.extend(KEY);
    rest.extend([
        copy(3, FRAME),
        add(3, i32::from(TIME)),
        set(4, 0),
        call(MAP_UPDATE),
    ]);
    framed(process, &rest)
}

/// Adds one, and the time since the thread began, to the totals. A thread that began before anybody
/// looked is passed over.
pub(super) fn end(process: i32, starts: i32, totals: i32) -> Vec<Step> {
    let mut timed = vec![step(0x79, 6, 0, 0, 0)];
    timed.extend(load_map(1, MAP, starts));
    timed.extend(KEY);
    timed.extend([call(MAP_DELETE), call(KTIME_GET_NS), step(0x1f, 0, 6, 0, 0)]);
    timed.extend(load_map(1, MAP_VALUE, totals));
    timed.extend([
        step(0xdb, 1, 0, NS as i16, 0),
        set(2, 1),
        step(0xdb, 1, 2, COUNT as i16, 0),
    ]);
    let mut rest = Vec::new();
    rest.extend(load_map(1, MAP, starts));
    rest.extend(KEY);
    rest.push(call(MAP_LOOKUP));
    rest.push(step(0x15, 0, 0, timed.len() as i16, 0));
    rest.extend(timed);
    framed(process, &rest)
}

fn framed(process: i32, rest: &[Step]) -> Vec<Step> {
    let mut steps = only(process, rest.len()).to_vec();
    steps.extend(rest);
    steps.extend(LEAVE);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_leads_to_the_way_out() {
        for steps in [begin(42, 3), end(42, 3, 4)] {
            assert_eq!(size_of::<Step>(), 8);
            assert_eq!(steps[steps.len() - 2..], LEAVE);
            let jumps = steps.iter().enumerate();
            for (at, jump) in jumps.filter(|(_, s)| matches!(s.operation, 0x15 | 0x55)) {
                assert_eq!(at + 1 + jump.offset as usize, steps.len() - 2);
            }
        }
    }
}
