//! Best values and hypervolumes of 20 seeds on cheap functions, as lines of JSON;
//! `benches/peers/tune.py` compares them with Optuna.
//!
//! A study is driven as `tune` drives it: each trial is asked for and finished through the journal,
//! and every [`REOPENED`] trials the study is closed and continued from the journal alone.
//!
//! `cargo run --release -p updraft-tune --example beside_optuna -- [SEEDS]`

use std::f64::consts::PI;

use updraft_tune::{
    Asked, Direction, Objective, SamplerSettings, Space, Study, StudySettings, TuneError,
    hypervolume,
};

/// Trials after which a study is closed and opened again.
const REOPENED: u64 = 25;

/// A function with its space; `benches/peers/tune.py` has the same.
struct Problem {
    name: &'static str,
    space: String,
    trials: u64,
    objectives: usize,
    function: fn(&[f64]) -> Vec<f64>,
    /// The reference point of the hypervolume.
    reference: [f64; 2],
}

fn branin(point: &[f64]) -> Vec<f64> {
    let (x, y) = (point[0], point[1]);
    let hill = y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0;
    vec![hill * hill + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos() + 10.0]
}

fn hartmann(point: &[f64]) -> Vec<f64> {
    const WEIGHTS: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const WIDTHS: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const CENTERS: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let well = |at: usize| {
        let squares = point.iter().enumerate();
        let sum: f64 = squares.map(|(j, x)| WIDTHS[at][j] * (x - CENTERS[at][j]).powi(2)).sum();
        WEIGHTS[at] * (-sum).exp()
    };
    vec![-(0..4).map(well).sum::<f64>()]
}

fn zdt1(point: &[f64]) -> Vec<f64> {
    let x = point[0];
    let g = 1.0 + 9.0 * point[1..].iter().sum::<f64>() / (point.len() - 1) as f64;
    vec![x, g * (1.0 - (x / g).sqrt())]
}

fn units(count: usize) -> String {
    let key = |at: usize| format!("x{at} = {{ kind = \"float\", low = 0.0, high = 1.0 }}\n");
    (0..count).map(key).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds = std::env::args().nth(1).map_or(Ok(20), |seeds| seeds.parse())?;
    let branin_space = "x = { kind = \"float\", low = -5.0, high = 10.0 }\n\
                        y = { kind = \"float\", low = 0.0, high = 15.0 }\n";
    let problem = |name, space: String, trials, objectives, function| Problem {
        name,
        space,
        trials,
        objectives,
        function,
        reference: [1.1, 1.1],
    };
    let problems = [
        problem("branin", branin_space.to_owned(), 100, 1, branin),
        problem("hartmann6", units(6), 100, 1, hartmann),
        problem("zdt1", units(4), 200, 2, zdt1),
    ];
    let samplers = [
        ("tpe", SamplerSettings::Tpe { startup: 10, candidates: 24 }),
        ("nsga-ii", SamplerSettings::Evolution { population: 50 }),
        ("random", SamplerSettings::Random {}),
    ];
    for problem in &problems {
        for (name, sampler) in samplers {
            if problem.objectives == 1 && name == "nsga-ii" {
                continue;
            }
            // NSGA-II needs more than a few generations; fewer show mostly chance.
            let trials = if name == "nsga-ii" { 1000 } else { problem.trials };
            let values = (0..seeds)
                .map(|seed| value(problem, sampler, trials, seed))
                .collect::<Result<Vec<f64>, _>>()?;
            let line = serde_json::json!({ "problem": problem.name, "sampler": name,
                "trials": trials, "values": values });
            print(&line.to_string())?;
        }
    }
    Ok(())
}

/// The best value of a study, or the hypervolume of its front.
fn value(
    problem: &Problem,
    sampler: SamplerSettings,
    trials: u64,
    seed: u64,
) -> Result<f64, TuneError> {
    let folder = std::env::temp_dir().join(format!(
        "updraft-beside-optuna-{}-{}-{seed}",
        std::process::id(),
        problem.name
    ));
    let space = toml::from_str(&problem.space).expect("TOML");
    let direction = Direction::Minimize;
    let objective = |at: usize| Objective { name: format!("f{at}"), direction };
    let settings = StudySettings {
        space: Space::read(&space)?,
        objectives: (0..problem.objectives).map(objective).collect(),
        sampler,
        pruner: None,
        steps: 1,
        seed,
        trials,
        attempts: 1,
        shared: serde_json::Value::Null,
        data: String::new(),
    };
    let mut study = Study::open(&folder, settings.clone())?;
    while let Asked::Trial(trial) = study.ask()? {
        let point: Vec<f64> = trial.point.iter().flatten().copied().collect();
        study.finish(&trial, &(problem.function)(&point), None)?;
        if (trial.number + 1).is_multiple_of(REOPENED) {
            drop(study);
            study = Study::open(&folder, settings.clone())?;
        }
    }
    let all: Vec<Vec<f64>> = study.trials().into_iter().map(|trial| trial.values).collect();
    drop(study);
    // A folder that cannot be removed stays in the system's temporary folder.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(match problem.objectives {
        1 => all.iter().map(|values| values[0]).fold(f64::INFINITY, f64::min),
        _ => hypervolume(&all, &problem.reference),
    })
}

fn print(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
