//! The parts of a prediction, divided among ranks in rounds of one part for each.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use updraft_distributed::{Collective, gather};

use super::{Parts, PartsFolder};
use crate::exit_code;

/// A part that failed, on any rank.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct PartFailed {
    /// The exit code of its error.
    pub(crate) code: u8,
    pub(crate) reason: String,
}

/// What a rank sends after its part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) text: String,
    /// The exit code and the text of an error.
    pub(super) failed: Option<(u8, String)>,
    /// Whether there was nothing left to predict.
    pub(super) has_ended: bool,
}

impl Done {
    pub(super) fn of(text: String, predicted: Result<()>, has_ended: bool) -> Self {
        let failed = predicted.err().map(|error| (exit_code(&error), format!("{error:#}")));
        Self { text, failed, has_ended }
    }
}

/// Predicts all parts, and prints on rank 0, in the order of files.
///
/// `predict` appends the lines of a part to a text. With a folder, parts that it has are not
/// predicted again, and everything is printed at the end; otherwise after each round. A part that
/// `predict` has kept there in blocks is not written again.
///
/// # Errors
/// [`PartFailed`] on every rank for the first part in order that failed, after rank 0 has printed
/// what comes before it; an error of `print` on rank 0.
pub(crate) fn predict_parts(
    ranks: &mut dyn Collective,
    (parts, folder): (&Parts, Option<&PartsFolder>),
    predict: &mut dyn FnMut(usize, &mut String) -> Result<()>,
    print: &mut dyn FnMut(&str) -> Result<()>,
    progress: &mut dyn FnMut(usize),
) -> Result<()> {
    let is_first = ranks.rank() == 0;
    let left = match folder {
        Some(folder) => unfinished(ranks, parts, folder)?,
        None => (0..parts.count()).collect(),
    };
    let mut finished = parts.count() - left.len();
    for round in left.chunks(ranks.size()) {
        progress(finished);
        let done = match round.get(ranks.rank()) {
            Some(&part) => predict_part(folder, part, predict),
            None => Done::default(),
        };
        let sent = serde_json::to_vec(&done).context("a part is not text")?;
        for bytes in gather(ranks, &sent)? {
            let done: Done = serde_json::from_slice(&bytes).context("a rank sends a part")?;
            if is_first {
                print(&done.text)?;
            }
            if let Some((code, reason)) = done.failed {
                return Err(PartFailed { code, reason }.into());
            }
        }
        finished += round.len();
    }
    progress(finished);
    match folder.filter(|_| is_first) {
        Some(folder) => (0..parts.count()).try_for_each(|part| folder.each_text(part, print)),
        None => Ok(()),
    }
}

/// What rank 0 computes, on every rank.
pub(super) fn of_rank_0<T: Default + Serialize + DeserializeOwned>(
    ranks: &mut dyn Collective,
    compute: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let own = if ranks.rank() == 0 { compute()? } else { T::default() };
    let all = gather(ranks, &serde_json::to_vec(&own)?)?;
    serde_json::from_slice(&all[0]).context("rank 0 sends what it has computed")
}

/// The parts that rank 0 does not find in the folder.
pub(crate) fn unfinished(
    ranks: &mut dyn Collective,
    parts: &Parts,
    folder: &PartsFolder,
) -> Result<Vec<usize>> {
    of_rank_0(ranks, || Ok((0..parts.count()).filter(|&part| !folder.has(part)).collect()))
}

fn predict_part(
    folder: Option<&PartsFolder>,
    part: usize,
    predict: &mut dyn FnMut(usize, &mut String) -> Result<()>,
) -> Done {
    let mut text = String::new();
    let predicted = predict(part, &mut text);
    let kept = match folder {
        Some(folder) => {
            let text = std::mem::take(&mut text);
            predicted.and_then(|()| if folder.has(part) { Ok(()) } else { folder.add(part, &text) })
        }
        None => predicted,
    };
    Done::of(text, kept, false)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use anyhow::bail;
    use updraft_distributed::Threads;

    use super::*;
    use crate::predictions::PartsKey;

    const BAD: &str = "bad";

    fn files(count: usize) -> Vec<PathBuf> {
        (0..count).map(|at| format!("file {at}").into()).collect()
    }

    /// What rank 0 printed, what each rank returned, and how many files were predicted.
    fn on_ranks(
        size: usize,
        files: &[PathBuf],
        folder: Option<&Path>,
    ) -> (String, Vec<Result<()>>, usize) {
        let count = AtomicUsize::new(0);
        let ranks = Threads::group(size, Duration::from_secs(60));
        let ended: Vec<_> = thread::scope(|scope| {
            let ranks = ranks.into_iter().map(|mut rank| {
                let (count, parts) = (&count, Parts::new(files.to_vec()));
                scope.spawn(move || {
                    let mut printed = String::new();
                    let folder = folder.map(PartsFolder::opened_by_another);
                    let ended = predict_parts(
                        &mut rank,
                        (&parts, folder.as_ref()),
                        &mut |part, text| {
                            for file in parts.files_of(part) {
                                count.fetch_add(1, Ordering::SeqCst);
                                *text += &format!("{} first\n", file.display());
                                if file.ends_with(BAD) {
                                    bail!("cannot read it");
                                }
                                *text += &format!("{} second\n", file.display());
                            }
                            Ok(())
                        },
                        &mut |text| {
                            printed += text;
                            Ok(())
                        },
                        &mut |_| (),
                    );
                    (printed, ended)
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(ended[1..].iter().all(|(printed, _)| printed.is_empty()), "only rank 0 prints");
        let first = ended[0].0.clone();
        (first, ended.into_iter().map(|(_, ended)| ended).collect(), count.into_inner())
    }

    fn expected(files: &[PathBuf]) -> String {
        let lines = |file: &PathBuf| format!("{0} first\n{0} second\n", file.display());
        files.iter().map(lines).collect()
    }

    #[test]
    fn any_number_of_ranks_prints_the_same() {
        for count in [1, 7, 600] {
            let files = files(count);
            for size in [1, 2, 3, 8] {
                let (printed, ended, predicted) = on_ranks(size, &files, None);
                assert!(ended.iter().all(Result::is_ok));
                assert_eq!(printed, expected(&files), "{count} files, {size} ranks");
                assert_eq!(predicted, count);
            }
        }
    }

    #[test]
    fn a_file_that_fails_ends_all_ranks_after_what_is_before_it() {
        let mut files = files(10);
        files[4] = BAD.into();
        for size in [1, 2, 3] {
            let (printed, ended, _) = on_ranks(size, &files, None);
            assert_eq!(printed, format!("{}{BAD} first\n", expected(&files[..4])), "{size} ranks");
            for error in ended {
                let error = error.unwrap_err();
                assert_eq!(error.to_string(), "cannot read it");
                assert_eq!(error.downcast_ref::<PartFailed>().unwrap().code, crate::BAD_INPUT);
            }
        }
    }

    #[test]
    fn finished_parts_are_not_predicted_again_by_any_number_of_ranks() {
        let dir = tempfile::tempdir().unwrap();
        let key = PartsKey {
            version: String::new(),
            model: String::new(),
            options: String::new(),
            files: 600,
            state: String::new(),
        };
        PartsFolder::open(dir.path(), &key).unwrap();
        // In parts of three files.
        let good = files(600);
        let mut bad = good.clone();
        bad[100] = BAD.into();
        let (printed, ended, before) = on_ranks(2, &bad, Some(dir.path()));
        assert!(printed.is_empty() && ended.iter().all(Result::is_err));
        // Both ranks have done 16 parts, and the other rank the part beside the bad file.
        assert_eq!(before, 17 * 3 * 2 - 1);
        let (printed, ended, after) = on_ranks(3, &good, Some(dir.path()));
        assert!(ended.iter().all(Result::is_ok));
        assert_eq!(printed, expected(&good));
        assert_eq!(after, 600 - 33 * 3);
        let (printed, _, again) = on_ranks(1, &good, Some(dir.path()));
        assert_eq!((printed, again), (expected(&good), 0));
    }
}
