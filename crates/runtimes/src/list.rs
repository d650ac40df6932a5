//! The list of runtimes.

use crate::lever_options::{Choice, Chosen, LeverOption};
use crate::passive::Passive;
use crate::process::Process;
use crate::runtime::Runtime;
use plimsoll_programs::{Candidate, Command};

/// Runtimes, in the order in which they are asked. A program that none of them claims is
/// [`Passive`].
#[derive(Clone, Copy, Debug)]
pub struct Runtimes(pub &'static [&'static dyn Runtime]);

impl Runtimes {
    /// The runtime of a command line that is to be started.
    pub fn of_command(&self, command: &Command<'_>) -> &'static dyn Runtime {
        self.first(|runtime| runtime.starts(command))
    }

    /// The runtime of a running process, even if we may not look into it.
    pub fn of_process(&self, pid: u32) -> &'static dyn Runtime {
        self.of(&Candidate::look(pid))
    }

    /// As [`Runtimes::of_process`], for a process that was already looked at.
    pub(crate) fn of(&self, process: &Candidate<'_>) -> &'static dyn Runtime {
        self.first(|runtime| runtime.runs(process))
    }

    /// The choices for `--adapter`, in order.
    pub fn choices(&self) -> impl Iterator<Item = &'static Choice> + use<> {
        self.0.iter().flat_map(|runtime| runtime.choices())
    }

    /// The options of all levers, in order.
    pub fn options(&self) -> impl Iterator<Item = &'static LeverOption> + use<> {
        self.0.iter().flat_map(|runtime| runtime.options())
    }

    /// Whether the user chose that programs of some runtime are steered without a broker.
    pub fn need_no_broker(&self, chosen: &Chosen) -> bool {
        let mut runtimes = self.0.iter();
        runtimes.any(|runtime| runtime.needs_no_broker(chosen))
    }

    /// Puts back what the adapter of a process had changed before it was killed, as its note says
    /// ([`crate::lever::Target::note`]). `kind`: the runtime's name. False if that cannot be done now; `None`
    /// if no runtime has this name.
    pub fn put_back(&self, kind: &str, process: Process, note: &str) -> Option<bool> {
        let mut runtimes = self.0.iter();
        let wrote = runtimes.find(|runtime| runtime.name() == kind)?;
        Some(wrote.put_back(process, note))
    }

    /// The runtime that offers this choice.
    pub fn chosen(&self, choice: &str) -> Option<&'static dyn Runtime> {
        let has = |runtime: &&'static dyn Runtime| {
            let mut choices = runtime.choices().iter();
            choices.any(|one| one.name == choice)
        };
        self.0.iter().copied().find(has)
    }

    fn first(&self, says_so: impl Fn(&dyn Runtime) -> bool) -> &'static dyn Runtime {
        let found = self.0.iter().copied().find(|&runtime| says_so(runtime));
        found.unwrap_or(&Passive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALL;
    use crate::runtime::Steered;
    use plimsoll_kernel::smaps::Area;
    use plimsoll_programs::{STEERED, Setting};
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn every_name_and_every_choice_is_one_that_can_be_given() {
        let mut names = BTreeSet::from(["passive"]);
        for runtime in ALL.0 {
            plimsoll_wire::checks::adapter(runtime.name()).unwrap();
            assert!(
                names.insert(runtime.name()),
                "{runtime:?}: its name is another's"
            );
        }
        let mut choices = BTreeSet::from(["auto", "none"]);
        for choice in ALL.choices() {
            plimsoll_wire::checks::adapter(choice.name).unwrap();
            assert!(choices.insert(choice.name), "{choice:?} is another's");
            assert!(!choice.help.is_empty() && !choice.help.ends_with('.'));
            assert!(ALL.chosen(choice.name).is_some());
        }
        assert!(ALL.chosen("auto").is_none());
    }

    #[test]
    fn every_option_of_a_lever_can_be_given() {
        let mut names = BTreeSet::new();
        for option in ALL.options() {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(option.name.bytes().all(is_plain), "{option:?}");
            assert!(names.insert(option.name), "{option:?} is another's");
            assert_ne!(option.values.len(), 1, "{option:?}");
            let values = option.values.iter().map(|value| value.help);
            for help in values.chain([option.help]) {
                assert!(!help.is_empty() && !help.ends_with('.'), "{option:?}");
            }
        }
    }

    #[test]
    fn who_can_be_chosen_is_steered() {
        for runtime in ALL.0 {
            let steered = matches!(runtime.steered(), Steered::Outside(_) | Steered::Inside);
            assert_eq!(runtime.choices().is_empty(), !steered, "{runtime:?}");
            assert_eq!(runtime.adapter().is_some(), steered, "{runtime:?}");
            let first = runtime.choices().first();
            assert!(first.is_none_or(|choice| choice.name == runtime.name()));
        }
        let steered = ALL.0.iter().filter_map(|runtime| runtime.adapter());
        let steered: BTreeSet<&str> = steered.collect();
        let listed = STEERED.iter().map(|runtime| runtime.name());
        let listed: BTreeSet<&str> = listed.collect();
        assert_eq!(listed, steered, "left: `STEERED` in programs/src/lib.rs");
    }

    #[test]
    fn a_process_is_what_it_has_mapped() {
        let of = |files: &[&str]| {
            let area = |name: &&str| Area {
                name: (*name).to_owned(),
                ..Area::default()
            };
            let mappings: Vec<Area> = files.iter().map(area).collect();
            ALL.of(&Candidate::seen(
                0,
                Path::new(""),
                &Arc::default(),
                &mappings,
            ))
            .name()
        };
        // The folder must not exist, because it is searched for the libraries of other virtual
        // machines.
        let (jvm, gc) = ("/nonexistent/lib/server/libjvm.so", "/usr/lib/libgc.so.1");
        assert_eq!(of(&["/usr/bin/cat", ""]), "passive");
        assert_eq!(of(&[gc]), "libgc");
        assert_eq!(of(&[gc, jvm]), "hotspot");
        assert_eq!(of(&[jvm, gc]), "hotspot");
        assert_eq!(
            of(&["/nonexistent/lib/server/libjvm.so (deleted)"]),
            "hotspot"
        );
        assert_eq!(ALL.of_process(0).name(), "passive");
        assert_ne!(ALL.of_process(std::process::id()).name(), "hotspot");
    }

    /// GraalVM is not available to tests, so this uses an ELF file with only that section.
    #[test]
    fn a_native_image_is_told_by_the_heap_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |section: &str| {
            let tool = dir.path().join("tool");
            std::fs::write(
                &tool,
                plimsoll_testbed::elf::with_sections(&[(section, b"x")]),
            )
            .unwrap();
            let argv = [tool.into_os_string()];
            ALL.of_command(&Command::new(&argv, &Setting::ours()))
        };
        let image = of(".svm_heap");
        assert_eq!((image.name(), image.adapter()), ("native-image", None));
        assert!(image.left_alone().is_some());
        assert_eq!(of(".rodata").name(), "passive");
    }
}
