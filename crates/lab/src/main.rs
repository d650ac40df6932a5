//! `plimsoll-lab`. Everything is in the library of this package.

fn main() -> std::process::ExitCode {
    // Must come before any child is started.
    plimsoll_cli::run::child::hear_of_ends();
    plimsoll_lab::main()
}
