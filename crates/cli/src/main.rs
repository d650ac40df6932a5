//! `plimsoll`; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    plimsoll_cli::main()
}
