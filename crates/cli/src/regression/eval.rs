//! `eval` for a regression: a trained model's score on its test rows.

use std::path::Path;

use anyhow::{Result, anyhow};
use burn::tensor::Device;
use serde_json::json;
use updraft_trainer::{Control, Evaluation, evaluate, load_model};

use super::network::{Regressor, With, with_network};
use super::train::{check_scaling, rmse, told};
use crate::config::RegressionPlan;
use crate::device::choose;
use crate::run_folder::RunFolder;
use crate::stop;
use crate::workload::{TableData, open_table};

/// Prints the score to standard output.
pub(crate) fn run(
    folder: &RunFolder,
    data: Option<&Path>,
    device: &str,
    as_json: bool,
) -> Result<()> {
    let plan = folder.regression_plan()?;
    let spec = device.parse().map_err(|error| anyhow!("device `{device}`: {error}"))?;
    let (device, _) = choose(&spec)?;
    let data = open_table(&plan, data)?;
    check_scaling(folder, &data.scaling)?;
    let inputs = data.scaling.features.len();
    let work = Scoring { folder, plan: &plan, data: &data, device: &device };
    let score = with_network(&plan.model, inputs, &device, work)?;
    if as_json {
        let mut value = json!(score);
        value["rmse"] = json!(rmse(score, &data.scaling));
        crate::print(&value.to_string());
    } else {
        crate::print(&format!("{}, {} rows", told(score, &data.scaling), score.samples));
    }
    Ok(())
}

struct Scoring<'a> {
    folder: &'a RunFolder,
    plan: &'a RegressionPlan,
    data: &'a TableData,
    device: &'a Device,
}

impl With for Scoring<'_> {
    type Output = Result<Evaluation>;

    fn with<M: Regressor>(self, network: M) -> Result<Evaluation> {
        let Self { folder, plan, data, device } = self;
        let network = plan.precision.autocast(network);
        let train = &plan.train;
        let checkpoint = folder.served(train.early_stop.is_some(), train.criterion)?;
        let network = load_model(&checkpoint, network)?.valid();
        let score = evaluate(
            &network,
            &|network: &M, x| network.outputs(x),
            &data.test,
            device,
            plan.precision,
            &mut |_| if stop::requested() { Control::Stop } else { Control::Continue },
        )?;
        score.ok_or_else(|| anyhow!("stopped before all test rows were scored"))
    }
}
