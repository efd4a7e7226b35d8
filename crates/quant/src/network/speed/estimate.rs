//! An estimate of the layers' times from their shapes.

use updraft_conv::slices::{Algorithm, ConvGeometry, ConvShape, Pass, strategy};
use updraft_simd::Isa;

use super::{LayerSpeed, SpeedTable};
use crate::kernels::is_by_winograd;
use crate::network::layer::QuantizedLayer;
use crate::network::model::QuantizedModel;

/// The samples for which the algorithm in f32 is chosen.
const BATCH: usize = 32;

// Multiply-adds for each nanosecond of one thread of an AMD EPYC (Zen 3) with AVX2, from measured
// layers of 4 to 256 channels on images of 8 to 32 pixels a side; only their ratios matter. A rate
// `most` with `half` is that of long sums, half of which is reached by sums of `half` products, or
// by `half` channels with Winograd's algorithm, in int8 with tiles of 2×2: those of 4×4 are faster.
// Pairs are in int8 and in f32.
const INT8: Rate = Rate { most: 60.0, half: 17.0 };
const WINOGRAD: [Rate; 2] = [Rate { most: 159.0, half: 25.0 }, Rate { most: 130.0, half: 26.0 }];
const DIRECT: Rate = Rate { most: 38.0, half: 30.0 };
const DEPTHWISE: [f64; 2] = [13.7, 9.3];

/// Output channels of a group that an int8 kernel computes at a time.
const OUTPUTS: f64 = 16.0;

/// Numbers for each nanosecond: of layers without products, and of conversions.
const PASSED: [f64; 2] = [2.5, 0.09];
const TO_CODES: f64 = 1.6;
const TO_NUMBERS: f64 = 2.5;

struct Rate {
    most: f64,
    half: f64,
}

impl Rate {
    /// The rate of sums of so many products.
    fn of(&self, products: usize) -> f64 {
        let products = products as f64;
        self.most * products / (products + self.half)
    }
}

impl QuantizedModel {
    /// Estimates each layer's time from its shape and chooses the faster arithmetic.
    ///
    /// With AVX2 and without instructions for products of bytes, convolutions with few output
    /// channels in a group may be faster in f32. On all other processors every layer stays in int8;
    /// [`measure_speed`](Self::measure_speed) measures instead.
    #[must_use]
    pub fn estimate_speed(&self, isa: Isa) -> SpeedTable {
        let layers = self.layers.iter().map(|layer| estimated(layer, isa.dot() == Isa::Avx2));
        SpeedTable::new(self, isa, &[1], layers.collect())
    }
}

fn estimated(layer: &QuantizedLayer, may_switch: bool) -> LayerSpeed {
    let numbers = layer.shapes.y.iter().product::<usize>() as f64;
    let products = layer.multiply_adds as f64;
    let [int8, float] = match layer.operation.geometry(&layer.shapes) {
        Some(geometry) => rates(&geometry).map(|rate| products / rate),
        None => PASSED.map(|rate| numbers / rate),
    };
    let ms = |nanoseconds: f64| vec![nanoseconds * 1e-6];
    let has_f32 = layer.is_float() || layer.is_switchable() && may_switch;
    LayerSpeed {
        name: layer.name.clone(),
        multiply_adds: layer.multiply_adds,
        int8_ms: layer.form.int8().map(|_| ms(int8)),
        f32_ms: has_f32.then(|| ms(float)),
        to_codes_ms: ms(numbers / TO_CODES),
        to_numbers_ms: ms(numbers / TO_NUMBERS),
        is_in_f32: false,
    }
}

/// The rates of a convolution in int8 and in f32.
fn rates(geometry: &ConvGeometry) -> [f64; 2] {
    let shape = geometry.shape();
    let [inputs, outputs] = shape.channels.map(|channels| channels / shape.groups);
    if shape.groups > 1 && inputs == 1 {
        return DEPTHWISE;
    }
    let sum = inputs * shape.kernel[0] * shape.kernel[1];
    let width = inputs.min(outputs);
    let int8 = if is_by_winograd(Isa::Avx2, geometry) {
        WINOGRAD[0].of(width)
    } else {
        INT8.of(sum) * (outputs as f64 / OUTPUTS).min(1.0)
    };
    let batch = ConvGeometry::try_new(ConvShape { batch: BATCH, ..*shape });
    let batch = batch.unwrap_or(*geometry);
    let f32 = match strategy(Isa::Avx2, &batch, Pass::Forward).algorithm {
        Algorithm::Winograd => WINOGRAD[1].of(width),
        _ => DIRECT.of(sum),
    };
    [int8, f32]
}
