//! Compares a network of splines with perceptrons of equal size and of equal training time.
//!
//! ```text
//! cargo run --release -p updraft-bench --example kan_beside_mlp -- exp-sin-square
//! cargo run --release -p updraft-bench --example kan_beside_mlp -- friedman1
//! cargo run --release -p updraft-bench --example kan_beside_mlp -- wine FOLDER
//! ```
//!
//! `FOLDER` holds `winequality-red.csv` and `winequality-white.csv` of
//! <https://archive.ics.uci.edu/dataset/186/wine+quality>, with commas and without their headers.
//! Each network has the learning rate that is best on rows held out of the training; the test
//! rows are used once. Times are processor times of one training run.
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use updraft_data::{
    Collate, Delimiter, Draw, Formula, Table, TableSchema, formula_samples, stratified_split,
};
use updraft_kan::{Kan, KanConfig, KanLinearConfig};

const EPOCHS: usize = 60;
const BATCH: usize = 64;
const SEEDS: [u64; 3] = [1, 2, 3];
const LEARNING_RATES: [f64; 3] = [1e-3, 3e-3, 1e-2];
/// Hidden features of the splines, and their intervals over ± 2.5 standard deviations.
const HIDDEN: usize = 8;
const INTERVALS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let device = Device::flex().autodiff();
    let problem = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["exp-sin-square"] => Problem::of_formula(Formula::ExpSinSquare, 0.0, &device)?,
        ["friedman1"] => Problem::of_formula(Formula::Friedman1, 1.0, &device)?,
        ["wine", folder] => Problem::of_wine(Path::new(folder), &device)?,
        _ => bail!("expected `exp-sin-square`, `friedman1` or `wine FOLDER`"),
    };
    let inputs = problem.train.x.dims()[1];
    let splines = Shape::Splines { inputs };
    let parameters = splines.init(&device).num_params();
    let equal = Shape::perceptron_of(inputs, parameters);
    let slow = Shape::perceptron_as_slow(&problem, splines, &device)?;
    println!("test error in units of the values, whose deviation is {:.4}", problem.deviation);
    println!("{:<24}{:>10}{:>8}  RMSE, 3 seeds              MAE", "network", "parameters", "CPU s");
    for (name, shape) in
        [("splines", splines), ("as many parameters", equal), ("as much time", slow)]
    {
        let scores = SEEDS.map(|seed| score(&problem, shape, seed, &device));
        let scores = scores.into_iter().collect::<Result<Vec<Score>>>()?;
        let mean = |of: fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / SEEDS.len() as f64;
        let rmse = scores.iter().map(|score| score.rmse);
        let (least, most) = rmse.fold((f64::INFINITY, 0.0_f64), |(least, most), rmse| {
            (least.min(rmse), most.max(rmse))
        });
        println!(
            "{:<24}{:>10}{:>8.2}  {:.4} ({least:.4} to {most:.4})  {:.4}",
            format!("{name} {}", shape.widths(inputs)),
            shape.init(&device).num_params(),
            mean(|score| score.seconds),
            mean(|score| score.rmse),
            mean(|score| score.mae),
        );
    }
    Ok(())
}

/// A trained network's errors on the test rows, and what its training took.
struct Score {
    rmse: f64,
    mae: f64,
    seconds: f64,
}

/// Trains with every learning rate, and scores the network that is best on held-out rows.
fn score(problem: &Problem, shape: Shape, seed: u64, device: &Device) -> Result<Score> {
    let mut best: Option<(f64, Network)> = None;
    let started = cpu_seconds()?;
    for rate in LEARNING_RATES {
        device.seed(seed);
        let network = train(&problem.train, shape.init(device), rate, seed, EPOCHS, device);
        let (held_out, _) = errors(&network, &problem.held_out)?;
        if best.as_ref().is_none_or(|(least, _)| held_out < *least) {
            best = Some((held_out, network));
        }
    }
    let seconds = (cpu_seconds()? - started) / LEARNING_RATES.len() as f64;
    let (_, network) = best.context("no learning rate gave a finite error")?;
    let (rmse, mae) = errors(&network, &problem.test)?;
    Ok(Score { rmse: rmse * problem.deviation, mae: mae * problem.deviation, seconds })
}

/// The kind and width of a network.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// One hidden layer.
    Splines { inputs: usize },
    /// Two hidden layers of one width, with `SiLU`.
    Perceptron { inputs: usize, width: usize },
}

impl Shape {
    fn init(self, device: &Device) -> Network {
        match self {
            Self::Splines { inputs } => {
                let layer = KanLinearConfig::new(1, 1)
                    .with_intervals(INTERVALS)
                    .with_domain_low(-2.5)
                    .with_domain_high(2.5);
                let config = KanConfig::new(vec![inputs, HIDDEN, 1]).with_layer(layer);
                Network::Splines(config.init(device))
            }
            Self::Perceptron { inputs, width } => {
                let widths = [inputs, width, width, 1];
                let layers = widths.windows(2).map(|pair| LinearConfig::new(pair[0], pair[1]));
                Network::Perceptron(layers.map(|layer| layer.init(device)).collect())
            }
        }
    }

    fn widths(self, inputs: usize) -> String {
        match self {
            Self::Splines { .. } => format!("{inputs}-{HIDDEN}-1"),
            Self::Perceptron { width, .. } => format!("{inputs}-{width}-{width}-1"),
        }
    }

    /// The widest perceptron that has no more parameters.
    fn perceptron_of(inputs: usize, parameters: usize) -> Self {
        let count = |width: usize| (inputs + 1) * width + (width + 1) * width + width + 1;
        let width = (1..).take_while(|&width| count(width) <= parameters).last().unwrap_or(1);
        Self::Perceptron { inputs, width }
    }

    /// The perceptron whose training takes the time that is nearest to another network's.
    fn perceptron_as_slow(problem: &Problem, other: Self, device: &Device) -> Result<Self> {
        let inputs = problem.train.x.dims()[1];
        let wanted = other.seconds(problem, device)?;
        let mut nearest = (f64::INFINITY, other);
        for width in [8, 16, 24, 32, 48, 64, 96, 128, 192, 256] {
            let shape = Self::Perceptron { inputs, width };
            let away = (shape.seconds(problem, device)? / wanted).ln().abs();
            if away < nearest.0 {
                nearest = (away, shape);
            }
        }
        Ok(nearest.1)
    }

    /// The time of some epochs, the fastest of three.
    fn seconds(self, problem: &Problem, device: &Device) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let started = cpu_seconds()?;
            train(&problem.train, self.init(device), 1e-3, 1, 3, device);
            least = least.min(cpu_seconds()? - started);
        }
        Ok(least)
    }
}

#[derive(Module, Debug)]
enum Network {
    Splines(Kan),
    Perceptron(Vec<Linear>),
}

impl Network {
    /// From `[rows, inputs]` to `[rows, 1]`.
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Splines(network) => network.forward(x),
            Self::Perceptron(layers) => {
                let (last, hidden) = layers.split_last().expect("three layers");
                last.forward(hidden.iter().fold(x, |x, layer| silu(layer.forward(x))))
            }
        }
    }
}

/// Adam on the mean squared error, its learning rate along a cosine to zero.
fn train(
    rows: &Rows,
    mut network: Network,
    rate: f64,
    seed: u64,
    epochs: usize,
    device: &Device,
) -> Network {
    let mut optimizer = AdamConfig::new().init();
    let count = rows.x.dims()[0];
    let steps = count / BATCH * epochs;
    let mut order: Vec<i64> = (0..count as i64).collect();
    let mut state = seed;
    for step in 0..steps {
        let start = step % (count / BATCH) * BATCH;
        if start == 0 {
            shuffle(&mut order, &mut state);
        }
        let batch = TensorData::new(order[start..start + BATCH].to_vec(), [BATCH]);
        let batch = Tensor::<1, Int>::from_data(batch, device);
        let x = rows.x.clone().select(0, batch.clone());
        let y = rows.y.clone().select(0, batch);
        let loss = (network.forward(x) - y).powi_scalar(2).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let share = step as f64 / steps as f64;
        let rate = rate * 0.5 * (1.0 + (std::f64::consts::PI * share).cos());
        network = optimizer.step(rate, network, gradients);
    }
    network
}

/// Fisher and Yates, with the numbers of splitmix64.
fn shuffle(order: &mut [i64], state: &mut u64) {
    for last in (1..order.len()).rev() {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = *state;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        order.swap(last, ((number ^ (number >> 31)) % (last as u64 + 1)) as usize);
    }
}

/// The root of the mean squared error, and the mean absolute one.
fn errors(network: &Network, rows: &Rows) -> Result<(f64, f64)> {
    let away = network.forward(rows.x.clone()) - rows.y.clone();
    let read = |mean: Tensor<1>| mean.into_data().iter::<f64>().next().context("a mean");
    let squares = read(away.clone().powi_scalar(2).mean())?;
    Ok((squares.sqrt(), read(away.abs().mean())?))
}

fn cpu_seconds() -> Result<f64> {
    updraft_device::cpu_seconds()
        .context("this system does not report the processor time of a process")
}

/// Inputs `[rows, inputs]` and values `[rows, 1]`, by the training rows' mean and deviation.
struct Rows {
    x: Tensor<2>,
    y: Tensor<2>,
}

struct Problem {
    train: Rows,
    held_out: Rows,
    test: Rows,
    /// The deviation of the values in their own unit.
    deviation: f64,
}

impl Problem {
    /// Only the training rows, and those held out of them, have noise.
    fn of_formula(formula: Formula, noise: f32, device: &Device) -> Result<Self> {
        let draw = |rows: usize, noise: f32, seed: u64| -> Result<Rows> {
            let set = formula_samples(formula, rows, noise, seed)?;
            let mut batch = set.begin(rows);
            for index in 0..rows {
                let draw = Draw { seed, epoch: 0, index };
                set.add(draw, &mut Default::default(), &mut batch)?;
            }
            Ok(Rows { x: batch.input::<2>(device)?, y: batch.target_values::<2>(device)? })
        };
        Ok(Self::standardized(draw(2000, noise, 1)?, draw(500, noise, 2)?, draw(2000, 0.0, 3)?))
    }

    /// Both colors with the color as an input; a fifth of the rows of each quality is the test.
    fn of_wine(folder: &Path, device: &Device) -> Result<Self> {
        const COLUMNS: usize = 12;
        let names: Vec<String> = (0..COLUMNS).map(|column| column.to_string()).collect();
        let mut wines: Vec<Vec<f32>> = Vec::new();
        let mut qualities = Vec::new();
        for (color, name) in [(0.0, "winequality-red.csv"), (1.0, "winequality-white.csv")] {
            let schema = names.iter().fold(TableSchema::new(), |schema, name| schema.number(name));
            let schema = schema.with_header(names.clone());
            let table = Table::read(folder.join(name), Delimiter::Comma, schema)?;
            for row in 0..table.rows() {
                let number = |column: &String| -> Result<f32> {
                    let number = table.number(column, row)?;
                    Ok(number.with_context(|| format!("`{name}`: row {row} lacks {column}"))?
                        as f32)
                };
                let mut wine = names.iter().map(number).collect::<Result<Vec<f32>>>()?;
                let quality = wine.pop().context("twelve columns")?;
                ensure!(quality >= 0.0, "`{name}`: row {row} has quality {quality}");
                wine.extend([color, quality]);
                qualities.push(quality as usize);
                wines.push(wine);
            }
        }
        let outer = stratified_split(&qualities, 0.2, 1)?;
        let kept: Vec<usize> = outer.kept.iter().map(|&row| qualities[row]).collect();
        let inner = stratified_split(&kept, 0.125, 1)?;
        let rows = |places: &[usize]| {
            let numbers: Vec<f32> = places.iter().flat_map(|&place| wines[place].clone()).collect();
            let numbers = TensorData::new(numbers, [places.len(), COLUMNS + 1]);
            let numbers = Tensor::<2>::from_data(numbers, device);
            let x = numbers.clone().narrow(1, 0, COLUMNS);
            Rows { x, y: numbers.narrow(1, COLUMNS, 1) }
        };
        let places = |inner: &[usize]| inner.iter().map(|&at| outer.kept[at]).collect::<Vec<_>>();
        let (train, held_out) = (places(&inner.kept), places(&inner.held_out));
        Ok(Self::standardized(rows(&train), rows(&held_out), rows(&outer.held_out)))
    }

    /// Normalizes by the mean and deviation of the training rows.
    fn standardized(train: Rows, held_out: Rows, test: Rows) -> Self {
        let [x, y] = [&train.x, &train.y].map(|values| values.clone().var_mean_bias(0));
        let scaled = |values: Tensor<2>, (variance, mean): &(Tensor<2>, Tensor<2>)| {
            (values - mean.clone()) / variance.clone().sqrt()
        };
        let deviation = y.0.clone().sqrt().into_data().iter::<f64>().next().unwrap_or(1.0);
        let [train, held_out, test] = [train, held_out, test]
            .map(|rows| Rows { x: scaled(rows.x, &x), y: scaled(rows.y, &y) });
        Self { train, held_out, test, deviation }
    }
}
