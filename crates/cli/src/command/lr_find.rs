//! `lr-find`: a learning-rate range test.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use updraft_data::{Progress, ProgressUnit};
use updraft_run::{LrSearch, Registry};
use updraft_trainer::{Control, LrPoint, LrRange, TrainError, suggest_learning_rate};

use super::would::dry_run_of;
use super::{ConfigArgs, cannot, device_of, open, stopped};
use crate::json::JsonArgs;
use crate::output_file::{OutputKind, check_output};
use crate::progress::Display;
use crate::report::{Curve, Scale, document, plot};
use crate::stop;
use crate::whole_file::{Output, is_pipe};

/// Finds a learning rate: trains with increasing learning rates and plots the loss.
#[derive(Debug, Args)]
pub(crate) struct LrFindArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The first learning rate
    #[arg(long, default_value_t = LrRange::default().from)]
    from: f64,
    /// The last learning rate
    #[arg(long, default_value_t = LrRange::default().to)]
    to: f64,
    /// Number of updates
    #[arg(long, default_value_t = LrRange::default().steps)]
    steps: usize,
    /// The page with the plot, which replaces an earlier one of this command [default: lr-find.html;
    /// if that exists, lr-find-2.html and so on]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

/// The title of the page.
const TITLE: &str = "Learning rates";

const PAGE: OutputKind = OutputKind { command: "lr-find", mark: "<title>Learning rates</title>" };

impl LrFindArgs {
    /// The learning rates to try; errors name the option.
    fn range(&self) -> Result<LrRange> {
        let range = LrRange { from: self.from, to: self.to, steps: self.steps };
        range.validate().map_err(|error| match error {
            TrainError::Setting { name, value, expected } => {
                anyhow!("--{name} is {value}; it must be {expected}")
            }
            other => other.into(),
        })?;
        Ok(range)
    }

    /// The page to write, if nothing is created there in the meantime.
    ///
    /// # Errors
    /// An error for a page that replaces something else than an earlier one.
    fn place(&self) -> Result<PathBuf> {
        let Some(page) = &self.page else {
            let free = (1..).map(page_name).find(|page| !page.exists());
            return Ok(free.expect("a number that no page has"));
        };
        if page.is_dir() {
            bail!("--page `{}` is a folder; name a file", page.display());
        }
        let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("--page is in `{}`, which is no folder; create it first", folder.display());
        }
        check_output(page, PAGE, &self.config.files())?;
        Ok(page.clone())
    }
}

/// The page of the first, second, ... search in a folder.
fn page_name(number: u32) -> PathBuf {
    PathBuf::from(match number {
        1 => "lr-find.html".to_owned(),
        more => format!("lr-find-{more}.html"),
    })
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &LrFindArgs) -> Result<()> {
    args.range()?;
    let place = args.place()?;
    let page = match is_pipe(&place) {
        // Whether a process reads it is known only by opening it, which would end that process.
        true => format!("{}, a pipe, if a process reads it", place.display()),
        false => place.display().to_string(),
    };
    dry_run_of(registry, &args.config, |_| page)
}

/// Writes the page and prints the suggestion.
pub(crate) fn run(registry: Registry, args: &LrFindArgs) -> Result<()> {
    let range = args.range()?;
    // Refused before the search, not after it.
    let output = Output::open(&args.place()?)?;
    let plan = args.config.plan(registry)?.plan;
    let (device, _) = device_of(&plan)?;
    let mut display = Display::new();
    let workload = open(&plan, args.config.data.as_deref(), None, &mut display)?;
    let mut poll = |done: usize| {
        let total = args.steps as u64;
        let progress = Progress { done: done as u64, total, unit: ProgressUnit::Samples };
        display.preparing("trying learning rates", progress);
        if stop::requested() { Control::Stop } else { Control::Continue }
    };
    let search = LrSearch { range, poll: &mut poll };
    let points = workload.find_learning_rate(&plan, &device, search)?;
    display.clear();
    let points = points.ok_or_else(|| stopped("all learning rates were tried"))?;
    let suggestion = suggest_learning_rate(&points);
    // Printed also if the page cannot be written.
    if let Some(rate) = suggestion {
        display.line(&format!("the loss falls fastest at a learning rate of {rate:.2e}"));
    }
    let text = page(&points, suggestion)?;
    let page = match &args.page {
        Some(page) => {
            output.write(&text)?;
            page.clone()
        }
        None => write_new(&text)?,
    };
    let Some(rate) = suggestion else {
        bail!(
            "the loss never falls clearly from --from {} to --to {}; see `{}`, and try other rates \
             or more --steps than {}",
            args.from,
            args.to,
            page.display(),
            args.steps,
        )
    };
    args.json.print(
        &json!({ "learning_rate": rate, "updates": points.len(), "page": page.to_string_lossy() }),
    )?;
    let config = args.config.words();
    crate::program::next(&format!("train{config} --set train.learning_rate={rate:.2e}"));
    Ok(())
}

/// Writes a page that replaces none: `lr-find.html`, or `lr-find-2.html` and so on.
fn write_new(text: &str) -> Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let path = page_name(number);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes());
                return written
                    .map(|()| path.clone())
                    .map_err(|cause| cannot("write", &path, cause));
            }
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(cause) => return Err(cannot("write", &path, cause)),
        }
    }
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
    Ok(document(TITLE, &format!("<h1>{TITLE}</h1>\n{said}\n{plot}")))
}
