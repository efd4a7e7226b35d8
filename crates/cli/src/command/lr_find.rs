//! `lr-find`: which learning rates a config's model learns at.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use updraft_trainer::{Control, LrPoint, LrRange, find_learning_rate, suggest_learning_rate};

use crate::classifier::Classifier;
use crate::device::choose;
use crate::progress::Display;
use crate::report::{Curve, Scale, document, plot};
use crate::stop;
use crate::workload::{loaders, open_data};

/// Finds a learning rate: trains a few updates while it grows, and plots the loss.
#[derive(Debug, Args)]
pub(crate) struct LrFindArgs {
    /// The configuration file [default: the built-in quickstart]
    config: Option<PathBuf>,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Change one value of the config, such as --set train.batch=32 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The first learning rate
    #[arg(long, default_value_t = LrRange::default().from)]
    from: f64,
    /// The last learning rate
    #[arg(long, default_value_t = LrRange::default().to)]
    to: f64,
    /// Updates from the first to the last
    #[arg(long, default_value_t = LrRange::default().steps)]
    steps: usize,
    /// The page with the plot
    #[arg(long, value_name = "FILE", default_value = "lr-find.html")]
    page: PathBuf,
}

/// Writes the page and prints the suggestion as JSON.
pub(crate) fn run(args: &LrFindArgs) -> Result<()> {
    let range = LrRange { from: args.from, to: args.to, steps: args.steps };
    range.validate()?;
    let plan = super::plan(args.config.as_deref(), &args.sets)?.plan;
    let (device, _) = choose(&plan.device)?;
    let mut display = Display::new(1);
    let data = open_data(&plan, args.data.as_deref(), None, &mut |step, progress| {
        display.preparing(step, progress);
    })?;
    let (train, _) = loaders(&plan, &data)?;
    let device = device.autodiff();
    device.seed(plan.seed);
    let network = plan.network(data.train.classes().len());
    network.validate()?;
    let model = plan.precision.autocast(network.init(&device));
    let settings = plan.settings(std::path::Path::new(""));
    let points = find_learning_rate(
        &model,
        plan.train.optimizer.init(),
        &train,
        (&device, plan.seed),
        &|model: &Classifier, images| model.forward(images),
        (&settings.step, settings.loss_scale, &range),
        &mut |done| {
            let progress = updraft_data::Progress {
                done: done as u64,
                total: args.steps as u64,
                unit: updraft_data::ProgressUnit::Images,
            };
            display.preparing("trying learning rates", progress);
            if stop::requested() { Control::Stop } else { Control::Continue }
        },
    )?;
    display.clear();
    let points = points.ok_or_else(|| anyhow!("stopped before all learning rates were tried"))?;
    let suggestion = suggest_learning_rate(&points);
    std::fs::write(&args.page, page(&points, suggestion)?)
        .with_context(|| format!("cannot write `{}`", args.page.display()))?;
    match suggestion {
        Some(rate) => {
            display.line(&format!("the loss falls fastest at a learning rate of {rate:.2e}"));
        }
        None => display.line("the loss never falls: try other --from and --to, or more --steps"),
    }
    crate::print(
        &json!({ "learning_rate": suggestion, "updates": points.len(), "page": args.page })
            .to_string(),
    );
    Ok(())
}

fn page(points: &[LrPoint], suggestion: Option<f64>) -> Result<String> {
    let curve = |name: &str, of: fn(&LrPoint) -> f64| Curve {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.learning_rate, of(point))).collect(),
    };
    let curves = [
        curve("loss of each batch", |point| point.loss),
        curve("smoothed", |point| point.smoothed),
    ];
    let said = match suggestion {
        Some(rate) => format!("<p>The loss falls fastest at a learning rate of {rate:.2e}.</p>"),
        None => "<p>The loss never falls.</p>".to_owned(),
    };
    let plot = plot("Loss over the learning rate", "learning rate", Scale::Logarithmic, &curves)?;
    Ok(document("Learning rates", &format!("<h1>Learning rates</h1>\n{said}\n{plot}")))
}
