//! Trees of cgroups of version 2 that cannot be divided, and cgroups and brokers that go while programs run:
//! in a virtual machine without systemd, in which a script of checks runs.

mod guest {
    use plimsoll_testbed::guest::{Guest, Kind, NoAnswer};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_program_runs_and_what_it_lacks_is_said() {
        checks("bad-tree", "");
    }

    #[test]
    fn beside_version_1_a_program_is_in_its_group_there() {
        checks("hybrid-tree", " hybrid");
    }

    fn checks(name: &str, which: &str) {
        let guest = Guest {
            kind: Kind::UserMode,
            name,
            scratch: Path::new(env!("CARGO_TARGET_TMPDIR")),
            program: Path::new(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/bad_tree/scenario.sh"
            )),
            arguments: &format!("{}{which}", env!("CARGO_BIN_EXE_plimsoll")),
            files: &[],
            patience: Duration::from_secs(300),
        };
        match guest.run(&mut |_| {}) {
            Err(NoAnswer::Missing(what)) => plimsoll_testbed::skip(what),
            Err(NoAnswer::Failed(said)) => panic!("the checks failed in the guest:\n{said}"),
            Ok(said) => {
                println!("{said}");
                assert!(said.contains("\nok "), "no check was made:\n{said}");
            }
        }
    }
}
