//! The samples of one file, whose blocks several ranks divide.

use anyhow::{Context, Result};
use updraft_distributed::{Collective, gather};

use super::rounds::{Done, PartFailed};

/// Predicts the blocks of a file in rounds of one for each rank, and prints on rank 0 after each
/// round, in the order of the file.
///
/// Every rank reads the whole file: `next` skips so many blocks and appends the lines of the one
/// after them to the text; false if the file has ended.
///
/// # Errors
/// [`PartFailed`] on every rank for the first block that failed, after rank 0 has printed what comes
/// before it; an error of `print` on rank 0.
pub(crate) fn predict_blocks(
    ranks: &mut dyn Collective,
    next: &mut dyn FnMut(usize, &mut String) -> Result<bool>,
    print: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let (is_first, others) = (ranks.rank() == 0, ranks.size() - 1);
    let mut skipped = ranks.rank();
    loop {
        let mut text = String::new();
        let predicted = next(skipped, &mut text);
        let has_ended = matches!(predicted, Ok(false));
        let sent = Done::of(text, predicted.map(drop), has_ended);
        let sent = serde_json::to_vec(&sent).context("a block is not text")?;
        let mut is_over = false;
        // A block that one rank cannot read stops the ranks after it, too: the first one counts.
        for bytes in gather(ranks, &sent)? {
            let done: Done = serde_json::from_slice(&bytes).context("a rank sends a block")?;
            if is_first {
                print(&done.text)?;
            }
            if let Some((code, reason)) = done.failed {
                return Err(PartFailed { code, reason }.into());
            }
            is_over |= done.has_ended;
        }
        if is_over {
            return Ok(());
        }
        skipped = others;
    }
}

#[cfg(test)]
mod tests {
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
            let ended = predict_blocks(&mut rank, &mut next, &mut print);
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
                let (printed, ended, predicted) = on_ranks(size, blocks, None);
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
                let (printed, ended, _) = on_ranks(size, 6, Some((bad, in_reading)));
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
}
