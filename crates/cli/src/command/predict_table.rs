//! `predict --out` of a table: the rows of a table with their predictions as another table.

use std::ops::ControlFlow;
use std::slice;

use anyhow::{Context, Result, bail};
use serde_json::json;
use updraft_distributed::{Collective, Shared};
use updraft_run::{
    PredictionTable, PredictionTrace, Registry, RunError, TablePrediction, TrainedModel,
    WrittenTable,
};

use super::OpenedRun;
use super::predict::{PredictArgs, device_of, show_layers};
use super::predict_files::agree_on_lengths;
use crate::predictions::predict_blocks;
use crate::stop::{self, NothingToSave};
use crate::terminal::name;
use crate::wrap::counted;

/// Predicts the rows of a table into another one and prints what was written.
pub(super) fn run_to_table(
    registry: Registry,
    args: &PredictArgs,
    (run, ranks): (&OpenedRun, &mut Shared),
    request: &TablePrediction,
) -> Result<()> {
    // The table may be a pipe without a writer; from the first block on, signals are checked.
    let mut unasked = Some(NothingToSave::begin());
    let model = args.load(registry, run, &device_of(args, run, ranks.size()))?;
    let mut goes_on = |_| {
        unasked = None;
        if stop::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let written = if ranks.size() > 1 {
        // Rank 0 has written, and prints.
        let Some(written) = by_ranks(&model, ranks, request, &mut goes_on)? else { return Ok(()) };
        written
    } else {
        let mut trace = args.trace(&model, &run.folder)?;
        let written = model.predict_table(request, &mut goes_on)?;
        trace.as_mut().map_or(Ok(()), PredictionTrace::add)?;
        show_layers(trace, &run.folder, "file")?;
        written
    };
    PredictArgs::show_captured(&model);
    if args.json {
        return crate::print_json(&json!(written));
    }
    let output = name(&request.output.display().to_string()).into_owned();
    let (rows, columns) = (counted(written.rows, "row"), counted(written.columns as u64, "column"));
    crate::print(&format!("{output}  {rows}, {columns}"))
}

/// The same by several ranks, which divide the blocks of the table; rank 0 writes.
fn by_ranks(
    model: &TrainedModel,
    ranks: &mut Shared,
    request: &TablePrediction,
    goes_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<WrittenTable>> {
    // A missing file is reported with the lengths.
    if request.input.exists() && !request.input.is_file() {
        bail!(
            "`{}` is not a regular file, and several ranks cannot read a pipe or a device; save its \
             rows as a file, or use a single rank",
            request.input.display()
        );
    }
    agree_on_lengths(ranks, slice::from_ref(&request.input))?;
    let columns = model.prediction_columns()?;
    let mut blocks = model.blocks(&request.input).context("rows are predicted in blocks")?;
    let mut table = match ranks.rank() {
        0 => Some(PredictionTable::create(request, &columns)?),
        _ => None,
    };
    // A block is sent as the JSON of its records.
    let mut next = |skipped: usize, text: &mut String| {
        for _ in 0..skipped {
            if !blocks.skip()? {
                return Ok(false);
            }
        }
        let Some(predicted) = blocks.predict()? else { return Ok(false) };
        let records: Vec<_> = predicted.iter().map(|row| columns.record(row)).collect();
        *text = serde_json::to_string(&records)?;
        Ok(true)
    };
    let mut write = |text: &str| {
        let Some(table) = table.as_mut().filter(|_| !text.is_empty()) else { return Ok(()) };
        let records: Vec<Vec<String>> = serde_json::from_str(text)?;
        records.iter().try_for_each(|record| table.add(record))?;
        match goes_on(table.rows()) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(RunError::Stopped { what: "all rows were predicted" }.into())
            }
        }
    };
    predict_blocks(ranks, None, &mut next, &mut write)?;
    Ok(table.map(PredictionTable::finish).transpose()?)
}
