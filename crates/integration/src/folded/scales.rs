//! The factors by which the maps of both pathways are multiplied, so that gates only add.

/// The factors of the color and the brightness pathway.
pub(crate) type Scales = [f64; 2];

/// The smallest weight that is folded, 2⁻²⁰.
///
/// Maps of f32 and bf16 that are multiplied by it are normal numbers down to 1e-32, and weights that
/// are divided by it are far from the largest.
const LEAST: f64 = 1.0 / 1_048_576.0;

/// What decides the factors of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScaledStage {
    /// α and β, if a gate ends the stage.
    pub(crate) gate: Option<Scales>,
    /// Whether maps pass through identity shortcuts from its begin to its end, with their factors.
    pub(crate) has_identity: bool,
}

impl ScaledStage {
    /// The weights of its gate, so that the gate adds; ones without a gate, and where a weight is too
    /// small.
    fn wanted(self) -> Scales {
        let is_large = |weights: &Scales| weights.iter().all(|weight| *weight >= LEAST);
        self.gate.filter(is_large).unwrap_or([1.0; 2])
    }
}

/// The factors behind the stems, then those behind each stage.
///
/// A `ReLU` of maps that are multiplied by a positive factor is its result multiplied by the factor, so
/// that any convolution without an identity shortcut beside it can change the factor.
pub(crate) fn scales_of(stages: &[ScaledStage]) -> Vec<Scales> {
    let first = stages.first().filter(|stage| stage.has_identity);
    let mut scales = vec![first.map_or([1.0; 2], |stage| stage.wanted())];
    for (at, stage) in stages.iter().enumerate() {
        scales.push(if stage.has_identity { scales[at] } else { stage.wanted() });
    }
    scales
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: bool = true;
    const CONVOLUTION: bool = false;

    fn scales(stages: &[(bool, Option<Scales>)]) -> Vec<Scales> {
        let stage = |&(has_identity, gate): &(bool, _)| ScaledStage { gate, has_identity };
        scales_of(&stages.iter().map(stage).collect::<Vec<_>>())
    }

    #[test]
    fn a_stage_has_the_weights_of_its_gate_and_an_identity_hands_them_to_the_stems() {
        let [a, b] = [[0.25, 0.75], [0.5, 0.125]];
        let given = scales(&[(IDENTITY, Some(a)), (CONVOLUTION, Some(b))]);
        assert_eq!(given, [a, a, b]);
        let given = scales(&[(CONVOLUTION, Some(a)), (CONVOLUTION, None), (CONVOLUTION, Some(b))]);
        assert_eq!(given, [[1.0; 2], a, [1.0; 2], b]);
    }

    #[test]
    fn an_identity_keeps_the_factors_that_another_gate_chose() {
        let [a, b] = [[0.25, 0.75], [0.5, 0.125]];
        let given = scales(&[(IDENTITY, Some(a)), (IDENTITY, Some(b)), (IDENTITY, None)]);
        assert_eq!(given, [a; 4]);
        assert_eq!(scales(&[(IDENTITY, None), (CONVOLUTION, Some(a))]), [[1.0; 2], [1.0; 2], a]);
        assert_eq!(scales(&[]), [[1.0; 2]]);
    }

    #[test]
    fn weights_too_small_to_divide_by_are_left_to_the_gate() {
        for weight in [0.0, 1e-35, 0.99 * LEAST, f64::NAN] {
            for gate in [[weight, 0.5], [0.5, weight]] {
                assert_eq!(scales(&[(IDENTITY, Some(gate))]), [[1.0; 2]; 2], "{weight}");
                let given = scales(&[(CONVOLUTION, Some(gate))]);
                assert_eq!(given, [[1.0; 2]; 2], "{weight}");
            }
        }
        assert_eq!(scales(&[(CONVOLUTION, Some([LEAST, 0.5]))])[1], [LEAST, 0.5]);
    }
}
