//! The `sayso` program.

/// Gives whole pages to large blocks: of the buffers of ten thousand waiting
/// connections only what was written to is resident.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    sayso::cli::main()
}
