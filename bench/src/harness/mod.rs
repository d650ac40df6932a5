//! Runs programs under one budget, with or without the broker, and watches them from outside.
//!
//! # Glossary
//! - *ground*: a memory cgroup with a limit, a swap file, a folder; gone when the measurement ends.
//! - *scenario*: data that says when programs start and stop, and what happens in between.
//! - *variant*: the same scenario under other conditions (with the broker, with fixed sizes, …).
//! - *trace*: samples of a run, several per second.
//! - *job*: a program that runs to its end, and its outcome.
//! - *work*: how much a program has done, as a number that it prints.
//!
//! # Map
//!
//! | module | is |
//! |---|---|
//! | `run_scenario` | carries a scenario out |
//! | `scenario` | which programs run when, and which weights change |
//! | `programs` | the programs of the scenarios, and their paths |
//! | `ground` | the cgroup, the swap file and the folder of a measurement |
//! | `broker` | a broker for one run |
//! | `watch` | looks at the programs and their cgroup from outside |
//! | `observe_run` | the same for programs that `plimsoll run -f` started |
//! | `memory_plot` | a plot of the memory of programs while they run |
//! | `progress_plot` | a plot of the work that they do |
//! | `moments` | a program and the hog beside it over time, for pictures |
//! | `trace` | samples of a run, and the ends of its programs |
//! | `mapped` | a principal's page, mapped as any program may map it |
//! | `job` | programs that run to their end |
//! | `work` | how much a program has done, by its own output |
//! | `load` | requests at a fixed rate, whatever the answers |
//! | `servers` | servers of others, and the processes that load them |
//! | `java` | Java programs of ours, compiled |
//! | `best_heap` | the search for the best fixed size of a heap |
//! | `libgc` | programs on libgc, and the collectors that they can run with |
//! | `libgc_programs` | programs of others on libgc |
//! | `collections` | number and time of collections of a Java machine |
//! | `pauses` | pauses of a program on libgc |
//! | `processor` | processor time of processes, and the processor's speed at the moment |
//! | `folder` | a folder that lives as long as a measurement |
//! | `interrupt` | Ctrl-C and SIGTERM end a measurement in good order |

pub mod best_heap;
pub mod broker;
pub mod collections;
pub mod folder;
pub mod ground;
pub mod interrupt;
pub mod java;
pub mod job;
pub mod libgc;
pub mod libgc_programs;
pub mod load;
pub mod mapped;
pub mod memory_plot;
pub mod moments;
pub mod observe_run;
pub mod pauses;
pub mod processor;
pub mod programs;
pub mod progress_plot;
pub mod run_scenario;
pub mod scenario;
pub mod servers;
pub mod trace;
pub mod watch;
pub mod work;
