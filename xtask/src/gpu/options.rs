//! The options of `test-device` and `gpu-report`.

use std::path::PathBuf;

use super::report::Size;

/// The backends of burn that a build can contain, as its features are called.
const BACKENDS: [&str; 6] = ["cuda", "rocm", "metal", "vulkan", "webgpu", "wgpu"];

/// Features of burn that a second build can have: fused kernels, with which operations of ours take
/// another way, and kernels chosen by measurement, whose choices a run stores.
const SECOND_BUILDS: [&str; 2] = ["fusion", "autotune"];

pub(super) struct Options {
    pub(super) device: String,
    /// Also test a build with each of these [`SECOND_BUILDS`].
    pub(super) with: Vec<&'static str>,
    /// Leave out what takes longest on an emulated GPU.
    pub(super) quick: bool,
    /// Where `test-device` writes its results.
    pub(super) json: Option<PathBuf>,
    /// The Python of PyTorch, for `gpu-report`.
    pub(super) python: Option<String>,
    /// Where `gpu-report` writes its results.
    pub(super) to: Option<PathBuf>,
    /// The size of what `gpu-report` times, instead of what fits the card.
    pub(super) size: Option<Size>,
    /// Whether `gpu-report` starts although something is missing.
    pub(super) ignores_checks: bool,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            device: "wgpu".to_owned(),
            with: Vec::new(),
            quick: false,
            json: None,
            python: None,
            to: None,
            size: None,
            ignores_checks: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--device" => options.device.clone_from(value()?),
                "--with" => {
                    let given = value()?;
                    let known = SECOND_BUILDS.into_iter().find(|known| known == given);
                    let known = known.ok_or_else(|| {
                        format!("--with knows {}; not `{given}`", SECOND_BUILDS.join(", "))
                    })?;
                    if !options.with.contains(&known) {
                        options.with.push(known);
                    }
                }
                "--quick" => options.quick = true,
                "--json" => options.json = Some(value()?.into()),
                "--python" => options.python = Some(value()?.clone()),
                "--to" => options.to = Some(value()?.into()),
                "--size" => {
                    let given = value()?;
                    let known = Size::ALL.into_iter().find(|size| size.name() == given);
                    let names = Size::ALL.map(Size::name).join(", ");
                    let known = known.ok_or_else(|| format!("--size knows {names}; not `{given}`"));
                    options.size = Some(known?);
                }
                "--ignore-checks" => options.ignores_checks = true,
                other => {
                    return Err(format!("there is no option `{other}`; see `cargo xtask --help`"));
                }
            }
        }
        if !BACKENDS.contains(&options.device.as_str()) {
            let all = BACKENDS.join(", ");
            return Err(format!("--device knows {all}; not `{}`", options.device));
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::cases;
    use super::super::extent::Extent;
    use super::*;
    use crate::root;

    fn read(arguments: &[&str]) -> Result<Options, String> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Options::read(&arguments)
    }

    #[test]
    fn a_device_is_a_backend_of_burn() {
        assert_eq!(read(&["--dry-run"]).map(|options| options.device).unwrap(), "wgpu");
        assert_eq!(read(&["--device", "cuda"]).map(|options| options.device).unwrap(), "cuda");
        let said = |arguments| read(arguments).err().unwrap();
        assert!(said(&["--device", "flex"]).contains("not `flex`"));
        assert_eq!(said(&["--device"]), "--device needs a value");
        assert!(said(&["--cuda"]).contains("no option `--cuda`"));
    }

    #[test]
    fn second_builds_are_with_a_feature_each() {
        assert!(read(&[]).unwrap().with.is_empty());
        assert_eq!(read(&["--with", "fusion"]).unwrap().with, ["fusion"]);
        let both = ["--with", "autotune", "--with", "fusion", "--with", "autotune"];
        assert_eq!(read(&both).unwrap().with, ["autotune", "fusion"]);
        let message = read(&["--with", "persistence"]).err().unwrap();
        assert_eq!(message, "--with knows fusion, autotune; not `persistence`");
    }

    #[test]
    fn a_report_has_the_size_that_fits_unless_one_is_named() {
        let options = read(&["--device", "cuda"]).unwrap();
        assert!(options.size.is_none() && !options.ignores_checks);
        let options = read(&["--size", "full", "--ignore-checks"]).unwrap();
        assert_eq!(options.size, Some(Size::Full));
        assert!(options.ignores_checks);
        let message = read(&["--size", "huge"]).err().unwrap();
        assert_eq!(message, "--size knows full, medium, small; not `huge`");
    }

    /// A crate that misses one would be tested without it.
    #[test]
    fn a_second_build_has_its_feature_in_every_crate_that_depends_on_it() {
        for with in SECOND_BUILDS {
            let build = cases::build("wgpu", Some(with), Extent::All).unwrap();
            for package in ["updraft", "updraft-device", "updraft-kan"] {
                let feature = format!("{package}/{with}");
                assert!(build.split([' ', ',']).any(|word| word == feature), "{feature}: {build}");
            }
        }
        // Choices are stored with a run by `persistence`, which no case names.
        let manifest = fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let autotune = manifest["features"]["autotune"].as_array().unwrap();
        for feature in ["burn/persistence", "updraft-device/persistence"] {
            assert!(autotune.iter().any(|it| it.as_str() == Some(feature)), "{autotune:?}");
        }
    }

    #[test]
    fn a_run_is_quick_only_if_asked_for_and_on_any_backend() {
        assert!(!read(&["--device", "cuda"]).unwrap().quick);
        let options = read(&["--quick", "--device", "cuda", "--with", "fusion"]).unwrap();
        assert!(options.quick && options.with == ["fusion"]);
        assert_eq!(options.device, "cuda");
    }
}
