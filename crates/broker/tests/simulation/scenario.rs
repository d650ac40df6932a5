//! The events of a run, all drawn from the seed.

use crate::program::{Nature, Program};
use crate::random::Random;
use plimsoll_unit::{MIB, MILLISECOND, SECOND};

/// A group: a weight among its siblings, and perhaps a cgroup of its own.
#[derive(Clone, Debug)]
pub(crate) struct GroupPlan {
    pub(crate) parent: Option<usize>,
    /// Index of its user, where there are several users.
    pub(crate) user: usize,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) max: Option<u64>,
    pub(crate) capacity: Option<u64>,
}

/// An unrelated program: it takes `size` bytes at `rate` from `from` on and gives them back at
/// `until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hog {
    pub(crate) group: Option<usize>,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) rate: u64,
    pub(crate) size: u64,
    pub(crate) resident: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// New capacity, percent of the first one.
    Capacity(u64),
    /// New capacity of a group, percent of its first one.
    GroupCapacity(usize, u64),
    Restart,
    /// The clock of the pages jumps by this many nanoseconds.
    Jump(i64),
    /// A weight changes.
    Weigh(usize, u32),
    Prioritise(usize, i32),
    /// A program moves under a group.
    Move(usize, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) capacity: u64,
    /// Number of users, each with a group at the top; 0 where the broker serves one user only.
    pub(crate) users: usize,
    pub(crate) groups: Vec<GroupPlan>,
    pub(crate) programs: Vec<Program>,
    pub(crate) hogs: Vec<Hog>,
    /// Time and event, ordered by time.
    pub(crate) events: Vec<(u64, Event)>,
    /// Time from which nothing new happens.
    pub(crate) calm_at: u64,
    pub(crate) end_at: u64,
    /// Largest error of a domain's sensed use, bytes.
    pub(crate) noise: u64,
    /// Number of actions in a thousand that are lost.
    pub(crate) lost: u64,
    /// All programs behave and hogs are slow enough, so no program may page.
    pub(crate) gentle: bool,
}

impl Scenario {
    pub(crate) fn draw(seed: u64, programs: Option<usize>, long: bool) -> Scenario {
        let mut random = Random::new(seed);
        let random = &mut random;
        let count = programs.unwrap_or_else(|| draw_count(random));
        let capacity =
            random.pick(&[64, 256, 512, 1536, 4096, 24_576]) * MIB * (1 + count as u64 / 50);
        let gentle = random.one_in_thousand(250);
        let calm_at = random.between(20, if long { 300 } else { 50 }) * SECOND;
        let groups = draw_groups(random, capacity);
        let scale = (capacity / count as u64).max(4 * MIB);
        let mut programs: Vec<_> = (0..count)
            .map(|_| draw_program(random, scale, &groups, calm_at, gentle))
            .collect();
        if gentle {
            fit(&mut programs, capacity / 4);
        }
        let hogs = draw_hogs(random, capacity, &groups, calm_at, gentle);
        let events = if gentle {
            Vec::new()
        } else {
            draw_events(random, count, groups.len(), calm_at)
        };
        let mut scenario = Scenario {
            seed,
            capacity,
            users: 0,
            groups: if gentle { Vec::new() } else { groups },
            programs,
            hogs,
            events,
            calm_at,
            end_at: calm_at + 60 * SECOND,
            noise: if gentle {
                0
            } else {
                random.between(0, capacity / 256)
            },
            lost: if gentle { 0 } else { random.between(0, 100) },
            gentle,
        };
        // A separate stream, so that other events do not depend on whether there are users.
        let mut random = Random::new(seed.rotate_left(17));
        if !gentle && random.one_in_thousand(400) {
            scenario.divide(&mut random);
        }
        scenario
    }

    /// Divides the programs among several users. The first is honest, and nothing bounds its
    /// programs; the others ask for as much as they can.
    fn divide(&mut self, random: &mut Random) {
        self.users = random.between(2, 5) as usize;
        let hostile =
            |random: &mut Random, users: usize| random.between(1, users as u64 - 1) as usize;
        for at in 0..self.groups.len() {
            self.groups[at].user = match self.groups[at].parent {
                Some(above) => self.groups[above].user,
                None => hostile(random, self.users),
            };
        }
        for (at, program) in self.programs.iter_mut().enumerate() {
            program.place.user = match program.place.group {
                _ if at == 0 || random.one_in_thousand(300) => 0,
                Some(group) => self.groups[group].user,
                None => hostile(random, self.users),
            };
            if program.place.user == 0 {
                (program.place.group, program.place.max) = (None, None);
            } else if random.one_in_thousand(500) {
                (program.place.weight, program.place.priority) = (10_000, 100);
                if random.one_in_thousand(500) {
                    program.nature = Nature::Hollow;
                }
            }
        }
        let (programs, groups) = (&self.programs, &self.groups);
        self.events.retain(|&(_, event)| match event {
            Event::Move(program, group) => programs[program].place.user == groups[group].user,
            _ => true,
        });
    }
}

fn draw_count(random: &mut Random) -> usize {
    let most = match random.between(0, 99) {
        0..60 => 12,
        60..90 => 60,
        90..99 => 300,
        _ => 3000,
    };
    random.between(1, most) as usize
}

fn draw_groups(random: &mut Random, capacity: u64) -> Vec<GroupPlan> {
    let count = random.pick(&[0, 0, 1, 2, 4, 7]);
    let mut groups: Vec<GroupPlan> = Vec::new();
    for at in 0..count {
        let parent = (at > 0 && random.one_in_thousand(600))
            .then(|| random.between(0, at as u64 - 1) as usize);
        let bounded = random.one_in_thousand(500);
        groups.push(GroupPlan {
            parent,
            user: 0,
            weight: random.pick(&[1, 50, 100, 100, 1000]),
            priority: random.pick(&[0, 0, 0, -5, 7]),
            max: random
                .one_in_thousand(150)
                .then(|| random.between(capacity / 8, capacity)),
            capacity: bounded.then(|| random.between(capacity / 8, capacity)),
        });
    }
    groups
}

fn draw_program(
    random: &mut Random,
    scale: u64,
    groups: &[GroupPlan],
    calm_at: u64,
    gentle: bool,
) -> Program {
    use Nature::*;
    let nature = if gentle {
        random.pick(&[Adaptive, Adaptive, Bursty])
    } else {
        random.pick(&[
            Adaptive, Adaptive, Adaptive, Bursty, Slow, Static, Static, Greedy, Lying, Dying,
            Flapping,
        ])
    };
    let mut program = Program::new(nature, scale, random);
    let in_group = !gentle && !groups.is_empty() && random.one_in_thousand(600);
    program.place.group = in_group.then(|| random.between(0, groups.len() as u64 - 1) as usize);
    program.turn_at = random.between(0, calm_at / 2);
    if nature == Greedy || nature == Lying {
        program.want = u64::MAX / 4;
        program.rate = random.between(1, 50) * MIB;
    }
    if gentle {
        program.place.max = None;
        program.place.priority = 0;
        program.place.weight = 100;
        program.answering.reaction = program.answering.reaction.min(250 * MILLISECOND);
    }
    program
}

/// Makes all live data fit into the shares, whatever hogs take: otherwise some program has to page.
fn fit(programs: &mut [Program], room: u64) {
    let each = room / programs.len() as u64;
    for program in programs {
        program.live = program.live.min(each);
    }
}

fn draw_hogs(
    random: &mut Random,
    capacity: u64,
    groups: &[GroupPlan],
    calm_at: u64,
    gentle: bool,
) -> Vec<Hog> {
    let count = random.between(0, 3);
    let draw = |random: &mut Random| {
        let from = random.between(calm_at / 3, calm_at - SECOND);
        // When a hog starts, only the floor of the reserve is there, a fiftieth of the capacity. It
        // must last while the broker notices (about 0.3 s) and the slowest gentle program reacts
        // (0.25 s).
        let fastest = if gentle {
            capacity / 30 / count.max(1)
        } else {
            (1 << 30).max(capacity / 4)
        };
        Hog {
            group: (!gentle && !groups.is_empty() && random.one_in_thousand(400))
                .then(|| random.between(0, groups.len() as u64 - 1) as usize),
            from,
            until: random.between(from, calm_at),
            rate: random.between(capacity / 200, fastest.max(capacity / 200)),
            size: random.between(0, capacity / if gentle { 2 * count.max(1) } else { 2 }),
            resident: 0,
        }
    };
    (0..count).map(|_| draw(random)).collect()
}

fn draw_events(
    random: &mut Random,
    programs: usize,
    groups: usize,
    calm_at: u64,
) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for _ in 0..random.between(0, 12) {
        let program = random.between(0, programs as u64 - 1) as usize;
        let group = random.between(0, groups.max(1) as u64 - 1) as usize;
        let event = match random.between(0, 9) {
            0 | 1 => Event::Capacity(random.between(50, 130)),
            2 if groups > 0 => Event::GroupCapacity(group, random.between(40, 150)),
            3 => Event::Restart,
            4 => Event::Jump(random.pick(&[-3_600, -1, 1, 11, 3_600, 1_000_000]) * SECOND as i64),
            5 if groups > 0 => Event::Move(program, group),
            6 => Event::Prioritise(program, random.between(0, 200) as i32 - 100),
            _ => Event::Weigh(program, random.between(1, 10_000) as u32),
        };
        events.push((random.between(SECOND, calm_at), event));
    }
    events.sort_by_key(|&(at, _)| at);
    events
}
