//! What choices of kernels belong to: a device, its driver and the versions of the program.

use burn::tensor::Device;
use cubecl_environment::persistence::Namespace;
use serde::{Deserialize, Serialize};

use crate::facts::describe;
use crate::spec::Backend;

/// The device, the driver and the version for which kernels were chosen by measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KernelOrigin {
    /// The name of the backend.
    pub backend: String,
    /// The hardware's own name; `None` if it is not known, as for the next two.
    pub device: Option<String>,
    /// What kernels are compiled for.
    pub target: Option<String>,
    /// The version of the driver, which only NVIDIA's library reports.
    pub driver: Option<String>,
    /// The version of CubeCL, which defines the kernels.
    pub cubecl: String,
    /// The operating system and the processor's architecture.
    pub system: String,
}

/// A fact in which two origins differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginDifference {
    /// What differs, such as `driver`.
    pub fact: &'static str,
    /// The value with which the choices were stored.
    pub stored: String,
    /// The value here.
    pub here: String,
}

impl KernelOrigin {
    /// The origin of kernels on a device of a backend; opens the device.
    #[must_use]
    pub fn of(backend: Backend, device: &Device) -> Self {
        let (name, _, facts) = describe(backend, device);
        Self {
            backend: backend.name().to_owned(),
            device: name,
            target: facts.target,
            driver: facts.driver,
            cubecl: cubecl_version(),
            system: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }

    /// The first fact in which a stored origin differs from this one; `None` if its choices may be
    /// used here.
    #[must_use]
    pub fn difference(&self, stored: &Self) -> Option<OriginDifference> {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
        let pairs = [
            ("backend", stored.backend.clone(), self.backend.clone()),
            ("device", known(&stored.device), known(&self.device)),
            ("target", known(&stored.target), known(&self.target)),
            ("driver", known(&stored.driver), known(&self.driver)),
            ("version of CubeCL", stored.cubecl.clone(), self.cubecl.clone()),
            ("system", stored.system.clone(), self.system.clone()),
        ];
        let mut differing = pairs.into_iter().filter(|(_, stored, here)| stored != here);
        differing.next().map(|(fact, stored, here)| OriginDifference { fact, stored, here })
    }
}

impl std::fmt::Display for OriginDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fact, stored, here } = self;
        write!(f, "{fact}: expected {here}, got {stored}")
    }
}

/// The version that CubeCL puts into the names of what it keeps.
fn cubecl_version() -> String {
    let namespace = Namespace::new("version");
    namespace.as_str().split('/').nth(1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> KernelOrigin {
        KernelOrigin {
            backend: "cuda".to_owned(),
            device: Some("NVIDIA H100".to_owned()),
            target: Some("ptx_sm90".to_owned()),
            driver: Some("570.86".to_owned()),
            cubecl: "0.11.3".to_owned(),
            system: "linux-x86_64".to_owned(),
        }
    }

    #[test]
    fn every_fact_is_compared_and_named() {
        assert_eq!(origin().difference(&origin()), None);
        let other = || "other".to_owned();
        for (fact, stored) in [
            ("backend", KernelOrigin { backend: other(), ..origin() }),
            ("device", KernelOrigin { device: Some(other()), ..origin() }),
            ("target", KernelOrigin { target: Some(other()), ..origin() }),
            ("driver", KernelOrigin { driver: Some(other()), ..origin() }),
            ("version of CubeCL", KernelOrigin { cubecl: other(), ..origin() }),
            ("system", KernelOrigin { system: other(), ..origin() }),
        ] {
            let found = origin().difference(&stored).expect(fact);
            assert_eq!((found.fact, &*found.stored), (fact, "other"));
        }
        let unknown = KernelOrigin { driver: None, ..origin() };
        let found = origin().difference(&unknown).expect("a driver");
        assert_eq!(found.to_string(), "driver: expected 570.86, got not known");
    }

    #[test]
    fn an_origin_is_the_same_after_json() {
        let text = serde_json::to_string(&origin()).expect("JSON");
        assert_eq!(serde_json::from_str::<KernelOrigin>(&text).expect("an origin"), origin());
    }

    #[test]
    fn the_version_of_cubecl_is_the_locked_one() {
        let lock = include_str!("../../../../Cargo.lock");
        let expected = format!("name = \"cubecl-environment\"\nversion = \"{}\"", cubecl_version());
        assert!(lock.contains(&expected), "{expected}");
    }
}
