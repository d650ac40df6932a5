//! Trees of cgroups of version 2 that cannot be divided, and cgroups and brokers that go while programs run:
//! in a virtual machine without systemd, in which a script of checks runs.

mod guest {
    use plimsoll_testbed::guest::{Kind, run_checks};
    use std::path::Path;

    #[test]
    fn a_program_runs_and_what_it_lacks_is_said() {
        checks("bad-tree", "");
    }

    #[test]
    fn beside_version_1_a_program_is_in_its_group_there() {
        checks("hybrid-tree", " hybrid");
    }

    fn checks(name: &str, which: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_tree/scenario.sh");
        let arguments = format!("{}{which}", env!("CARGO_BIN_EXE_plimsoll"));
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let script = (script, arguments.as_str());
        run_checks(Kind::UserMode, name, scratch, script, &[], "\nok ");
    }
}
