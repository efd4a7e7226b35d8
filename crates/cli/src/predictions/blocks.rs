//! The samples of one file, whose blocks several ranks divide.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use updraft_distributed::{Collective, gather};

use super::PartsFolder;
use super::rounds::{Done, PartFailed, of_rank_0};

/// Predicts the blocks of a file in rounds of one for each rank, and prints on rank 0 after each
/// round, in the order of the file; with a folder, it keeps each block there instead, as those of
/// this part, and predicts none that the folder has.
///
/// Every rank reads the whole file: `next` skips so many blocks and appends the lines of the one
/// after them to the text; false if the file has ended.
///
/// # Errors
/// [`PartFailed`] on every rank for the first block that failed, after rank 0 has printed what comes
/// before it; an error of `print` on rank 0.
pub(crate) fn predict_blocks(
    ranks: &mut dyn Collective,
    kept: Option<(&PartsFolder, usize)>,
    next: &mut dyn FnMut(usize, &mut String) -> Result<bool>,
    print: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let (rank, is_first) = (ranks.rank(), ranks.rank() == 0);
    let done = of_rank_0(ranks, || kept.map_or(Ok(BTreeSet::new()), |(it, part)| it.blocks(part)))?;
    let mut left = (0..).filter(|block| !done.contains(block));
    let mut read = 0;
    loop {
        let round: Vec<usize> = left.by_ref().take(ranks.size()).collect();
        let block = round[rank];
        let mut text = String::new();
        let predicted = next(block - read, &mut text);
        read = block + 1;
        let has_ended = matches!(predicted, Ok(false));
        let predicted = match (kept, predicted) {
            (Some((folder, part)), Ok(true)) => {
                folder.add_block(part, block, &std::mem::take(&mut text))
            }
            (_, predicted) => predicted.map(drop),
        };
        let sent = Done::of(text, predicted, has_ended);
        let sent = serde_json::to_vec(&sent).context("a block is not text")?;
        let mut end = None;
        // A block that one rank cannot read stops the ranks after it, too: the first one counts.
        for (block, bytes) in round.into_iter().zip(gather(ranks, &sent)?) {
            let done: Done = serde_json::from_slice(&bytes).context("a rank sends a block")?;
            if is_first {
                print(&done.text)?;
            }
            if let Some((code, reason)) = done.failed {
                return Err(PartFailed { code, reason }.into());
            }
            end = end.or(done.has_ended.then_some(block));
        }
        if let Some(blocks) = end {
            return match kept.filter(|_| is_first) {
                Some((folder, part)) => folder.end_blocks(part, blocks),
                None => Ok(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    use anyhow::bail;
    use updraft_distributed::Threads;

    use super::*;

    /// What rank 0 printed, what each rank returned, and the blocks that each predicted, of a file
    /// whose block `bad` cannot be read, or predicted.
    fn on_ranks(
        size: usize,
        blocks: usize,
        bad: Option<(usize, bool)>,
        folder: Option<&Path>,
    ) -> (String, Vec<Result<()>>, Vec<usize>) {
        let of_rank = |mut rank: Threads| {
            let (mut printed, mut at, mut predicted) = (String::new(), 0, 0);
            let mut next = |skipped: usize, text: &mut String| {
                for is_skipped in (0..skipped).map(|_| true).chain([false]) {
                    if at == blocks {
                        return Ok(false);
                    }
                    if let Some((bad, in_reading)) = bad
                        && bad == at
                        && (in_reading || !is_skipped)
                    {
                        bail!("block {at} is bad");
                    }
                    if !is_skipped {
                        predicted += 1;
                        *text += &format!("block {at}\n");
                    }
                    at += 1;
                }
                Ok(true)
            };
            let mut print = |text: &str| {
                printed += text;
                Ok(())
            };
            let folder = folder.map(PartsFolder::opened_by_another);
            let kept = folder.as_ref().map(|folder| (folder, 5));
            let ended = predict_blocks(&mut rank, kept, &mut next, &mut print);
            (printed, ended, predicted)
        };
        let ended: Vec<_> = thread::scope(|scope| {
            let ranks = Threads::group(size, Duration::from_secs(60));
            let ranks = ranks.into_iter().map(|rank| scope.spawn(|| of_rank(rank)));
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(ended[1..].iter().all(|(printed, ..)| printed.is_empty()), "only rank 0 prints");
        let printed = ended[0].0.clone();
        let predicted = ended.iter().map(|(.., predicted)| *predicted).collect();
        (printed, ended.into_iter().map(|(_, ended, _)| ended).collect(), predicted)
    }

    fn expected(blocks: usize) -> String {
        (0..blocks).map(|at| format!("block {at}\n")).collect()
    }

    #[test]
    fn any_number_of_ranks_prints_the_same_and_divides_the_blocks() {
        for blocks in [0, 1, 2, 3, 6, 7] {
            for size in [1, 2, 3, 8] {
                let (printed, ended, predicted) = on_ranks(size, blocks, None, None);
                assert!(ended.iter().all(Result::is_ok));
                assert_eq!(printed, expected(blocks), "{blocks} blocks, {size} ranks");
                let shares: Vec<usize> =
                    (0..size).map(|rank| (rank..blocks).step_by(size).count()).collect();
                assert_eq!(predicted, shares, "{blocks} blocks, {size} ranks");
            }
        }
    }

    #[test]
    fn a_bad_block_ends_all_ranks_after_what_is_before_it() {
        for (bad, in_reading) in [(0, true), (3, true), (4, true), (4, false), (5, false)] {
            for size in [1, 2, 3, 8] {
                let (printed, ended, _) = on_ranks(size, 6, Some((bad, in_reading)), None);
                assert_eq!(printed, expected(bad), "{size} ranks");
                for error in ended {
                    let error = error.unwrap_err();
                    assert_eq!(error.to_string(), format!("block {bad} is bad"), "{size} ranks");
                    let code = error.downcast_ref::<PartFailed>().unwrap().code;
                    assert_eq!(code, crate::BAD_INPUT);
                }
            }
        }
    }
    #[test]
    fn blocks_that_a_folder_has_are_not_predicted_again_by_any_number_of_ranks() {
        for (before, after, again) in [(2, 3, 1), (1, 2, 4), (3, 1, 2)] {
            let dir = tempfile::tempdir().unwrap();
            let folder = PartsFolder::opened_by_another(dir.path());
            let (printed, ended, first) = on_ranks(before, 11, Some((7, false)), Some(dir.path()));
            assert!(printed.is_empty() && ended.iter().all(Result::is_err));
            assert!(!folder.has(5) && folder.blocks(5).unwrap().contains(&6));
            let (printed, ended, second) = on_ranks(after, 11, None, Some(dir.path()));
            assert!(printed.is_empty() && ended.iter().all(Result::is_ok));
            let count = |predicted: &[usize]| predicted.iter().sum::<usize>();
            assert_eq!(count(&first) + count(&second), 11, "{before}, then {after} ranks");
            let mut text = String::new();
            let mut add = |block: &str| {
                text += block;
                Ok(())
            };
            folder.each_text(5, &mut add).unwrap();
            assert_eq!(text, expected(11));
            assert_eq!(count(&on_ranks(again, 11, None, Some(dir.path())).2), 0);
        }
    }
}
