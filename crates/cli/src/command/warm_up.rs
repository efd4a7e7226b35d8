//! `warm-up`: lets a device measure its kernels before a run does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_device::{Applied, Backend, applied};

use crate::device::choose;
use crate::network::{train_on_noise, training_device};

/// Trains a config's first steps on noise, so that the device's kernels are measured and compiled.
///
/// Devices that choose their kernels by measurement keep what they found in a file, from run to
/// run; a run after this one finds it there. Nothing else is written.
#[derive(Debug, Args)]
pub(crate) struct WarmUpArgs {
    /// The configuration file [default: the built-in quickstart]
    config: Option<PathBuf>,
    /// Change one value of the config, such as --set device=cuda:0 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The classes of the data
    #[arg(long, default_value_t = 10)]
    classes: usize,
}

/// Says what there is to warm, warms it, and prints both as JSON.
pub(crate) fn run(args: &WarmUpArgs) -> Result<()> {
    let plan = super::plan(args.config.as_deref(), &args.sets)?.plan;
    let (device, selection) = choose(&plan.device)?;
    let device = training_device(&plan, device);
    let applied = applied(&device);
    let mut told = told(selection.id.backend, &applied);
    let mut seconds = None;
    if warms(selection.id.backend, &applied) {
        let steps = train_on_noise(&plan, &device, args.classes, plan.train.batch)?;
        let [first, next] = steps.map(|step: Duration| step.as_secs_f64());
        told += &format!("; the first step took {first:.2} s, the second {next:.2} s");
        seconds = Some([first, next]);
    }
    crate::print(
        &json!({
            "device": selection.id.to_string(),
            "told": told,
            "cache": applied.autotune_cache,
            "step_s": seconds,
        })
        .to_string(),
    );
    Ok(())
}

/// Whether the device measures its kernels at all.
fn warms(backend: Backend, applied: &Applied) -> bool {
    backend != Backend::Flex && applied.autotune
}

fn told(backend: Backend, applied: &Applied) -> String {
    match (&applied.autotune_cache, warms(backend, applied)) {
        (_, false) if backend == Backend::Flex => {
            "flex chooses no kernels by measurement: there is nothing to warm".to_owned()
        }
        (_, false) => "this build chooses no kernels by measurement: the feature `autotune` is \
                       off, and there is nothing to warm"
            .to_owned(),
        (Some(cache), true) => format!("measured kernels are kept in `{}`", cache.display()),
        (None, true) => "measured kernels are kept by no file, so each process measures anew: the \
                         feature `persistence` is off"
            .to_owned(),
    }
}
