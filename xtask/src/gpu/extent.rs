//! How much of the suite runs: all of it, or what every check of a change can wait for.

use super::cases::{CASES, Case};

/// How much of the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    All,
    /// Without the unit tests of the libraries, each of which is compiled a second time for them,
    /// and without [`LEFT_OUT`].
    Quick,
}

/// What a quick run leaves out of a case.
#[derive(Debug, Clone, Copy)]
enum LeftOut {
    /// All of it, so that its crate is not built.
    Crate,
    /// Tests with these names.
    Tests(&'static [&'static str]),
}

/// What a quick run leaves out, by the folder of a crate.
///
/// Commands take two fifths of a whole run on an emulated GPU. The tests of KAN layers compile kernels
/// for many degrees, knots and sizes, or compute much; those that are left run every form of kernels.
const LEFT_OUT: [(&str, LeftOut); 2] = [
    ("cli", LeftOut::Crate),
    (
        "kan",
        LeftOut::Tests(&[
            "a_training_step_keeps_no_bases_and_needs_a_tenth_of_the_plain_paths_memory",
            "every_degree_over_equal_intervals_is_that_of_the_reference",
            "knots_of_each_input_are_those_of_the_reference",
            "nan_and_infinity_pass_as_in_the_definition",
            "odd_sizes_and_many_intervals_are_computed_between_knots",
            "outputs_and_gradients_are_those_of_the_reference_for_odd_sizes",
        ]),
    ),
];

impl Extent {
    /// The cases that run.
    pub(super) fn cases(self) -> impl Iterator<Item = &'static Case> {
        let cases: &'static [Case] = &CASES;
        cases.iter().filter(move |case| !matches!(self.left_out(case), Some(LeftOut::Crate)))
    }

    /// The test programs of each crate, as arguments of cargo.
    pub(super) const fn targets(self) -> &'static str {
        match self {
            Self::All => "--lib --test it",
            Self::Quick => "--test it",
        }
    }

    /// The arguments of a test program.
    pub(super) fn arguments(self, case: &Case) -> Vec<&'static str> {
        let mut arguments = vec!["--show-output"];
        arguments.extend((!case.filter.is_empty()).then_some(case.filter));
        if let Some(LeftOut::Tests(names)) = self.left_out(case) {
            arguments.extend(names.iter().flat_map(|name| ["--skip", *name]));
        }
        arguments
    }

    fn left_out(self, case: &Case) -> Option<LeftOut> {
        if self == Self::All {
            return None;
        }
        let of_case = LEFT_OUT.iter().find(|(folder, _)| *folder == case.folder);
        of_case.map(|(_, left_out)| *left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::root;

    /// The sources of a folder and its folders.
    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                text.push_str(&sources(&path));
            } else {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
        text
    }

    /// A test that has another name now would run again.
    #[test]
    fn what_a_quick_run_leaves_out_exists() {
        for (folder, left_out) in LEFT_OUT {
            assert!(CASES.iter().any(|case| case.folder == folder), "{folder}");
            let LeftOut::Tests(names) = left_out else { continue };
            let tests = sources(&root().join("crates").join(folder).join("tests").join("it"));
            for name in names {
                assert!(tests.contains(&format!("fn {name}()")), "crates/{folder}: {name}");
            }
        }
    }

    #[test]
    fn a_quick_run_builds_fewer_programs_and_runs_fewer_tests() {
        let folders = |extent: Extent| extent.cases().map(|case| case.folder).collect::<Vec<_>>();
        assert_eq!(folders(Extent::All), CASES.iter().map(|c| c.folder).collect::<Vec<_>>());
        assert!(folders(Extent::All).contains(&"cli"));
        assert!(!folders(Extent::Quick).contains(&"cli"));
        assert!(folders(Extent::Quick).contains(&"conv"));
        assert!(!Extent::Quick.targets().contains("--lib"));

        let of = |extent: Extent, folder: &str| {
            extent.arguments(extent.cases().find(|case| case.folder == folder).unwrap())
        };
        assert_eq!(of(Extent::All, "kan"), ["--show-output", "cube"]);
        assert_eq!(of(Extent::All, "device"), ["--show-output"]);
        assert_eq!(of(Extent::Quick, "conv"), ["--show-output", "cube"]);
        let kan = of(Extent::Quick, "kan");
        assert_eq!(kan[..3], ["--show-output", "cube", "--skip"]);
        assert_eq!(kan.len() % 2, 0, "{kan:?}");
        assert!(kan.contains(&"nan_and_infinity_pass_as_in_the_definition"));
    }
}
