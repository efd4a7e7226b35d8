//! The loop of a peer written in Rust: it answers the requests of `benches/src/protocol.rs`.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::clock;

/// A result by its name.
pub(crate) type Named = (String, Vec<f64>);

/// Computes once; the results are read back only if they are requested.
pub(crate) type Compute = Box<dyn FnMut(bool) -> Vec<Named>>;

/// An implementation of a problem, and its description.
pub(crate) type Prepared = (Compute, String);

/// Answers requests until there are none.
pub(crate) fn serve(prepare: fn(&Value) -> Result<Prepared>) -> Result<()> {
    let mut prepared: Option<(Compute, PathBuf)> = None;
    for line in stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(Into::into)
            .and_then(|request| answer(&request, &mut prepared, prepare))
            .unwrap_or_else(|error| json!({ "answer": "failed", "reason": format!("{error:#}") }));
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    request: &Value,
    prepared: &mut Option<(Compute, PathBuf)>,
    prepare: fn(&Value) -> Result<Prepared>,
) -> Result<Value> {
    if request["ask"] == "prepare" {
        let folder = request["folder"].as_str().context("no folder")?;
        let (compute, about) = prepare(&request["problem"])?;
        *prepared = Some((compute, folder.into()));
        return Ok(json!({ "answer": "prepared", "about": about }));
    }
    let Some((compute, folder)) = prepared.as_mut() else { bail!("nothing is prepared") };
    if request["ask"] == "prove" {
        let results = compute(true);
        for (name, values) in &results {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(folder.join(format!("{name}.f64")), bytes)?;
        }
        let names: Vec<_> = results.iter().map(|(name, _)| name).collect();
        return Ok(json!({ "answer": "proved", "outputs": names }));
    }
    let times = request["times"].as_u64().context("no number of times")?;
    let (wall_ns, cpu_ns) = clock::time(times, || {
        std::hint::black_box(compute(false));
        Ok(())
    })?;
    let answer = json!({
        "answer": "repeated", "wall_ns": wall_ns, "cpu_ns": cpu_ns, "peak_bytes": null,
    });
    Ok(answer)
}

/// A whole number of a problem.
pub(crate) fn number(problem: &Value, key: &str) -> Result<usize> {
    let value = problem[key].as_u64().with_context(|| format!("no `{key}`"))?;
    Ok(usize::try_from(value)?)
}
