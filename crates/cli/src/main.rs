//! `plimsoll`; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    // Before anything is started.
    plimsoll_cli::run::child::hear_of_ends();
    plimsoll_cli::main()
}
