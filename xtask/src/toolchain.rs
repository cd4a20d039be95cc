//! Which compiler builds the kernel.
//!
//! The kernel's target is `x86_64-unknown-none`. Where the active toolchain
//! has it, plain cargo does. Where it does not, the distribution's compiler
//! builds `core` and `alloc` from the library source that is packaged beside
//! it; that part of cargo is unstable, so the compiler is told to allow it.
//! This is the only file that knows of that fallback: it changes nothing in
//! the kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::packages;
use crate::usage::Usage;

/// The kernel's target.
pub const KERNEL_TARGET: &str = "x86_64-unknown-none";

/// The packages of the fallback: Debian's compiler for its web browsers,
/// which is kept current in stable releases.
const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";

/// What builds the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toolchain {
    /// The active toolchain has the kernel's target.
    Active,
    /// Debian's compiler builds `core` and `alloc` too.
    Debian {
        /// The linker, which Debian's compiler does not bring.
        linker: PathBuf,
    },
}

impl Toolchain {
    /// Finds a toolchain for the kernel, and installs one if there is none.
    ///
    /// # Errors
    ///
    /// [`Usage`] with the command to run if it cannot be installed from here.
    pub fn detect() -> Result<Self> {
        if active_has_kernel_target() {
            return Ok(Self::Active);
        }
        if !debian_is_usable() {
            packages::install(&DEBIAN_PACKAGES).map_err(name_rustup)?;
            if !debian_is_usable() {
                return Err(name_rustup(Usage::new(format!(
                    "{DEBIAN_RUSTC} lacks its library source or is older than {}",
                    minimum_version()
                ))));
            }
        }
        let linker = match rustup_linker() {
            Some(linker) => linker,
            None => {
                packages::ensure(&[packages::LLD]).map_err(name_rustup)?;
                packages::LLD.program.into()
            }
        };
        Ok(Self::Debian { linker })
    }

    /// The version of the compiler, as `1.96.0`.
    ///
    /// # Errors
    ///
    /// If it does not tell.
    pub fn rustc_version(&self) -> Result<String> {
        let rustc = match self {
            Self::Active => "rustc",
            Self::Debian { .. } => DEBIAN_RUSTC,
        };
        let version = rustc_prints(rustc, &["--version"]);
        let version = version.and_then(|line| Some(line.split(' ').nth(1)?.to_owned()));
        version.with_context(|| format!("{rustc} does not tell its version"))
    }

    /// `cargo build` for the kernel's target.
    pub fn cargo_build(&self) -> Command {
        let mut command = match self {
            Self::Active => cargo(),
            Self::Debian { linker } => {
                let mut command = Command::new(DEBIAN_CARGO);
                forget_outer_cargo(&mut command);
                command
                    .env_remove("RUSTUP_TOOLCHAIN")
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_X86_64_UNKNOWN_NONE_LINKER", linker);
                command
            }
        };
        // The caller's flags would replace those of `.cargo/config.toml`,
        // without which the image does not link.
        command
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .args(["build", "--target", KERNEL_TARGET]);
        if matches!(self, Self::Debian { .. }) {
            command.arg("-Zbuild-std=core,alloc");
        }
        command
    }
}

/// The active toolchain's cargo, as if it were called from a shell.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    forget_outer_cargo(&mut command);
    command
}

/// Takes out what `cargo xtask` and `cargo test` tell their children about
/// themselves, which would make build scripts run again or pick the wrong
/// compiler. `RUSTUP_TOOLCHAIN` stays, so that `cargo +beta xtask` means it.
fn forget_outer_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_from_outer_cargo) {
            command.env_remove(name);
        }
    }
}

fn is_from_outer_cargo(name: &str) -> bool {
    const NAMES: [&str; 5] = ["CARGO", "RUSTC", "RUSTDOC", "OUT_DIR", "RUSTC_BOOTSTRAP"];
    const PREFIXES: [&str; 5] = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn active_has_kernel_target() -> bool {
    rustc_prints(
        "rustc",
        &["--print=target-libdir", "--target", KERNEL_TARGET],
    )
    .is_some_and(|directory| Path::new(&directory).is_dir())
}

/// Whether Debian's compiler is there, is new enough and has its source.
fn debian_is_usable() -> bool {
    let is_current = rustc_prints(DEBIAN_RUSTC, &["--version"])
        .and_then(|version| parse_version(&version))
        .is_some_and(|version| Some(version) >= parse_version(minimum_version()));
    let has_source = rustc_prints(DEBIAN_RUSTC, &["--print=sysroot"]).is_some_and(|sysroot| {
        Path::new(&sysroot)
            .join("lib/rustlib/src/rust/library/core/Cargo.toml")
            .is_file()
    });
    is_current && has_source && Path::new(DEBIAN_CARGO).is_file()
}

/// The `rust-lld` of the active rustup toolchain.
fn rustup_linker() -> Option<PathBuf> {
    let sysroot = rustc_prints("rustc", &["--print=sysroot"])?;
    let hosts = Path::new(&sysroot).join("lib/rustlib").read_dir().ok()?;
    hosts
        .flatten()
        .map(|host| host.path().join("bin/rust-lld"))
        .find(|linker| linker.is_file())
}

/// What `rustc` prints, if it is there and succeeds.
fn rustc_prints(rustc: &str, args: &[&str]) -> Option<String> {
    let shell = Shell::new().ok()?;
    cmd!(shell, "{rustc} {args...}")
        .quiet()
        .ignore_stderr()
        .read()
        .ok()
}

/// The MSRV of the workspace.
fn minimum_version() -> &'static str {
    env!("CARGO_PKG_RUST_VERSION")
}

/// The major and minor number in `rustc 1.96.0 (…)` or `1.95`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("rustc ").unwrap_or(text);
    let mut parts = number.split(['.', ' ', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Adds the better way to an error of the fallback.
fn name_rustup(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    if error.is::<Usage>() {
        Usage::new(format!(
            "no compiler for {KERNEL_TARGET}: `rustup target add {KERNEL_TARGET}` brings one ({error:#})"
        ))
        .into()
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(
            parse_version("rustc 1.96.0 (abc 2026-05-25)"),
            Some((1, 96))
        );
        assert_eq!(parse_version("1.95"), Some((1, 95)));
        assert!(parse_version("rustc 1.100.0") > parse_version("rustc 1.95.0"));
        assert_eq!(parse_version("clang 14"), None);
    }

    #[test]
    fn only_what_leaks_is_forgotten() {
        for leaked in ["CARGO", "RUSTC", "CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(is_from_outer_cargo(leaked), "{leaked}");
        }
        for kept in ["CARGO_HOME", "CARGO_TERM_COLOR", "CARGO_TARGET_DIR", "PATH"] {
            assert!(!is_from_outer_cargo(kept), "{kept}");
        }
    }

    #[test]
    fn the_fallback_builds_the_library_with_its_own_compiler() {
        let toolchain = Toolchain::Debian {
            linker: "/bin/rust-lld".into(),
        };
        let command = toolchain.cargo_build();
        assert_eq!(command.get_program(), DEBIAN_CARGO);
        assert!(
            command
                .get_args()
                .any(|arg| arg == "-Zbuild-std=core,alloc")
        );
        let env: Vec<_> = command.get_envs().collect();
        assert!(env.contains(&("RUSTC".as_ref(), Some(DEBIAN_RUSTC.as_ref()))));
        assert!(env.contains(&("RUSTUP_TOOLCHAIN".as_ref(), None)));
        assert!(env.contains(&("RUSTFLAGS".as_ref(), None)));
    }
}
