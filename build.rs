//! Tells the linker of a kernel image where firstpoll's linker script is.

use std::path::Path;

fn main() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let scripts = Path::new(&root).join("link");
    println!("cargo::rerun-if-changed=link/firstpoll.ld");
    println!("cargo::rustc-link-search={}", scripts.display());
}
