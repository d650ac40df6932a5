//! The disciplines against their paper, and the queue against a literal model of it.

use super::*;
use proptest::prelude::*;

fn disciplines() -> [Box<dyn Discipline + Send>; 3] {
    Rule::ALL.map(|rule| rule.build(Quanta::PAPER, Ties::Newest))
}

const TIME: u64 = TIME_QUANTUM.0;
const MEMORY: u64 = MEMORY_QUANTUM.0;

fn used(time: u64, bytes: u64) -> Used {
    Used {
        time: Nanos(time),
        bytes: Bytes(bytes),
    }
}

#[test]
fn round_robin_and_mqrr_take_turns() {
    for discipline in [0, 2] {
        let discipline = disciplines().into_iter().nth(discipline).unwrap();
        let mut queue = ReadyQueue::new(discipline, PATIENCE);
        let threads = [0; 4].map(|priority| queue.admit(priority));
        for thread in threads {
            queue.ready(thread, Used::default());
        }
        for turn in 0..40 {
            let thread = queue.dispatch().unwrap();
            assert_eq!(thread, threads[turn % 4]);
            queue.ready(thread, used(turn as u64, 1000 - turn as u64));
        }
    }
}

#[test]
fn larf_runs_who_allocates_least_until_the_others_are_overdue() {
    let mut queue = ReadyQueue::new(Box::new(Larf::new(Nanos(100), Ties::Newest)), 2);
    let (greedy, frugal) = (queue.admit(0), queue.admit(0));
    queue.ready(greedy, used(100, 4000));
    queue.ready(frugal, used(100, 0));
    let mut order = Vec::new();
    for _ in 0..10 {
        let thread = queue.dispatch().unwrap();
        order.push(thread == greedy);
        queue.ready(thread, used(100, if thread == greedy { 4000 } else { 0 }));
    }
    let turns = [
        false, false, false, false, true, false, false, false, false, true,
    ];
    assert_eq!(order, turns, "patience of two rounds of two threads");
}

#[test]
fn larf_lets_who_ran_go_on_or_lets_equals_take_turns() {
    for (ties, others) in [(Ties::Newest, 0), (Ties::Oldest, 30)] {
        let mut queue = ReadyQueue::new(Box::new(Larf::new(Nanos(100), ties)), 100);
        for thread in [0; 3].map(|priority| queue.admit(priority)) {
            queue.ready(thread, used(100, 500));
        }
        let mut last = queue.dispatch().unwrap();
        let mut switches = 0;
        for _ in 0..30 {
            queue.ready(last, used(100, 500));
            let next = queue.dispatch().unwrap();
            switches += usize::from(std::mem::replace(&mut last, next) != next);
        }
        assert_eq!(switches, others, "{ties:?}");
    }
}

#[test]
fn larf_ranks_by_bytes_per_quantum() {
    let larf = Larf::new(Nanos(100), Ties::Newest);
    assert_eq!(larf.rank(7, used(100, 500)), 500, "a whole quantum");
    assert_eq!(larf.rank(7, used(200, 500)), 250, "a longer run");
    assert_eq!(larf.rank(800, used(25, 10)), 610, "a quarter of a quantum");
    assert_eq!(larf.rank(800, used(0, 0)), 800, "nothing new");
    assert_eq!(larf.rank(u64::MAX, used(0, 1)), u64::MAX);
    assert_eq!(
        Larf::new(Nanos(u64::MAX), Ties::Newest).rank(3, used(1, 1)),
        3
    );
    assert_eq!(Larf::new(Nanos::ZERO, Ties::Newest).rank(3, used(9, 18)), 2);
}

#[test]
fn no_thread_keeps_a_processor() {
    for discipline in disciplines() {
        let quantum = discipline.quantum();
        assert!(quantum.is_used_up(used(TIME_BOUND.0, 0)), "it spins");
        assert!(!quantum.is_used_up(used(TIME - 1, MEMORY - 1)));
    }
    let memory = Mqrr::new(MEMORY_QUANTUM, TIME_BOUND).quantum();
    assert!(memory.is_used_up(used(0, MEMORY)));
    assert!(!memory.is_used_up(used(TIME, MEMORY - 1)));
    assert!(
        Mqrr::new(Bytes::ZERO, Nanos::ZERO)
            .quantum()
            .is_used_up(used(1, 0))
    );
}

#[test]
fn a_higher_priority_goes_first_but_not_for_ever() {
    let mut queue = ReadyQueue::new(Box::new(RoundRobin::new(Nanos(1))), 3);
    let (low, high) = (queue.admit(-1), queue.admit(5));
    queue.ready(low, Used::default());
    queue.ready(high, Used::default());
    let mut waited = 0;
    while queue.dispatch() == Some(high) {
        waited += 1;
        queue.ready(high, Used::default());
    }
    assert!((2..=queue.longest_wait()).contains(&waited), "{waited}");
}

#[test]
fn calls_out_of_order_are_ignored() {
    let mut queue = ReadyQueue::new(Box::new(RoundRobin::new(Nanos(1))), 1);
    let thread = queue.admit(0);
    queue.ready(thread, Used::default());
    queue.ready(thread, Used::default());
    assert_eq!((queue.len(), queue.admitted()), (1, 1));
    queue.leave(thread);
    queue.leave(thread);
    queue.ready(thread, Used::default());
    assert_eq!(
        (queue.len(), queue.admitted(), queue.dispatch()),
        (0, 0, None)
    );
    assert_eq!((queue.rank(thread), queue.longest_wait()), (None, 0));
    assert_eq!(queue.admit(0), thread, "a number is given out again");
}

/// A thread of the literal model.
#[derive(Clone, Copy, Debug)]
struct Modelled {
    thread: Thread,
    priority: Priority,
    rank: u64,
    /// Arrival and dispatches before it, while it is ready.
    ready: Option<(u64, u64)>,
    /// The most threads at once since that arrival.
    most: usize,
}

/// The queue, as its documentation says it.
#[derive(Default)]
struct Model {
    threads: Vec<Modelled>,
    arrivals: u64,
    dispatches: u64,
}

impl Model {
    fn next(&mut self, patience: u64, ties: Ties) -> Option<Modelled> {
        let count = self.threads.len() as u64;
        let ready = self.threads.iter().filter(|one| one.ready.is_some());
        let overdue = ready
            .clone()
            .filter(|one| self.dispatches - one.ready.unwrap().1 >= patience * count)
            .min_by_key(|one| one.ready);
        let best = ready.min_by_key(|one| {
            let arrival = one.ready.unwrap().0 as i64;
            let age = if ties == Ties::Newest {
                -arrival
            } else {
                arrival
            };
            (-one.priority, one.rank, age)
        });
        let chosen = *overdue.or(best)?;
        self.dispatches += 1;
        for one in &mut self.threads {
            if one.thread == chosen.thread {
                one.ready = None;
            }
        }
        Some(chosen)
    }
}

/// An event of the queue in a test.
#[derive(Clone, Debug)]
enum Step {
    Admit(Priority),
    Leave(usize),
    Ready(usize, Used),
    Next,
}

fn step() -> impl Strategy<Value = Step> {
    let run = (0..3 * TIME, 0..2 * MEMORY).prop_map(|(time, bytes)| used(time, bytes));
    prop_oneof![
        1 => (-2..3i32).prop_map(Step::Admit),
        1 => (0..64usize).prop_map(Step::Leave),
        8 => (0..64usize, run).prop_map(|(which, used)| Step::Ready(which, used)),
        6 => Just(Step::Next),
    ]
}

/// Takes a step in the queue and in the model, and holds them to each other and to the bound.
fn take(
    step: &Step,
    queue: &mut ReadyQueue,
    model: &mut Model,
    rule: &dyn Discipline,
    patience: u32,
) {
    match *step {
        Step::Admit(priority) => {
            let thread = queue.admit(priority);
            model.threads.push(Modelled {
                thread,
                priority,
                rank: 0,
                ready: None,
                most: 0,
            });
            let count = model.threads.len();
            for one in &mut model.threads {
                one.most = one.most.max(count);
            }
        }
        Step::Leave(which) if !model.threads.is_empty() => {
            let which = which % model.threads.len();
            queue.leave(model.threads.swap_remove(which).thread);
        }
        Step::Ready(which, used) if !model.threads.is_empty() => {
            let count = model.threads.len();
            let one = &mut model.threads[which % count];
            if one.ready.is_none() {
                model.arrivals += 1;
                one.rank = rule.rank(one.rank, used);
                one.ready = Some((model.arrivals, model.dispatches));
                one.most = count;
            }
            queue.ready(one.thread, used);
        }
        Step::Next => {
            let before = model.dispatches;
            let expected = model.next(u64::from(patience), rule.ties());
            assert_eq!(queue.dispatch(), expected.map(|one| one.thread));
            if let Some(Modelled { ready, most, .. }) = expected {
                let waited = before - ready.unwrap().1;
                assert!(waited < (u64::from(patience) + 1) * most as u64, "{waited}");
            }
        }
        _ => {}
    }
    assert_eq!(queue.admitted(), model.threads.len());
    assert_eq!(
        queue.len(),
        model
            .threads
            .iter()
            .filter(|one| one.ready.is_some())
            .count()
    );
}

proptest! {
    #[test]
    fn the_queue_is_its_model_and_nobody_starves(
        rule in prop::sample::select(&Rule::ALL[..]), ties in prop::sample::select(&Ties::ALL[..]),
        patience in 0..4u32, steps in prop::collection::vec(step(), 1..400), equal in 0..400usize
    ) {
        let at = || rule.build(Quanta::PAPER, ties);
        let mut queue = ReadyQueue::new(at(), patience);
        let (mut model, rule) = (Model::default(), at());
        for (index, step) in steps.iter().enumerate() {
            // As long as all priorities are equal, nobody is compared under two of the disciplines.
            let step = match step {
                Step::Admit(_) if index < equal => &Step::Admit(0),
                step => step,
            };
            take(step, &mut queue, &mut model, &*rule, patience);
        }
    }

    #[test]
    fn who_runs_on_alone_is_who_becomes_ready_and_is_dispatched_again(
        rule in prop::sample::select(&Rule::ALL[..]), ties in prop::sample::select(&Ties::ALL[..]),
        before in prop_oneof![Just(0), 0..2 * MEMORY], times in 1..9u64, waits in any::<bool>()
    ) {
        let [mut one, mut other] = [0; 2].map(|_| ReadyQueue::new(rule.build(Quanta::PAPER, ties), 1));
        let all = used(one.quantum().time.0, 0);
        let threads = [&mut one, &mut other].map(|queue| {
            let (thread, second) = (queue.admit(0), queue.admit(0));
            queue.ready(thread, used(TIME / 2, before));
            assert_eq!(queue.dispatch(), Some(thread));
            if waits {
                queue.ready(second, Used::default());
            }
            (thread, second)
        });
        let (thread, second) = threads[0];
        let is_steady = rule != Rule::Larf || before == 0;
        prop_assert_eq!(one.runs_on(thread, all, times), is_steady && !waits);
        if is_steady && !waits {
            for _ in 0..times {
                other.ready(thread, all);
                prop_assert_eq!(other.dispatch(), Some(thread));
            }
        }
        for queue in [&mut one, &mut other] {
            queue.ready(thread, all);
            queue.ready(second, Used::default());
        }
        for _ in 0..6 {
            let next = one.dispatch();
            prop_assert_eq!(next, other.dispatch());
            for queue in [&mut one, &mut other] {
                next.into_iter().for_each(|next| queue.ready(next, all));
            }
        }
    }

    #[test]
    fn a_greedy_thread_among_frugal_ones_gets_its_part(
        frugal in 1..40u64, patience in 0..12u32, greed in 1..u64::MAX / 2,
        ties in prop::sample::select(&Ties::ALL[..])
    ) {
        let mut queue = ReadyQueue::new(Box::new(Larf::new(TIME_QUANTUM, ties)), patience);
        let greedy = queue.admit(-100);
        queue.ready(greedy, used(TIME, greed));
        for _ in 0..frugal {
            let thread = queue.admit(0);
            queue.ready(thread, used(TIME, 0));
        }
        let (turns, mut got) = (queue.longest_wait() + 1, 0);
        for _ in 0..3 * turns {
            let thread = queue.dispatch().unwrap();
            let bytes = if thread == greedy { got += 1; greed } else { 0 };
            queue.ready(thread, used(TIME, bytes));
        }
        prop_assert!(got >= 3, "{got} of {} dispatches", 3 * turns);
    }
}
