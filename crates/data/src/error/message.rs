//! Parts of error messages that are longer than a line.

/// What differs between a loader and the state it is to resume from: for fingerprints, the possible
/// causes instead of the hashes.
pub(super) fn foreign(setting: &str, loader: &str, state: &str) -> String {
    match setting {
        "source fingerprint" => "the loader state was taken of other samples: files were added, \
                                 removed or changed, or the data is another"
            .to_owned(),
        "sample settings fingerprint" => "the loader state was taken with another size, \
                                          normalization or augmentation of the samples"
            .to_owned(),
        _ => format!(
            "the loader state was taken with {setting} {state}, this loader has {setting} {loader}"
        ),
    }
}

/// What must be as it was for a setting of a loader to be that of its state.
pub(super) fn cause_of(setting: &str) -> &'static str {
    match setting {
        "source fingerprint" => "the data",
        "samples" => "the data and the settings",
        _ => "the settings",
    }
}

/// The first ten names in backticks, and how many more there are.
pub(super) fn names(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    text.join(", ")
}
