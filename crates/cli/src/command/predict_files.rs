//! Predictions of the samples of files as lines, and of many files, or one large one, by several
//! ranks.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use updraft_data::{Digest, Progress, ProgressUnit};
use updraft_distributed::{Collective, CollectiveError, Shared, agree, gather};
use updraft_run::{
    ClassProbability, Int8Network, Outcome, Predicted, PredictedValue, Quantile, RunError,
    SampleBlocks, TrainedModel, agree_on_folder,
};

use super::OpenedRun;
use super::predict::PredictArgs;
use crate::predictions::{Parts, PartsFolder, PartsKey, predict_blocks, predict_parts, unfinished};
use crate::progress::Display;
use crate::terminal::{json_text, name, say, visible};

impl PredictArgs {
    /// The lines of a sample, with control characters escaped.
    pub(super) fn rendered(&self, mut predicted: Predicted) -> Vec<String> {
        truncate(&mut predicted.outcome, self.top.unwrap_or(1).into());
        match self.json {
            true => vec![json_text(&json!(predicted))],
            false => lines(&predicted).iter().map(|line| visible(line).into_owned()).collect(),
        }
    }

    /// Appends the lines of a sample.
    fn add_lines(&self, predicted: Predicted, text: &mut String) {
        for line in self.rendered(predicted) {
            *text += &line;
            text.push('\n');
        }
    }
}

/// Predicts files in parts, of which each rank does some, and prints on rank 0.
pub(super) fn predict_divided(
    args: &PredictArgs,
    load: impl FnOnce() -> Result<TrainedModel, RunError>,
    (run, ranks): (&OpenedRun, &mut Shared),
    files: Vec<PathBuf>,
) -> Result<()> {
    let is_first = ranks.rank() == 0;
    let parts = Parts::new(files);
    let key = key(args, run, parts.files())?;
    agree(ranks, "the prediction", &json!(key).to_string())?;
    let folder = match &args.parts {
        Some(path) if is_first => {
            let state = PartsKey::state_of(parts.files())?;
            let folder = PartsFolder::open(path, &PartsKey { state, ..key })?;
            if let Some(note) = folder.note() {
                say(&format!("note     {note}"));
            }
            Some(folder)
        }
        path => path.as_deref().map(PartsFolder::opened_by_another),
    };
    ranks.barrier()?;
    if let Some(path) = &args.parts {
        agree_on_folder(ranks, path)?;
    }
    let model = load()?;
    let has_blocks = has_blocks(&model, ranks, &parts)?;
    agree_on_lengths(ranks, parts.files())?;
    if has_blocks && parts.count() < ranks.size() {
        return predict_in_blocks(args, &model, (ranks, folder.as_ref()), &parts);
    }
    let mut display = Display::new();
    let total = parts.count() as u64;
    predict_parts(
        ranks,
        (&parts, folder.as_ref()),
        &mut |part, text| match folder.as_ref().filter(|_| has_blocks) {
            Some(folder) => keep_blocks(args, &model, folder, (part, &parts.files_of(part)[0])),
            None => parts.files_of(part).iter().try_for_each(|file| {
                let each = &mut |predicted| {
                    args.add_lines(predicted, text);
                    ControlFlow::Continue(())
                };
                Ok(model.predict_each(file, each)?)
            }),
        },
        &mut print_lines,
        &mut |done| {
            // Without a folder the lines that are printed show the progress.
            if is_first && folder.is_some() {
                let progress = Progress { done: done as u64, total, unit: ProgressUnit::Samples };
                display.preparing("predicting parts", progress);
                if done as u64 == total {
                    display.clear();
                }
            }
        },
    )
}

/// Whether each part is a file of samples in blocks, which a rank can predict without the others: a
/// folder keeps the blocks then, and ranks divide them if there are fewer files than ranks.
fn has_blocks(model: &TrainedModel, ranks: &mut Shared, parts: &Parts) -> Result<bool> {
    let files = parts.files();
    // Only rank 0 reads a pipe. The others follow its view of the files.
    let are_files = parts.count() == files.len() && files.iter().all(|file| file.is_file());
    let mut are_divided = [u8::from(are_files)];
    ranks.broadcast(0, &mut are_divided)?;
    Ok(are_divided == [1] && files.iter().all(|file| model.blocks(file).is_some()))
}

/// Checks that every rank reads files of the same lengths.
pub(super) fn agree_on_lengths(ranks: &mut Shared, files: &[PathBuf]) -> Result<()> {
    if ranks.size() == 1 {
        return Ok(());
    }
    // A pipe is read by one rank, and may be there for that one only.
    let length = |file: &PathBuf| match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => metadata.len().to_string(),
        _ => "no regular file".to_owned(),
    };
    let own = files.iter().map(length).collect::<Vec<_>>().join("\n");
    let digests = gather(ranks, Digest::new("lengths").bytes(own.as_bytes()).hex().as_bytes())?;
    if digests.iter().all(|digest| *digest == digests[0]) {
        return Ok(());
    }
    let all = gather(ranks, own.as_bytes())?;
    for (rank, of_rank) in all.iter().enumerate() {
        let (first, other) = (String::from_utf8_lossy(&all[0]), String::from_utf8_lossy(of_rank));
        let lines = files.iter().zip(first.lines().zip(other.lines()));
        if let Some((file, (expected, found))) = lines.into_iter().find(|(_, (a, b))| a != b) {
            let what = format!("the length of `{}` in bytes", file.display());
            let (expected, found) = (expected.to_owned(), found.to_owned());
            return Err(CollectiveError::Disagreement { what, rank, expected, found }.into());
        }
    }
    Ok(())
}

/// Predicts the samples of files, of which each rank does some blocks, and prints on rank 0: after
/// each round, or at the end what a folder keeps.
fn predict_in_blocks(
    args: &PredictArgs,
    model: &TrainedModel,
    (ranks, folder): (&mut Shared, Option<&PartsFolder>),
    parts: &Parts,
) -> Result<()> {
    let left: Vec<usize> = match folder {
        Some(folder) => unfinished(ranks, parts, folder)?,
        None => (0..parts.count()).collect(),
    };
    for part in left {
        let Some(mut blocks) = model.blocks(&parts.files_of(part)[0]) else { return Ok(()) };
        let next = &mut |skipped: usize, text: &mut String| {
            for _ in 0..skipped {
                if !blocks.skip()? {
                    return Ok(false);
                }
            }
            add_block(args, &mut *blocks, text)
        };
        predict_blocks(ranks, folder.map(|folder| (folder, part)), next, &mut print_lines)?;
    }
    match folder.filter(|_| ranks.rank() == 0) {
        Some(folder) => {
            (0..parts.count()).try_for_each(|part| folder.each_text(part, &mut print_lines))
        }
        None => Ok(()),
    }
}

/// Predicts the blocks of a file that a folder does not have, and keeps them.
fn keep_blocks(
    args: &PredictArgs,
    model: &TrainedModel,
    folder: &PartsFolder,
    (part, file): (usize, &Path),
) -> Result<()> {
    let Some(mut blocks) = model.blocks(file) else { return Ok(()) };
    let done = folder.blocks(part)?;
    for block in 0.. {
        let mut text = String::new();
        let goes_on = match done.contains(&block) {
            true => blocks.skip()?,
            false => add_block(args, &mut *blocks, &mut text)?,
        };
        if !goes_on {
            return folder.end_blocks(part, block);
        }
        if !done.contains(&block) {
            folder.add_block(part, block, &text)?;
        }
    }
    Ok(())
}

/// Appends the lines of the next block; false if the file has ended.
fn add_block(args: &PredictArgs, blocks: &mut dyn SampleBlocks, text: &mut String) -> Result<bool> {
    let Some(predicted) = blocks.predict()? else { return Ok(false) };
    predicted.into_iter().for_each(|predicted| args.add_lines(predicted, text));
    Ok(true)
}

/// Prints lines that end each.
fn print_lines(text: &str) -> Result<()> {
    text.strip_suffix('\n').map_or(Ok(()), crate::print)
}

/// Refuses a folder of other parts.
pub(super) fn check_parts(args: &PredictArgs, run: &OpenedRun, files: &[PathBuf]) -> Result<()> {
    let Some(path) = &args.parts else { return Ok(()) };
    let state = PartsKey::state_of(files)?;
    PartsFolder::check(path, &PartsKey { state, ..key(args, run, files)? })?;
    Ok(())
}

/// What all ranks have alike: of the files, the paths.
fn key(args: &PredictArgs, run: &OpenedRun, files: &[PathBuf]) -> Result<PartsKey, RunError> {
    let model = match args.int8.int8 {
        true => Int8Network::open(&run.folder, &run.plan)?.fingerprint().to_owned(),
        false => run.folder.served_digest(&run.plan)?,
    };
    let PredictArgs { top, json, int8, .. } = args;
    let mut paths = Digest::new("paths to predict");
    for file in files {
        paths = paths.bytes(file.as_os_str().as_encoded_bytes());
    }
    Ok(PartsKey {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model,
        options: format!("top {}, json {json}, int8 {}", top.unwrap_or(1), int8.int8),
        files: files.len(),
        state: paths.hex(),
    })
}

/// Keeps the most probable classes.
fn truncate(outcome: &mut Outcome, top: usize) {
    match outcome {
        Outcome::Classes(classes) => classes.truncate(top),
        Outcome::Targets(targets) => {
            for target in targets {
                if let PredictedValue::Classes(classes) = &mut target.value {
                    classes.truncate(top);
                }
            }
        }
        _ => {}
    }
}

/// One line per class, number or target.
fn lines(predicted: &Predicted) -> Vec<String> {
    let sample = name(&predicted.sample);
    match &predicted.outcome {
        Outcome::Classes(classes) => classes
            .iter()
            .map(|class| {
                format!("{sample}  {}  {:.1} %", name(&class.class), 100.0 * class.probability)
            })
            .collect(),
        Outcome::Targets(targets) => targets
            .iter()
            .map(|target| format!("{sample}  {}  {}", name(&target.name), text_of(&target.value)))
            .collect(),
        other => vec![format!("{sample}  {}", json!(other))],
    }
}

/// A predicted number, the classes that are printed, or the labels that apply.
fn text_of(value: &PredictedValue) -> String {
    match value {
        PredictedValue::Number { value, quantiles, .. } => {
            let quantile = |one: &Quantile| format!(", quantile {}: {:.6}", one.level, one.value);
            format!("{value:.6}{}", quantiles.iter().map(quantile).collect::<String>())
        }
        PredictedValue::Classes(classes) => {
            let text = |class: &ClassProbability| {
                format!("{}  {:.1} %", name(&class.class), 100.0 * class.probability)
            };
            classes.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        PredictedValue::Labels(labels) => {
            let applying = labels.iter().filter(|label| label.applies);
            let applying: Vec<_> = applying.map(|label| name(&label.label)).collect();
            if applying.is_empty() { "–".to_owned() } else { applying.join(", ") }
        }
        other => json!(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use updraft_distributed::Threads;

    use super::*;

    #[test]
    fn ranks_with_files_of_other_lengths_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = |texts: [&str; 2]| {
            let write = |(at, text): (usize, &str)| {
                let file = folder.path().join(format!("{}-{at}", text.len()));
                fs::write(&file, text).unwrap();
                file
            };
            texts.into_iter().enumerate().map(write).collect::<Vec<_>>()
        };
        let compared = |of_ranks: [Vec<PathBuf>; 2]| -> Vec<Result<(), String>> {
            let engines = Threads::group(2, Duration::from_secs(60)).into_iter().zip(of_ranks);
            thread::scope(|scope| {
                let compare = |(engine, files): (Threads, Vec<PathBuf>)| {
                    scope.spawn(move || {
                        let compared = agree_on_lengths(&mut Shared::new(engine), &files);
                        compared.map_err(|error| error.to_string())
                    })
                };
                let ranks: Vec<_> = engines.map(compare).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            })
        };
        assert_eq!(compared([files(["a", "bc"]), files(["d", "ef"])]), [Ok(()), Ok(())]);
        for refused in compared([files(["a", "bc"]), files(["d", "efg"])]) {
            let text = refused.unwrap_err();
            assert!(text.contains("-1` in bytes is `3` on rank 1 and `2` on rank 0"), "{text}");
        }
        let missing = folder.path().join("missing");
        let one = |file: &Path| vec![file.to_owned()];
        for refused in
            compared([files(["a", "b"]), [files(["a", "b"])[..1].to_vec(), one(&missing)].concat()])
        {
            assert!(refused.unwrap_err().contains("`no regular file` on rank 1"));
        }
    }
}
