//! The benchmarks of a report, by what a card can hold and how fast it may be.

/// How large the problems are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gpu) enum Size {
    Full,
    Medium,
    Small,
}

/// A selection of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bench {
    /// The folder of its run.
    pub(super) name: &'static str,
    pub(super) filter: &'static str,
    pub(super) about: &'static str,
}

/// Free memory of a card from which its problems are those of [`Size::Full`]: all strategies of a
/// KAN layer are ready at the same time. The saved run on an H200 reserves 11 GiB in all for 8192
/// samples over 20 intervals, without burn's operations, the expanded forms and flashkan, and each
/// process has a context of about half a GiB.
const FULL_MIB: f64 = 36.0 * 1024.0;

/// The same of [`Size::Medium`], for an eighth of the samples.
const MEDIUM_MIB: f64 = 12.0 * 1024.0;

impl Size {
    pub(in crate::gpu) const ALL: [Self; 3] = [Self::Full, Self::Medium, Self::Small];

    pub(in crate::gpu) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Medium => "medium",
            Self::Small => "small",
        }
    }

    /// The size for an adapter, and why.
    pub(super) fn of(is_emulated: bool, free_mib: Option<f64>) -> (Self, String) {
        if is_emulated {
            let why = "the processor emulates this GPU: small entries and few samples, so that it \
                       takes minutes";
            return (Self::Small, why.to_owned());
        }
        // Rounded down, as what is not reached must not read as if it were.
        let gib = |mib: f64| format!("{:.0} GiB", (mib / 1024.0).floor());
        match free_mib {
            Some(free) if free >= FULL_MIB => {
                (Self::Full, format!("{} of the card's memory are free", gib(free)))
            }
            Some(free) if free >= MEDIUM_MIB => {
                let [free, needed] = [free, FULL_MIB].map(gib);
                let why = format!("{free} of the card's memory are free, `full` takes {needed}");
                (Self::Medium, why)
            }
            Some(free) => {
                let [free, needed] = [free, MEDIUM_MIB].map(gib);
                let why = format!("{free} of the card's memory are free, `medium` takes {needed}");
                (Self::Small, why)
            }
            None => (Self::Medium, "the free memory of the card is not known".to_owned()),
        }
    }

    /// The benchmarks, quickest first.
    pub(super) fn benches(self) -> Vec<Bench> {
        let [matmul, kan, infer, int8, train] = match self {
            Self::Full => {
                ["matmul/*", "kan/*-b8192-512to512-*", "infer/*", "quant/dual-pathway-*", "train/*"]
            }
            Self::Medium => [
                "matmul/*",
                "kan/*-b1024-512to512-*",
                "infer/*",
                "quant/dual-pathway-*",
                "train/*-32px-b64",
            ],
            Self::Small => [
                "matmul/f32-512*",
                "kan/training-b256-512to512-*",
                "infer/*-b16",
                "quant/resnet18-b1",
                "train/*-b16",
            ],
        };
        let bench = |name, filter, about| Bench { name, filter, about };
        vec![
            bench("matmul", matmul, "square matrix products of burn"),
            bench("kan", kan, "KAN layers of 512 inputs and outputs: our kernels, burn, PyTorch"),
            bench("infer", infer, "forward passes of networks in f32"),
            bench("int8", int8, "forward passes in int8, beside f32 and onnxruntime"),
            bench("train", train, "training steps of networks"),
        ]
    }

    /// Options of the runner that keep an emulated GPU from taking hours.
    pub(super) const fn effort(self) -> &'static [&'static str] {
        match self {
            Self::Full | Self::Medium => &[],
            Self::Small => &["--samples", "3"],
        }
    }

    /// The features of burn that the runner has beside the backend: on an emulated GPU none, where
    /// neither was tried.
    pub(super) const fn features(is_emulated: bool) -> &'static [&'static str] {
        if is_emulated { &[] } else { &["fusion", "autotune"] }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root;

    #[test]
    fn an_emulated_gpu_takes_small_entries_whatever_its_memory() {
        for free in [None, Some(80_000.0)] {
            let (size, why) = Size::of(true, free);
            assert_eq!(size, Size::Small);
            assert!(why.contains("emulates"), "{why}");
            assert!(!size.effort().is_empty());
        }
        assert!(Size::features(true).is_empty());
    }

    #[test]
    fn a_card_takes_the_largest_entries_that_fit() {
        for (free, size, part) in [
            (Some(80_000.0), Size::Full, "78 GiB"),
            (Some(24_000.0), Size::Medium, "`full` takes 36 GiB"),
            (Some(8000.0), Size::Small, "`medium` takes 12 GiB"),
            (Some(12_200.0), Size::Small, "11 GiB of the card's memory are free"),
            (None, Size::Medium, "not known"),
        ] {
            let (chosen, why) = Size::of(false, free);
            assert_eq!(chosen, size, "{free:?}");
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(Size::features(false), ["fusion", "autotune"]);
    }

    /// The catalog's lists have the batch and the widths of the KAN layers that a size names.
    #[test]
    fn every_size_has_kan_layers_over_5_and_20_intervals() {
        let catalog = root().join("benches/src/catalog/mod.rs");
        let catalog = fs::read_to_string(catalog).unwrap();
        for size in Size::ALL {
            let kan = size.benches().into_iter().find(|bench| bench.name == "kan").unwrap();
            let batch = kan.filter.split("-b").nth(1).unwrap().split('-').next().unwrap();
            for intervals in [5, 20] {
                let row = format!("([{batch}, 512, 512, {intervals}]");
                assert!(catalog.contains(&row), "{row}");
            }
        }
    }

    #[test]
    fn folders_of_runs_have_different_names() {
        for size in Size::ALL {
            let mut names: Vec<_> = size.benches().iter().map(|bench| bench.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), size.benches().len());
        }
    }
}
