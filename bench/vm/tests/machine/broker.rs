//! The heap follows a broker's limit, and works alone without one.

use super::{PLANS, machine, number, run};
use plimsoll_testbed::page::Page;
use plimsoll_unit::{Bytes, MIB};

#[test]
fn memory_follows_a_brokers_limit() {
    for plan in ["SemiSpace", "GenImmix", "Immix"] {
        let page = Page::new(Bytes::mib(200));
        let arguments =
            format!("--plan {plan} --heap isla-vista:400m --broker live 16m 2000000000");
        let mut program = page.start(machine_without_timeout(&arguments));
        program.until("fills its limit", |uses| uses > Bytes::mib(130));
        page.set(Bytes::mib(90));
        program.until("gives memory back", |uses| uses < Bytes::mib(90));
        page.set(Bytes::mib(200));
        program.until("fills its limit again", |uses| uses > Bytes::mib(130));
        assert!(
            program.uses() < Bytes::mib(210),
            "{plan}: {}",
            program.uses()
        );
    }
}

#[test]
fn when_the_broker_dies_its_last_limit_holds() {
    let mut page = Page::new(Bytes::mib(90));
    let arguments = "--plan SemiSpace --heap isla-vista:400m --broker live 16m 2000000000";
    let mut program = page.start(machine_without_timeout(arguments));
    program.until("fills its limit", |uses| uses > Bytes::mib(50));
    page.die();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(program.uses() < Bytes::mib(100), "{}", program.uses());
}

#[test]
fn without_a_broker_it_works_alone() {
    let plan = PLANS[0];
    let told = run(&format!(
        "--plan {plan} --heap isla-vista:64m --broker live 8m 20000"
    ));
    assert_eq!(number(&told, "/said/failed"), 0);
    assert_eq!(number(&told, "/figures/limit"), 64 * MIB);
}

/// The program itself, because its memory is looked at.
fn machine_without_timeout(arguments: &str) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll-bench-vm"));
    for name in machine("").get_envs().map(|(name, _)| name) {
        command.env_remove(name);
    }
    command.args(arguments.split_whitespace());
    command
}
