//! The choice of each layer's bits, by the effect of each layer alone.

use anyhow::{Result, bail};
use serde::Serialize;
use updraft_data::{Progress, ProgressUnit};
use updraft_quant::slices::Isa;
use updraft_quant::{Assignment, Graph, Observation, Quantization, Sensitivity};
use updraft_run::CalibrationSamples;

use super::batches::{Batches, STOPPED};
use super::settings::QuantizeSettings;
use crate::progress::Display;
use crate::steps::Steps;
use crate::stop;
use crate::wrap::hanging;
use crate::{Failed, Stopped};

/// The assignments on the front that are tested.
const FRONT: usize = 12;

/// The assignments that `--max-drop` searches.
const SEARCHED: usize = 64;

/// The layers of the printed ranking.
const MOST_LAYERS: usize = 10;

/// The columns of a layer's name in the ranking.
const NAME: usize = 36;

/// What the choice depends on.
pub(super) struct Bits<'a> {
    pub(super) settings: &'a QuantizeSettings,
    pub(super) graph: &'a Graph,
    pub(super) samples: &'a dyn CalibrationSamples,
    /// Numbers of a sample.
    pub(super) each: usize,
    pub(super) isa: Isa,
}

/// The effect of each layer, the front of size against accuracy, and the chosen bits.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChosenBits {
    pub(super) sensitivity: Option<Sensitivity>,
    pub(super) front: Vec<FrontPoint>,
    pub(super) assignment: Option<Assignment>,
    /// The chosen one, tested.
    pub(super) tested: Option<FrontPoint>,
}

/// An assignment of bits, tested on the calibration samples.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FrontPoint {
    /// Bytes of the parameters, and as a fraction of those in f32.
    bytes: usize,
    fraction: f64,
    /// Noise of the outputs as the sum of the layers' effects, as a fraction of their energy.
    noise: f64,
    /// The measured score.
    score: f64,
    sqnr_db: Option<f64>,
    agreement: Option<f64>,
}

impl Bits<'_> {
    /// Measures each layer and chooses bits, if the settings require it.
    pub(super) fn choose(&self, steps: &mut Steps, display: &mut Display) -> Result<ChosenBits> {
        let mut chosen = ChosenBits::default();
        let settings = self.settings;
        if !settings.measures_layers() {
            return Ok(chosen);
        }
        let by = settings.quantization(settings.method, "");
        let (observation, sensitivity) = steps.take("measure each layer", |label| {
            let mut batches = Batches::new(self.samples.batches()?, self.each, display, label);
            let observation = Observation::try_new(self.graph, batches.by_ref(), &by);
            batches.end()?;
            let observation = observation?;
            let formats = settings.formats();
            let sensitivity =
                self.samples.sensitivity(&observation, (&by, &formats), &mut watch(display, label));
            display.clear();
            let Some(sensitivity) = sensitivity? else { bail!(Stopped(STOPPED.to_owned())) };
            anyhow::Ok((observation, sensitivity))
        })?;
        if settings.chooses_bits() {
            steps.take("choose bits", |label| {
                let mut test = |assignment: &Assignment| {
                    self.test(&observation, &by, assignment, label, display)
                };
                let mut tested = Vec::new();
                for assignment in sensitivity.front(FRONT) {
                    let (point, fall) = test(&assignment)?;
                    chosen.front.push(point.clone());
                    tested.push((assignment, point, fall));
                }
                let (assignment, point) = match (settings.budget, settings.max_drop) {
                    (Some(budget), _) => {
                        let assignment = sensitivity.try_within(budget)?;
                        let point = test(&assignment)?.0;
                        (assignment, point)
                    }
                    (None, drop) => {
                        smallest(&sensitivity, drop.unwrap_or_default(), &tested, &mut test)?
                    }
                };
                chosen.assignment = Some(assignment);
                chosen.tested = Some(point);
                anyhow::Ok(())
            })?;
        }
        chosen.sensitivity = Some(sensitivity);
        Ok(chosen)
    }

    /// Tests an assignment on the calibration samples; also returns the fall of the score.
    fn test(
        &self,
        observation: &Observation,
        by: &Quantization,
        assignment: &Assignment,
        label: &str,
        display: &mut Display,
    ) -> Result<(FrontPoint, f64)> {
        let model = observation.try_quantize(&assignment.apply(by.clone()))?;
        let tested =
            self.samples.evaluate(self.graph, &model, self.isa, &mut watch(display, label));
        display.clear();
        let Some(tested) = tested? else { bail!(Stopped(STOPPED.to_owned())) };
        let point = FrontPoint {
            bytes: assignment.bytes,
            fraction: assignment.fraction,
            noise: assignment.noise,
            score: tested.score_int8,
            sqnr_db: tested.sqnr_db,
            agreement: tested.agreement,
        };
        if self.settings.max_drop.is_some() && !tested.is_share {
            bail!(Failed(format!(
                "`--max-drop` is in points of a score from 0 to 1, and {} is not one; use `--budget`",
                tested.score.replace('_', " ")
            )));
        }
        let fall = tested.score_f32 - tested.score_int8;
        Ok((point, if tested.is_higher_better { fall } else { -fall }))
    }
}

/// The assignment with the fewest bytes whose score falls by at most so many points: the smallest of
/// those that were tested, with their falls, or of those of a finer front between it and the next
/// smaller one, by bisection; the score of the result is measured.
fn smallest(
    sensitivity: &Sensitivity,
    drop: f64,
    tested: &[(Assignment, FrontPoint, f64)],
    test: &mut impl FnMut(&Assignment) -> Result<(FrontPoint, f64)>,
) -> Result<(Assignment, FrontPoint)> {
    let is_good = |fall: f64| 100.0 * fall <= drop;
    let least = tested.iter().map(|(.., fall)| *fall).fold(f64::INFINITY, f64::min);
    let Some(at) = tested.iter().position(|(.., fall)| is_good(*fall)) else {
        bail!(Failed(format!(
            "no choice of bits loses at most {drop} points on the calibration samples; the best of \
             those tested loses {:.2}, which is the nearest possible --max-drop",
            // Rounded up, so that it is possible.
            (10_000.0 * least).ceil() / 100.0
        )));
    };
    let bytes = |at: usize| tested[at].0.bytes;
    let smaller = at.checked_sub(1).map_or(0, bytes);
    let mut between = sensitivity.front(SEARCHED);
    between.retain(|assignment| assignment.bytes > smaller && assignment.bytes < bytes(at));
    let mut found = (tested[at].0.clone(), tested[at].1.clone());
    // The score is nearly monotonous: what is found always was measured to be good.
    let (mut bad, mut good) = (0, between.len());
    while bad < good {
        let middle = usize::midpoint(bad, good);
        match test(&between[middle])? {
            (point, fall) if is_good(fall) => {
                found = (between[middle].clone(), point);
                good = middle;
            }
            _ => bad = middle + 1,
        }
    }
    Ok(found)
}

/// Shows the progress; `false` once the user has stopped the program.
fn watch<'a>(display: &'a mut Display, label: &'a str) -> impl FnMut(u64, u64) -> bool + 'a {
    |done, total| {
        let progress = Progress { done, total, unit: ProgressUnit::Samples };
        display.preparing(label, progress);
        !stop::requested()
    }
}

impl ChosenBits {
    /// The ranking and the chosen bits, at most eighty columns wide; empty if nothing was measured.
    pub(super) fn lines(&self) -> String {
        let Some(sensitivity) = &self.sensitivity else { return String::new() };
        let mut lines = vec![
            "signal to noise of the outputs with one layer quantized alone, in dB".to_owned(),
            format!(
                "{:NAME$}{:>9}{:>8}{:>8}{:>8}{:>8}",
                "", "weights", "8 bit", "4 bit", "3 bit", "2 bit"
            ),
        ];
        let ranking = sensitivity.ranking(1);
        for layer in ranking.iter().take(MOST_LAYERS) {
            let decibels = layer.choices.iter().map(|choice| match choice.sqnr_db {
                Some(decibels) => format!("{decibels:>8.1}"),
                None => format!("{:>8}", "none"),
            });
            let name = shortened(&layer.name);
            lines.push(format!("{name:NAME$}{:>9}{}", layer.weights, decibels.collect::<String>()));
        }
        if let Some(rest) = ranking.len().checked_sub(MOST_LAYERS).filter(|rest| *rest > 0) {
            lines.push(format!("and {rest} layers with less noise at 4 bits, in quant.json"));
        }
        if let Some(assignment) = &self.assignment {
            let of_bits = |bits: Option<u8>| {
                let of_layers = assignment.layers.iter();
                of_layers.filter(|(_, format)| format.map(|format| format.bits()) == bits).count()
            };
            let counts: Vec<String> = [Some(2), Some(3), Some(4), Some(8), None]
                .into_iter()
                .filter(|bits| of_bits(*bits) > 0)
                .map(|bits| match bits {
                    Some(number) => format!("{number} bits for {}", layers(of_bits(bits))),
                    None => format!("f32 for {}", layers(of_bits(bits))),
                })
                .collect();
            let chosen = format!(
                "chosen: {}; {:.2} % of the bytes of f32",
                counts.join(", "),
                100.0 * assignment.fraction
            );
            lines.push(hanging("", &chosen));
        }
        if let Some(FrontPoint { score, agreement, .. }) = &self.tested {
            let name = sensitivity.score.replace('_', " ");
            let agreement = agreement.map_or(String::new(), |share| {
                format!("; {:.2} % of the predictions agree", 100.0 * share)
            });
            let tested = format!(
                "{name} of the {} calibration samples: {score:.4}, in f32 {:.4}{agreement}",
                sensitivity.samples, sensitivity.score_f32
            );
            lines.push(hanging("", &tested));
        }
        lines.join("\n") + "\n"
    }
}

/// A number of layers.
fn layers(count: usize) -> String {
    format!("{count} layer{}", if count == 1 { "" } else { "s" })
}

/// The end of a long name.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    match count.checked_sub(NAME - 1) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("…{}", name.chars().skip(more + 1).collect::<String>()),
    }
}
