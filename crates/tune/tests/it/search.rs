//! Quality of the samplers on cheap functions.

use updraft_tune::{
    Asked, Direction, Objective, SamplerSettings, Space, Study, StudySettings, hypervolume,
    pareto_front,
};

const TPE: SamplerSettings = SamplerSettings::Tpe { startup: 10, candidates: 24 };

/// The objectives of all trials of a study of a function.
fn search(
    space: &str,
    sampler: SamplerSettings,
    objectives: usize,
    (seed, trials): (u64, u64),
    function: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let dir = tempfile::tempdir().expect("temporary folder");
    let direction = Direction::Minimize;
    let objective = |at: usize| Objective { name: format!("f{at}"), direction };
    let settings = StudySettings {
        space: Space::read(&toml::from_str(space).expect("TOML")).expect("a space"),
        objectives: (0..objectives).map(objective).collect(),
        sampler,
        pruner: None,
        steps: 1,
        seed,
        trials,
        attempts: 1,
        shared: serde_json::Value::Null,
        data: String::new(),
    };
    let study = Study::open(dir.path(), settings).expect("opened");
    while let Asked::Trial(trial) = study.ask().expect("asked") {
        let point: Vec<f64> = trial.point.iter().map(|x| x.expect("no condition")).collect();
        study.finish(&trial, &function(&point), None).expect("recorded");
    }
    study.trials().into_iter().map(|trial| trial.values).collect()
}

fn median_of_best(sampler: SamplerSettings) -> f64 {
    let space = r#"
        a = { kind = "float", low = 1e-5, high = 1.0, log = true }
        b = { kind = "integer", low = 1, high = 64, log = true }
        c = { kind = "categorical", choices = ["x", "y", "z"] }
        d = { kind = "float", low = -5.0, high = 5.0 }
    "#;
    let mut best: Vec<f64> = (0..9)
        .map(|seed| {
            let all = search(space, sampler, 1, (seed, 50), |point| {
                let [a, b, c, d] = point else { panic!("four keys") };
                vec![
                    (a.log10() + 2.5).powi(2)
                        + (b.log2() - 4.0).powi(2)
                        + if *c == 1.0 { 0.0 } else { 0.5 }
                        + (d - 1.0).powi(2),
                ]
            });
            all.into_iter().map(|values| values[0]).fold(f64::INFINITY, f64::min)
        })
        .collect();
    best.sort_by(f64::total_cmp);
    best[4]
}

#[test]
fn the_estimator_finds_a_lower_minimum_than_random_points() {
    let (learned, random) = (median_of_best(TPE), median_of_best(SamplerSettings::Random {}));
    assert!(learned < 0.5 * random, "{learned} against {random}");
}

#[test]
fn the_fronts_of_the_samplers_cover_a_known_problem() {
    // ZDT1 with three numbers: the front is 1 - √x, of hypervolume 2/3 up to (1, 1).
    let space = r#"
        x = { kind = "float", low = 0.0, high = 1.0 }
        y = { kind = "float", low = 0.0, high = 1.0 }
        z = { kind = "float", low = 0.0, high = 1.0 }
    "#;
    let evolution = SamplerSettings::Evolution { population: 20 };
    for (sampler, trials, least) in
        [(TPE, 200, 0.45), (evolution, 500, 0.6), (SamplerSettings::Random {}, 200, 0.0)]
    {
        let all = search(space, sampler, 2, (1, trials), |point| {
            let [x, y, z] = point else { panic!("three keys") };
            let g = 1.0 + 4.5 * (y + z);
            vec![*x, g * (1.0 - (x / g).sqrt())]
        });
        let front: Vec<Vec<f64>> =
            pareto_front(&all).into_iter().map(|at| all[at].clone()).collect();
        let (own, whole) = (hypervolume(&front, &[1.0; 2]), hypervolume(&all, &[1.0; 2]));
        assert!((own - whole).abs() < 1e-12, "the front covers what all trials cover");
        assert!(own > least && own < 2.0 / 3.0, "{sampler:?}: {own}");
    }
}
