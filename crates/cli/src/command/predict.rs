//! `predict`: image files in, class and probability out.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::model::TrainedModel;

/// Classifies image files with a trained model.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The run folder
    run: PathBuf,
    /// The image files: JPEG, PNG or TIFF
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many classes to print for each file, the likeliest first
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print one JSON object a file
    #[arg(long)]
    json: bool,
}

/// Prints a line a file and class to standard output.
pub(crate) fn run(args: &PredictArgs) -> Result<()> {
    let model = TrainedModel::load(&args.run, &args.device)?;
    for file in &args.files {
        let mut predictions = model.predict_file(file)?;
        predictions.truncate(usize::from(args.top));
        if args.json {
            crate::print(&json!({ "file": file, "predictions": predictions }).to_string());
            continue;
        }
        for prediction in predictions {
            crate::print(&format!(
                "{}  {}  {:.1} %",
                file.display(),
                prediction.class,
                100.0 * prediction.probability,
            ));
        }
    }
    Ok(())
}
