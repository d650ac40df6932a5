//! `plimsoll run` where systemd divides the tree of cgroups: a virtual machine with Debian 12, whose service
//! manager starts a script of checks.

mod guest {
    use plimsoll_testbed::guest::{Kind, run_checks};
    use std::path::Path;

    #[test]
    fn scopes_services_and_sessions() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systemd/scenario.sh");
        run_checks(
            Kind::Debian,
            "systemd",
            Path::new(env!("CARGO_TARGET_TMPDIR")),
            (script, ""),
            &[Path::new(env!("CARGO_BIN_EXE_plimsoll"))],
            "ok nothing of ours is left",
        );
    }
}
