//! The kernels of a layer's passes.

use crate::kernels::cube_cost::{
    CubeLayer, Images, KernelCost, Pass, bias_gradient, convolution, dense, expanded,
    scaler_gradient, sparse, tensor_cores, unsupported,
};
use crate::kernels::{BaseBranch, ConvGeometry, CubeForm, LayerGeometry, Weights};

/// The kernels of a layer's passes on a GPU, in the order in which they run.
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
            images: None,
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
        backward.extend(of_parameters(pass));
        Some(Self { forward, backward })
    }

    /// The kernels of a convolution of so many images with these spatial sizes, over all groups of
    /// channels; `None` as in [`LayerCost::of`], and for images that are smaller than the kernel, and
    /// forms other than [`CubeForm::Sparse`] and [`CubeForm::Dense`], which store patches.
    ///
    /// A launch computes all groups. A base branch of [`BaseBranch::ActivationOfConv`] is computed by
    /// burn, and not counted.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::CubeForm;
    /// use updraft_kan::roofline::LayerCost;
    /// use updraft_kan::slices::{Activation, BaseBranch, ConvAxis, ConvGeometry, Grid, Weights};
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    /// let branch = BaseBranch::ConvOfActivation;
    /// let conv = ConvGeometry::try_new(grid, [4, 6], 1, &axes, Activation::Silu, branch)?;
    /// let cost = LayerCost::of_conv(CubeForm::Dense, &conv, &Weights::default(), 2, &[8, 8])
    ///     .expect("cubic");
    /// // The images and eight coefficients a tap of each edge are read, and no patches.
    /// assert_eq!(cost.forward.len(), 1);
    /// assert_eq!(cost.forward[0].bytes_read, 4 * (2 * 4 * 64 + 9 * 4 * 8 * 6));
    /// assert_eq!(cost.forward[0].bytes_written, 4 * 2 * 6 * 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_conv(
        form: CubeForm,
        geometry: &ConvGeometry,
        weights: &Weights<'_>,
        batch: usize,
        sides: &[usize],
    ) -> Option<Self> {
        let grid = geometry.grid();
        let has_base =
            weights.base.is_some() && geometry.base_branch() == BaseBranch::ConvOfActivation;
        let activation = has_base.then(|| geometry.activation());
        let [is_scaled, has_bias] = [weights.scaler, weights.bias].map(|of| of.is_some());
        let layer = CubeLayer::new(grid, activation, is_scaled, has_bias);
        let shapes = geometry.shapes_of(batch, sides).ok()?;
        let is_possible = grid.is_uniform() && unsupported(grid).is_none() && computes(form, layer);
        if batch == 0 || !is_possible {
            return None;
        }
        let groups = geometry.groups().max(1);
        let channels = geometry.in_channels() / groups;
        let pass = Pass {
            layer,
            batch: (batch * shapes.out_pixels()) as u64,
            inputs: (channels * geometry.taps()) as u64,
            outputs: (geometry.out_channels() / groups) as u64,
            images: Some(Images {
                pixels: (batch * shapes.in_pixels()) as u64,
                channels: channels as u64,
                taps: geometry.taps() as u64,
            }),
        };
        let (forward, [of_input, of_weights]) = match form {
            CubeForm::Sparse => (
                sparse::forward::cost(pass),
                [sparse::input_gradient::cost(pass), sparse::weight_gradient::cost(pass)],
            ),
            CubeForm::Dense => (
                dense::forward::cost(pass),
                [dense::input_gradient::cost(pass), dense::weight_gradient::cost(pass)],
            ),
            _ => return None,
        };
        let groups = groups as u64;
        // The edges of all groups follow each other.
        let all_edges = Pass { inputs: groups * pass.inputs, ..pass };
        let of_groups = |cost: KernelCost| cost.of_groups(groups);
        let backward = [of_input, of_weights].map(of_groups).into_iter();
        let backward = backward.chain(convolution::addition_cost(pass, groups));
        let backward = backward.chain(scaler_gradient_cost(all_edges));
        Some(Self {
            forward: vec![of_groups(forward)],
            backward: backward.chain(bias_gradient_cost(pass).map(of_groups)).collect(),
        })
    }
}

/// The gradients that all forms share.
fn of_parameters(pass: Pass) -> impl Iterator<Item = KernelCost> {
    scaler_gradient_cost(pass).into_iter().chain(bias_gradient_cost(pass))
}

fn scaler_gradient_cost(pass: Pass) -> Option<KernelCost> {
    pass.layer.is_scaled.then(|| scaler_gradient::cost(pass))
}

fn bias_gradient_cost(pass: Pass) -> Option<KernelCost> {
    pass.layer.has_bias.then(|| bias_gradient::cost(pass))
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
