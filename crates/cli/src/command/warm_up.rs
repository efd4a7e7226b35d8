//! `warm-up`: lets a device measure its kernels before a run does.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_device::{Applied, Backend, applied};
use updraft_run::Registry;

use super::would::dry_run_of;
use super::{ConfigArgs, device_of, open};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::stop::NothingToSave;
use crate::terminal::say;
use crate::wrap::hanging;

/// Trains a config's first steps on example data, so that the device compiles and measures its
/// kernels.
///
/// Devices that choose their kernels by measurement store the results in a file, which later runs
/// use. Nothing else is written.
#[derive(Debug, Args)]
pub(crate) struct WarmUpArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &WarmUpArgs) -> Result<()> {
    let writes = "the file in which the device stores measured kernels, if it has one";
    dry_run_of(registry, &args.config, |_| writes.to_owned())
}

/// Warms up the device and reports the result.
pub(crate) fn run(registry: Registry, args: &WarmUpArgs) -> Result<()> {
    let plan = args.config.plan(registry)?.plan;
    let data = args.config.data.as_deref();
    let (device, selection) = device_of(&plan)?;
    plan.find_inputs(data)?;
    let applied = applied(&device.clone().autodiff());
    let mut summary = summary(selection.id.backend, &applied);
    let mut seconds = None;
    if warms(selection.id.backend, &applied) {
        // There is nothing to save: a signal ends the process at once.
        let _unasked = NothingToSave::begin();
        let signature = open(&plan, data, None, &mut Display::new())?.signature();
        let steps = plan.rehearse(&signature, &device, plan.train.batch)?;
        let [first, next] = steps.map(|step: Duration| step.as_secs_f64());
        summary += &format!("; the first step took {first:.2} s, the second {next:.2} s");
        seconds = Some([first, next]);
    }
    say(&hanging("warm-up  ", &format!("{}: {summary}", selection.id)));
    args.json.print(&json!({
        "device": selection.id.to_string(),
        "summary": summary,
        "cache": applied.autotune_cache,
        "step_s": seconds,
    }))?;
    crate::program::next(&format!("train{}", args.config.words()));
    Ok(())
}

/// Whether the device measures its kernels at all.
fn warms(backend: Backend, applied: &Applied) -> bool {
    backend != Backend::Flex && applied.autotune
}

fn summary(backend: Backend, applied: &Applied) -> String {
    match (&applied.autotune_cache, warms(backend, applied)) {
        (_, false) if backend == Backend::Flex => {
            "flex chooses no kernels by measurement: there is nothing to warm".to_owned()
        }
        (_, false) => "this build chooses no kernels by measurement: the feature `autotune` is \
                       off, and there is nothing to warm"
            .to_owned(),
        (Some(cache), true) => format!("measured kernels are kept in `{}`", cache.display()),
        (None, true) => {
            "measured kernels are not stored in a file, so each process measures again: the \
                         feature `persistence` is off"
                .to_owned()
        }
    }
}
