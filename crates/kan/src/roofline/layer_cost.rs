//! The kernels of a layer's passes.

use crate::kernels::cube_cost::{
    CubeLayer, KernelCost, Pass, bias_gradient, dense, expanded, scaler_gradient, sparse,
    tensor_cores, unsupported,
};
use crate::kernels::{CubeForm, LayerGeometry, Weights};

/// The kernels of a linear layer's passes on a GPU, in the order in which they run.
///
/// The backward pass is that to the gradients of the input and of all parameters.
/// Inputs are of f32; those of bf16 and f16 are converted by burn before the kernels run, and
/// outputs after it, which is not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerCost {
    /// From the input to the outputs.
    pub forward: Vec<KernelCost>,
    /// From the gradient of the outputs to those of the input and of the parameters.
    pub backward: Vec<KernelCost>,
}

impl LayerCost {
    /// The kernels of a form for a batch; `None` if there are none: for an empty batch, intervals
    /// that f32 does not resolve, degrees above 12, knots of each feature and degrees other than 1 to
    /// 3 in another form than [`CubeForm::Sparse`], and more rows of weights an input than the form
    /// computes.
    ///
    /// Only the presence of parameters matters, not their values: slices may be empty.
    /// A device may lack what a form needs, such as tensor cores.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::CubeForm;
    /// use updraft_kan::roofline::LayerCost;
    /// use updraft_kan::slices::{Activation, Grid, LayerGeometry, Weights};
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let layer = LayerGeometry::try_new(grid, 2, 3, Activation::Silu)?;
    /// let cost = LayerCost::of(CubeForm::Sparse, &layer, &Weights::default(), 16).expect("cubic");
    /// // The input and eight coefficients an edge are read, and the outputs written.
    /// let forward = cost.forward[0];
    /// assert_eq!(forward.bytes_read, 4 * (16 * 2 + 2 * 8 * 3));
    /// assert_eq!(forward.bytes_written, 4 * 16 * 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(
        form: CubeForm,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        batch: usize,
    ) -> Option<Self> {
        let grid = geometry.grid();
        let activation = weights.base.is_some().then(|| geometry.activation());
        let [is_scaled, has_bias] = [weights.scaler, weights.bias].map(|of| of.is_some());
        let layer = CubeLayer::new(grid, activation, is_scaled, has_bias);
        if batch == 0 || unsupported(grid).is_some() || !computes(form, layer) {
            return None;
        }
        let pass = Pass {
            layer,
            batch: batch as u64,
            inputs: geometry.in_features() as u64,
            outputs: geometry.out_features() as u64,
        };
        let (forward, mut backward) = match form {
            CubeForm::Sparse => (
                vec![sparse::forward::cost(pass)],
                vec![sparse::input_gradient::cost(pass), sparse::weight_gradient::cost(pass)],
            ),
            CubeForm::Dense => (
                vec![dense::forward::cost(pass)],
                vec![dense::input_gradient::cost(pass), dense::weight_gradient::cost(pass)],
            ),
            CubeForm::Bf16 | CubeForm::F16 => (
                vec![tensor_cores::pack::cost(pass), tensor_cores::forward::cost(pass)],
                vec![
                    tensor_cores::pack::cost(pass),
                    tensor_cores::input_gradient::cost(pass),
                    tensor_cores::weight_gradient::cost(pass),
                ],
            ),
            CubeForm::Expanded | CubeForm::ExpandedBf16 | CubeForm::ExpandedF16 => {
                let bytes = expanded_bytes(form);
                (expanded_forward(pass, bytes), expanded_backward(pass, bytes))
            }
        };
        if layer.is_scaled {
            backward.push(scaler_gradient::cost(pass));
        }
        if layer.has_bias {
            backward.push(bias_gradient::cost(pass));
        }
        Some(Self { forward, backward })
    }
}

/// Whether the kernels of a form compute the bases of a layer, and as many rows of weights an input
/// as it has.
fn computes(form: CubeForm, layer: CubeLayer) -> bool {
    match form {
        CubeForm::Sparse => true,
        _ if !layer.is_closed() => false,
        CubeForm::Dense => layer.rows() <= dense::MOST_ROWS,
        CubeForm::Bf16 | CubeForm::F16 => layer.rows() as u32 <= tensor_cores::DEPTH,
        CubeForm::Expanded | CubeForm::ExpandedBf16 | CubeForm::ExpandedF16 => {
            expanded::pairs_of_cube(layer, expanded_bytes(form)) > 0
        }
    }
}

/// Bytes of a number of the matrices of an expanded form.
fn expanded_bytes(form: CubeForm) -> usize {
    if form == CubeForm::Expanded { size_of::<f32>() } else { 2 }
}

fn expanded_forward(pass: Pass, number_bytes: usize) -> Vec<KernelCost> {
    let parts = expanded::Parts::of_samples(pass, number_bytes);
    let mut kernels = vec![
        expanded::weights::pack_cost(pass, parts, 1),
        expanded::bases::cost(pass, parts),
        expanded::products::forward_cost(pass, parts),
    ];
    if pass.layer.has_bias {
        kernels.push(expanded::bias::cost(pass));
    }
    kernels
}

fn expanded_backward(pass: Pass, number_bytes: usize) -> Vec<KernelCost> {
    let parts = expanded::Parts::of_inputs(pass, number_bytes);
    let is_cast = number_bytes < size_of::<f32>();
    let cast = is_cast.then(|| expanded::products::cast_cost(pass, parts));
    let of_parts = [
        expanded::weights::pack_cost(pass, parts, parts.count()),
        expanded::products::of_values_cost(pass, parts),
        expanded::contraction::cost(pass, parts),
        expanded::bases::cost(pass, parts),
        expanded::products::of_weights_cost(pass, parts),
        expanded::weights::unpack_cost(pass, parts),
    ];
    cast.into_iter().chain(of_parts).collect()
}
