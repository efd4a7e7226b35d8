//! Predictions of the samples of files as lines, and of many files, or one large one, by several
//! ranks.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use updraft_data::{Digest, Progress, ProgressUnit};
use updraft_distributed::{Collective, Shared, agree};
use updraft_run::{
    ClassProbability, Int8Network, Outcome, Predicted, PredictedValue, RunError, TrainedModel,
};

use super::OpenedRun;
use super::predict::PredictArgs;
use crate::predictions::{Parts, PartsFolder, PartsKey, predict_blocks, predict_parts};
use crate::progress::Display;
use crate::terminal::{json_text, name, visible};

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
            Some(PartsFolder::open(path, &PartsKey { state, ..key })?)
        }
        path => path.as_deref().map(PartsFolder::opened_by_another),
    };
    ranks.barrier()?;
    let model = load()?;
    if args.parts.is_none() && divides_blocks(&model, ranks, parts.files())? {
        let mut files = parts.files().iter();
        return files.try_for_each(|file| predict_file(args, &model, ranks, file));
    }
    let mut display = Display::new();
    let total = parts.count() as u64;
    predict_parts(
        ranks,
        (&parts, folder.as_ref()),
        &mut |file, text| {
            let each = &mut |predicted| {
                args.add_lines(predicted, text);
                ControlFlow::Continue(())
            };
            Ok(model.predict_each(file, each)?)
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

/// Whether ranks divide the samples of files instead of the files: there are fewer files than ranks,
/// of samples in blocks, and every rank can read them.
fn divides_blocks(model: &TrainedModel, ranks: &mut Shared, files: &[PathBuf]) -> Result<bool> {
    // Only rank 0 reads a pipe. The others follow its view of the files.
    let are_files = files.iter().all(|file| file.is_file());
    let mut are_divided = [u8::from(files.len() < ranks.size() && are_files)];
    ranks.broadcast(0, &mut are_divided)?;
    if are_divided == [0] || files.iter().any(|file| model.blocks(file).is_none()) {
        return Ok(false);
    }
    for file in files {
        let bytes = match fs::metadata(file) {
            Ok(metadata) => metadata.len().to_string(),
            Err(cause) => cause.to_string(),
        };
        agree(ranks, &format!("the length of `{}` in bytes", file.display()), &bytes)?;
    }
    Ok(true)
}

/// Predicts the samples of a file, of which each rank does some blocks, and prints on rank 0.
fn predict_file(
    args: &PredictArgs,
    model: &TrainedModel,
    ranks: &mut Shared,
    file: &Path,
) -> Result<()> {
    let Some(mut blocks) = model.blocks(file) else { return Ok(()) };
    let mut next = |skipped: usize, text: &mut String| -> Result<bool> {
        for _ in 0..skipped {
            if !blocks.skip()? {
                return Ok(false);
            }
        }
        let Some(predicted) = blocks.predict()? else { return Ok(false) };
        predicted.into_iter().for_each(|predicted| args.add_lines(predicted, text));
        Ok(true)
    };
    predict_blocks(ranks, &mut next, &mut print_lines)
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
        PredictedValue::Number { value, .. } => format!("{value:.6}"),
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
