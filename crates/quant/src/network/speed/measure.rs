//! The measurement of the layers' times.

use std::time::{Duration, Instant};

use updraft_simd::Isa;

use super::{LayerSpeed, SpeedTable};
use crate::network::model::{Moment, QuantizedModel};
use crate::network::workspace::Workspace;

/// The runs of each form of a model, and the time after which no other one starts.
const LEAST_RUNS: usize = 7;
const MOST_RUNS: usize = 60;
const ENOUGH: Duration = Duration::from_millis(400);

impl QuantizedModel {
    /// Measures each layer in int8 and in f32 on this processor, and chooses the faster ones.
    ///
    /// One thread runs the model in both forms in alternation, at least seven times; a time is the
    /// median. The plan is then run, too, and replaced by the faster of both forms if it is not
    /// faster than they are. Inputs are random: no kernel's time depends on them.
    ///
    /// # Panics
    /// If the CPU does not have `isa`, or a batch is empty.
    #[must_use]
    pub fn measure_speed(&self, isa: Isa, batches: &[usize]) -> SpeedTable {
        let forms = [self.switched(|_| false), self.switched(|_| true)];
        let mut layers: Vec<LayerSpeed> = self.layers.iter().map(LayerSpeed::of).collect();
        for &batch in batches {
            let mut runs = forms.each_ref().map(|form| Run::new(form, batch));
            alternate(&mut runs, isa);
            let [int8, float] = runs.each_ref().map(Run::layers_ms);
            for (index, layer) in layers.iter_mut().enumerate() {
                let tensor = self.inputs.len() + index;
                let [codes, numbers] = self.conversions(isa, tensor, batch);
                layer.to_codes_ms.push(codes);
                layer.to_numbers_ms.push(numbers);
                for (times, ms) in
                    [(&mut layer.int8_ms, int8[index]), (&mut layer.f32_ms, float[index])]
                {
                    times.iter_mut().for_each(|times| times.push(ms));
                }
            }
        }
        let mut table = SpeedTable::new(self, isa, batches, layers);
        table.is_measured = true;
        table.check_whole(self, isa, forms);
        table
    }

    /// The times of converting a tensor, in milliseconds.
    fn conversions(&self, isa: Isa, tensor: usize, batch: usize) -> [f64; 2] {
        let mut numbers = vec![0.0; batch * self.len(tensor)];
        let mut codes = vec![0; numbers.len()];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..LEAST_RUNS {
            let started = Instant::now();
            self.quantize(isa, tensor, &numbers, &mut codes);
            times[0].push(milliseconds(started.elapsed()));
            let started = Instant::now();
            self.real(isa, tensor, &codes, &mut numbers);
            times[1].push(milliseconds(started.elapsed()));
        }
        times.map(median)
    }
}

impl SpeedTable {
    /// Measures the whole model by the plan beside both forms, and takes the fastest.
    fn check_whole(&mut self, model: &QuantizedModel, isa: Isa, forms: [QuantizedModel; 2]) {
        let [int8, float] = forms;
        let in_f32 = self.plan.in_f32.clone();
        let planned = model.switched(|index| in_f32.binary_search(&index).is_ok());
        let candidates = [int8, float, planned];
        for &batch in &self.batches {
            let mut runs = candidates.each_ref().map(|form| Run::new(form, batch));
            alternate(&mut runs, isa);
            self.whole_ms.push(runs.each_ref().map(Run::whole_ms));
        }
        let sums: Vec<f64> = (0..candidates.len())
            .map(|form| {
                self.whole_ms.iter().map(|ms| ms[form] / ms[0].max(f64::MIN_POSITIVE)).sum()
            })
            .collect();
        // The plan where it is as fast; else int8 before f32.
        let best = [2, 0, 1].into_iter().min_by(|&a, &b| sums[a].total_cmp(&sums[b]));
        match best {
            Some(0) => self.set_plan(model, &vec![false; model.layers.len()]),
            Some(1) => self.set_plan(model, &vec![true; model.layers.len()]),
            _ => return,
        }
        let chosen = best.unwrap_or_default();
        self.whole_ms.iter_mut().for_each(|ms| ms[2] = ms[chosen]);
    }
}

impl LayerSpeed {
    fn of(layer: &crate::network::layer::QuantizedLayer) -> Self {
        let (has_int8, has_f32) =
            (layer.form.int8().is_some(), layer.is_switchable() || layer.is_float());
        Self {
            name: layer.name.clone(),
            multiply_adds: layer.multiply_adds,
            int8_ms: has_int8.then(Vec::new),
            f32_ms: has_f32.then(Vec::new),
            to_codes_ms: Vec::new(),
            to_numbers_ms: Vec::new(),
            is_in_f32: false,
        }
    }
}

/// The repeated runs of one form of a model.
struct Run<'a> {
    model: &'a QuantizedModel,
    batch: usize,
    x: Vec<Vec<f32>>,
    y: Vec<Vec<f32>>,
    workspace: Workspace,
    /// The times of each tensor and of the whole model, one for each run, in milliseconds.
    tensors: Vec<Vec<f64>>,
    wholes: Vec<f64>,
}

impl<'a> Run<'a> {
    fn new(model: &'a QuantizedModel, batch: usize) -> Self {
        let mut state = 1_u32;
        let mut code = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let x = model.inputs.iter().enumerate().map(|(tensor, port)| {
            let scheme = model.schemes[tensor];
            (0..batch * port.numbers()).map(|_| scheme.real(code())).collect()
        });
        Self {
            model,
            batch,
            x: x.collect(),
            y: model.outputs().map(|port| vec![0.0; batch * port.numbers()]).collect(),
            workspace: Workspace::new(),
            tensors: vec![Vec::new(); model.shapes.len()],
            wholes: Vec::new(),
        }
    }

    fn once(&mut self, isa: Isa, is_timed: bool) {
        let x: Vec<&[f32]> = self.x.iter().map(Vec::as_slice).collect();
        let mut y: Vec<&mut [f32]> = self.y.iter_mut().map(Vec::as_mut_slice).collect();
        let mut sums = vec![Duration::ZERO; self.tensors.len()];
        let started = Instant::now();
        let mut last = started;
        let visit = |tensor: usize, moment: Moment<'_>| {
            let now = Instant::now();
            if let Moment::Computed(_) = moment {
                sums[tensor] += now - last;
            }
            last = now;
        };
        self.model.run_in_parts(isa, &x, &mut y, self.batch, &mut self.workspace, 1, visit);
        if is_timed {
            self.wholes.push(milliseconds(started.elapsed()));
            for (times, sum) in self.tensors.iter_mut().zip(sums) {
                times.push(milliseconds(sum));
            }
        }
    }

    fn layers_ms(&self) -> Vec<f64> {
        self.tensors[self.model.inputs.len()..].iter().cloned().map(median).collect()
    }

    fn whole_ms(&self) -> f64 {
        median(self.wholes.clone())
    }
}

/// Runs forms of a model in alternation; the first run of each allocates and packs.
fn alternate(runs: &mut [Run<'_>], isa: Isa) {
    let started = Instant::now();
    for index in 0..=MOST_RUNS {
        if index > LEAST_RUNS && started.elapsed() > ENOUGH {
            break;
        }
        runs.iter_mut().for_each(|run| run.once(isa, index > 0));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
