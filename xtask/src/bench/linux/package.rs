//! Debian's kernel for virtual machines: fetched through apt and unpacked, but
//! not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::packages::{self, Progress};
use crate::usage::Usage;

/// The package that stands for the current kernel.
const METAPACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel package, unpacked.
#[derive(Debug)]
pub struct Package {
    root: PathBuf,
}

impl Package {
    /// The current kernel package, which is fetched into `directory` unless it
    /// is there.
    ///
    /// # Errors
    ///
    /// [`Usage`] if this is not Debian or apt does not know the package;
    /// otherwise whatever apt-get or dpkg-deb say.
    pub fn fetch(directory: &Path) -> Result<Self> {
        for program in ["apt-cache", "apt-get", "dpkg-deb"] {
            if packages::find(program).is_none() {
                let message = format!("the Linux guest needs Debian's packages, and {program}");
                return Err(Usage::new(message).into());
            }
        }
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let package = concrete_package()?;
        let uris = output(Command::new("apt-get").args(["--print-uris", "download", &package]))?;
        let file = file_name(&uris).with_context(|| format!("apt-get has no {package}"))?;
        let root = directory.join(file.trim_end_matches(".deb"));
        if !root.exists() {
            let progress = Progress::start(format!("fetching {package}"));
            let unpacked = download(directory, &package, file, &root);
            progress.finish();
            unpacked?;
        }
        Ok(Self { root })
    }

    /// The kernel's image.
    ///
    /// # Errors
    ///
    /// If the package has not exactly one.
    pub fn image(&self) -> Result<PathBuf> {
        only(&self.root.join("boot"), "vmlinuz-")
    }

    /// The directory of the kernel's modules.
    ///
    /// # Errors
    ///
    /// If the package has not exactly one.
    pub fn modules(&self) -> Result<PathBuf> {
        // Newer releases of Debian have no `/lib` of its own.
        let places = ["lib/modules", "usr/lib/modules"].map(|place| self.root.join(place));
        let place = places.iter().find(|place| place.is_dir());
        only(place.context("the package has no modules")?, "")
    }
}

/// What the metapackage stands for now.
fn concrete_package() -> Result<String> {
    let depends = Command::new("apt-cache")
        .args(["depends", METAPACKAGE])
        .output()?;
    let depends = String::from_utf8_lossy(&depends.stdout);
    dependency(&depends).map(str::to_owned).ok_or_else(|| {
        let message = format!(
            "apt knows no package {METAPACKAGE}; on Debian, `apt-get update` as root may help"
        );
        Usage::new(message).into()
    })
}

fn download(directory: &Path, package: &str, file: &str, root: &Path) -> Result<()> {
    let mut download = Command::new("apt-get");
    download.args(["download", package]).current_dir(directory);
    output(&mut download).context("`apt-get update` as root may help")?;
    let archive = directory.join(file);
    // Under its name it is complete.
    let partial = directory.join(format!("{file}.{}", std::process::id()));
    output(
        Command::new("dpkg-deb")
            .arg("-x")
            .args([&archive, &partial]),
    )?;
    fs::rename(&partial, root)?;
    Ok(fs::remove_file(&archive)?)
}

/// Runs `command` and returns what it prints.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The name of the only entry of `directory` that begins with `prefix`.
fn only(directory: &Path, prefix: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    match <[_; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => {
            let directory = directory.display();
            bail!("{directory} has {} entries {prefix}*, not one", found.len())
        }
    }
}

/// The first `Depends:` of `apt-cache depends`.
fn dependency(depends: &str) -> Option<&str> {
    let mut lines = depends.lines();
    lines.find_map(|line| line.trim_start().strip_prefix("Depends: "))
}

/// The file in `'URI' FILE SIZE HASH`.
fn file_name(uris: &str) -> Option<&str> {
    let line = uris.lines().find(|line| line.starts_with('\''))?;
    line.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metapackage_names_the_kernel() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-9-cloud-amd64\n";
        assert_eq!(dependency(text), Some("linux-image-6.1.0-9-cloud-amd64"));
        assert_eq!(dependency(""), None);
    }

    #[test]
    fn apt_tells_the_name_of_the_file() {
        let text = "'http://a/pool/l/linux_1_amd64.deb' linux_1%2b2_amd64.deb 26705532 SHA256:0\n";
        assert_eq!(file_name(text), Some("linux_1%2b2_amd64.deb"));
        assert_eq!(file_name(""), None);
    }
}
