//! `plimsoll run` where systemd divides the tree of cgroups: a virtual machine with Debian 12, whose service
//! manager starts a script of checks.

mod guest {
    use plimsoll_testbed::guest::{Guest, Kind, NoAnswer};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn scopes_services_and_sessions() {
        let guest = Guest {
            kind: Kind::Debian,
            name: "systemd",
            scratch: Path::new(env!("CARGO_TARGET_TMPDIR")),
            program: Path::new(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/systemd/scenario.sh"
            )),
            arguments: "",
            files: &[Path::new(env!("CARGO_BIN_EXE_plimsoll"))],
            patience: Duration::from_secs(300),
        };
        match guest.run(&mut |_| {}) {
            Err(NoAnswer::Missing(what)) => plimsoll_testbed::skip(what),
            Err(NoAnswer::Failed(said)) => panic!("the checks failed in the guest:\n{said}"),
            Ok(said) => {
                println!("{said}");
                assert!(said.contains("ok nothing of ours is left"), "{said}");
            }
        }
    }
}
