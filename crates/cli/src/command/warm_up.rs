//! `warm-up`: lets a device measure its kernels before a run does.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_device::{Applied, Backend, CacheContents, applied, kernel_cache_contents};
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
    let before = kernel_cache_contents()?;
    if warms(selection.id.backend, &applied) {
        // There is nothing to save: a signal ends the process at once.
        let _unasked = NothingToSave::begin();
        let signature = open(&plan, data, None, &mut Display::new())?.signature();
        let steps = plan.rehearse(&signature, &device, plan.train.batch)?;
        let [first, next] = steps.map(|step: Duration| step.as_secs_f64());
        summary += &format!("; the first step took {first:.2} s, the second {next:.2} s");
        seconds = Some([first, next]);
    }
    let after = kernel_cache_contents()?;
    let kernels = before.zip(after).filter(|_| seconds.is_some());
    if let Some((before, after)) = &kernels {
        summary += &format!("; {}", changes(before, after));
    }
    say(&hanging("warm-up  ", &format!("{}: {summary}", selection.id)));
    args.json.print(&json!({
        "device": selection.id.to_string(),
        "summary": summary,
        "cache": applied.autotune_cache,
        "step_s": seconds,
        "before": kernels.map(|(before, _)| before),
        "after": kernels.map(|(_, after)| after),
        "nothing_left": kernels.map(|(before, after)| before.is_unchanged(&after)),
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

/// The kernels that a warm-up added to the cache.
fn changes(before: &CacheContents, after: &CacheContents) -> String {
    let kept = match after.compiled {
        0 => "no compiled ones: each process compiles again".to_owned(),
        compiled => format!("{compiled} compiled ones"),
    };
    let size =
        format!("{}, a file of {}", mebibytes(after.kernel_bytes), mebibytes(after.file_bytes));
    if before.is_unchanged(after) {
        return format!(
            "nothing was left to do: the cache has {} kernel choices and {kept} ({size})",
            after.tuned
        );
    }
    let tuned = after.tuned.saturating_sub(before.tuned);
    let compiled = after.compiled.saturating_sub(before.compiled);
    format!(
        "{tuned} kernel choices and {compiled} compiled kernels are new; the cache had {} and {}, \
         and has {} and {kept} ({size}, before a file of {})",
        before.tuned,
        before.compiled,
        after.tuned,
        mebibytes(before.file_bytes)
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(tuned: u64, compiled: u64) -> CacheContents {
        let mut contents = CacheContents::default();
        (contents.tuned, contents.compiled) = (tuned, compiled);
        (contents.kernel_bytes, contents.file_bytes) = (1 << 19, 1 << 20);
        contents
    }

    #[test]
    fn a_second_warm_up_reports_that_nothing_was_left_to_do() {
        let text = changes(&contents(19, 40), &contents(19, 40));
        let expected = "nothing was left to do: the cache has 19 kernel choices and 40 compiled ones \
                        (0.50 MiB, a file of 1.00 MiB)";
        assert_eq!(text, expected);
        let text = changes(&contents(19, 0), &contents(19, 0));
        assert!(text.contains("no compiled ones: each process compiles again"), "{text}");
    }

    #[test]
    fn a_first_warm_up_reports_what_is_new() {
        let text = changes(&contents(3, 12), &contents(19, 40));
        assert!(text.starts_with("16 kernel choices and 28 compiled kernels are new"), "{text}");
        assert!(text.contains("had 3 and 12, and has 19 and 40 compiled ones"), "{text}");
    }
}
