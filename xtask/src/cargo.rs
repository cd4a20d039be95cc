//! Typed cargo invocations, and the programs they build.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Message;

use crate::toolchain::{self, Toolchain};
use crate::workspace::{self, Program, Workspace};

/// The target of programs for the Linux guest.
const LINUX_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the kernel program called `name` and returns the path of its image.
///
/// # Errors
///
/// [`Usage`](crate::Usage) if there is no such program or no compiler for it;
/// otherwise if it does not build.
pub fn build_image(name: &str, profile: Profile) -> Result<PathBuf> {
    build_image_for(name, "", profile)
}

/// As [`build_image`], of the program for this kernel command line; see
/// [`Workspace::program_for`].
///
/// # Errors
///
/// As there.
pub fn build_image_for(name: &str, command_line: &str, profile: Profile) -> Result<PathBuf> {
    let workspace = Workspace::load()?;
    let program = workspace.program_for(name, command_line)?;
    let images = build_images(&workspace, &[program], profile)?;
    let image = images.into_iter().next();
    image.with_context(|| format!("cargo built no image of {name}"))
}

/// Builds the package in `directory`, which has one kernel program and brings
/// its own configuration of cargo, and returns the path of its image.
///
/// # Errors
///
/// [`Usage`](crate::Usage) if there is no compiler for it; otherwise if it does
/// not build, or is not one program.
pub fn build_image_in(directory: &Path, profile: Profile) -> Result<PathBuf> {
    let mut command = Toolchain::detect()?.cargo_build();
    command.current_dir(directory).args(profile.flag());
    match <[_; 1]>::try_from(images_of(command)?) {
        Ok([image]) => Ok(image),
        Err(images) => bail!(
            "{} makes {} programs; name the image of one",
            directory.display(),
            images.len()
        ),
    }
}

/// Builds kernel programs with one call of cargo and returns the paths of
/// their images, in no particular order.
///
/// # Errors
///
/// As [`build_image`].
pub fn build_images(
    workspace: &Workspace,
    programs: &[Program],
    profile: Profile,
) -> Result<Vec<PathBuf>> {
    let mut command = Toolchain::detect()?.cargo_build();
    command
        .current_dir(workspace::root())
        .arg("--target-dir")
        .arg(workspace.target_dir().join("kernel"))
        .args(profile.flag());
    for program in programs {
        command.args(["--package", &program.package, "--bin", &program.name]);
    }
    images_of(command)
}

/// Builds the programs of these packages for Linux, each a single file that
/// needs no library, and returns their paths.
///
/// # Errors
///
/// If they do not build.
pub fn build_static(workspace: &Workspace, packages: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = toolchain::cargo();
    command
        .current_dir(workspace::root())
        .args(["build", "--release", "--bins", "--target", LINUX_TARGET])
        .arg("--target-dir")
        .arg(workspace.target_dir().join("linux/cargo"))
        .args(["--config", "profile.release.strip='symbols'"])
        // What firstpoll is compared with is built for speed alone.
        .args(["--config", "profile.release.opt-level=3"])
        // Fat takes some minutes more.
        .args(["--config", "profile.release.lto='thin'"])
        .arg("--config")
        .arg(format!(
            "target.{LINUX_TARGET}.rustflags=['-Ctarget-feature=+crt-static']"
        ))
        // They would replace those above.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    for package in packages {
        command.args(["--package", package]);
    }
    images_of(command)
}

/// Builds the binaries and benchmarks of `package` for this machine, as a
/// release, and returns their paths.
///
/// # Errors
///
/// If they do not build.
pub fn build_benches(package: &str) -> Result<Vec<PathBuf>> {
    let mut command = toolchain::cargo();
    command
        .current_dir(workspace::root())
        .args(["build", "--release", "--bins", "--benches"])
        .args(["--package", package]);
    images_of(command)
}

/// Runs `cargo build` and returns the programs that it made.
fn images_of(mut command: Command) -> Result<Vec<PathBuf>> {
    let mut cargo = command
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = cargo.stdout.take().context("cargo has no stdout")?;
    let mut images = Vec::new();
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Message::CompilerArtifact(artifact) = message?
            && let Some(image) = artifact.executable
        {
            images.push(image.into());
        }
    }
    ensure!(
        cargo.wait()?.success(),
        "the programs do not build (see above)"
    );
    Ok(images)
}

/// How much the compiler optimizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Not at all; debug assertions are on.
    Dev,
    /// Fully, over all crates at once.
    Release,
}

impl Profile {
    fn flag(self) -> Option<&'static str> {
        match self {
            Self::Dev => None,
            Self::Release => Some("--release"),
        }
    }
}

/// A call of cargo for the host.
#[derive(Debug, Clone)]
pub struct Cargo {
    subcommand: &'static str,
    args: Vec<OsString>,
    program_args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Cargo {
    /// `cargo build`.
    pub fn build() -> Self {
        Self::new("build")
    }

    /// `cargo test`, which runs all tests even if some fail.
    pub fn test() -> Self {
        Self::new("test").arg("--no-fail-fast")
    }

    /// `cargo clippy` with warnings as errors.
    pub fn clippy() -> Self {
        let mut cargo = Self::new("clippy");
        cargo.program_args = vec!["-Dwarnings".to_owned()];
        cargo
    }

    /// `cargo doc` of our own packages with warnings as errors.
    pub fn doc() -> Self {
        Self::new("doc")
            .arg("--no-deps")
            .env("RUSTDOCFLAGS", "-Dwarnings")
    }

    /// `cargo fmt` that only checks.
    pub fn fmt_check() -> Self {
        Self::new("fmt").arg("--all").arg("--check")
    }

    /// All packages of the workspace.
    pub fn workspace(self) -> Self {
        self.arg("--workspace")
    }

    /// Leaves packages out of [`workspace`](Self::workspace).
    pub fn exclude<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        self.pairs("--exclude", packages)
    }

    /// These packages only.
    pub fn packages<S: AsRef<str>>(self, packages: impl IntoIterator<Item = S>) -> Self {
        self.pairs("--package", packages)
    }

    /// Selects targets: `--lib`, `--bins`, `--doc`, `--test=*`, `--all-targets`.
    pub fn targets(self, flag: &str) -> Self {
        self.arg(flag)
    }

    /// Optimizes, but each crate by itself: whole-program optimization costs
    /// host tools minutes and brings them nothing.
    ///
    /// These are arguments, since tests would hand an environment on to the
    /// kernel builds that they start.
    pub fn optimized(self) -> Self {
        self.arg("--release")
            .pairs("--config", ["profile.release.lto='off'"])
            .pairs("--config", ["profile.release.codegen-units=16"])
    }

    /// Ends on a panic, as kernels do: binaries without `std` cannot unwind.
    pub fn panic_abort(self) -> Self {
        self.pairs("--config", ["profile.dev.panic='abort'"])
    }

    /// Sets a `cfg` for all crates. The build goes to a target directory of
    /// its own, since other flags would rebuild everything each time.
    pub fn cfg(self, cfg: &str, target_dir: &Path) -> Self {
        self.env("RUSTFLAGS", format!("--cfg {cfg}"))
            .arg("--target-dir")
            .arg(target_dir)
    }

    /// Arguments for the test programs, or for the linter.
    pub fn program_args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.program_args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The command to run, without stdin.
    pub fn command(&self) -> Command {
        let mut command = toolchain::cargo();
        command
            .current_dir(workspace::root())
            .stdin(Stdio::null())
            .arg(self.subcommand)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        if !self.program_args.is_empty() {
            command.arg("--").args(&self.program_args);
        }
        command
    }

    /// Runs cargo, which prints what it has to say.
    ///
    /// # Errors
    ///
    /// If it cannot be started or does not succeed.
    pub fn run(&self) -> Result<()> {
        let status = self.command().status().context("cannot start cargo")?;
        if !status.success() {
            bail!("cargo {} failed: {status}", self.subcommand);
        }
        Ok(())
    }

    fn new(subcommand: &'static str) -> Self {
        Self {
            subcommand,
            args: Vec::new(),
            program_args: Vec::new(),
            env: Vec::new(),
        }
    }

    fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    fn pairs<S: AsRef<str>>(self, flag: &str, values: impl IntoIterator<Item = S>) -> Self {
        values
            .into_iter()
            .fold(self, |cargo, value| cargo.arg(flag).arg(value.as_ref()))
    }

    fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(cargo: &Cargo) -> Vec<String> {
        let command = cargo.command();
        let args = command.get_args().map(|arg| arg.to_string_lossy());
        args.map(String::from).collect()
    }

    #[test]
    fn arguments_are_in_cargos_order() {
        let cargo = Cargo::test()
            .packages(["a", "b"])
            .targets("--lib")
            .program_args(["model"]);
        assert_eq!(
            args(&cargo),
            [
                "test",
                "--no-fail-fast",
                "--package",
                "a",
                "--package",
                "b",
                "--lib",
                "--",
                "model"
            ]
        );
    }

    #[test]
    fn a_cfg_has_its_own_target_directory() {
        let cargo = Cargo::clippy().cfg("x", Path::new("/t"));
        assert_eq!(
            args(&cargo),
            ["clippy", "--target-dir", "/t", "--", "-Dwarnings"]
        );
        let command = cargo.command();
        let mut env = command.get_envs();
        assert!(env.any(|(name, value)| {
            name == "RUSTFLAGS" && value.is_some_and(|value| value == "--cfg x")
        }));
    }
}
