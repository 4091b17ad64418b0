//! The `sayso` program.

fn main() -> std::process::ExitCode {
    sayso::cli::main()
}
