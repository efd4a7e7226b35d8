//! The options of `test-device` and `gpu-report`.

use std::path::PathBuf;

/// The backends of burn that a build can contain, as its features are called.
const BACKENDS: [&str; 6] = ["cuda", "rocm", "metal", "vulkan", "webgpu", "wgpu"];

/// Burn's kernel fusion, with which operations of ours take another way.
pub(super) const FUSION: &str = "fusion";

pub(super) struct Options {
    pub(super) device: String,
    /// Also test a build with [`FUSION`].
    pub(super) fusion: bool,
    /// Where `test-device` writes its results.
    pub(super) json: Option<PathBuf>,
    /// The Python of PyTorch, for `gpu-report`.
    pub(super) python: Option<String>,
    /// Where `gpu-report` writes its results.
    pub(super) to: Option<PathBuf>,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options =
            Self { device: "wgpu".to_owned(), fusion: false, json: None, python: None, to: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--device" => options.device.clone_from(value()?),
                "--with" => match value()?.as_str() {
                    FUSION => options.fusion = true,
                    other => return Err(format!("--with knows {FUSION}; not `{other}`")),
                },
                "--json" => options.json = Some(value()?.into()),
                "--python" => options.python = Some(value()?.clone()),
                "--to" => options.to = Some(value()?.into()),
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
    use super::*;

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
    fn a_second_build_is_with_fusion() {
        assert!(!read(&[]).unwrap().fusion);
        assert!(read(&["--with", "fusion"]).unwrap().fusion);
        let message = read(&["--with", "autotune"]).err().unwrap();
        assert!(message.contains("not `autotune`"), "{message}");
    }
}
