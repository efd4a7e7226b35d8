//! The options of folding: which parts of the network, beside the norms, become part of the weights.

/// How a network is folded; the norms always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldOptions {
    /// Whether the weights of static gates become part of the convolutions, so that a gate adds its
    /// streams; adaptive gates always keep their weighted sums.
    ///
    /// A gate with a weight of a pathway below 2⁻²⁰ keeps its weighted sum: the maps of that pathway
    /// would be as small, and the weights of their consumers as large. In f16, whose range is small,
    /// all gates do.
    pub gate_weights: bool,
    /// Whether the channels of both pathways are joined behind the stems, and their convolutions are
    /// one in two groups.
    ///
    /// There are half as many calls, and a gate needs no copy of both pathways; the products are the
    /// same. With gates that keep their weighted sums, each copies them apart instead. Products in
    /// bf16 are of convolutions in one group only.
    pub grouped: bool,
}

impl Default for FoldOptions {
    /// With the weights of the gates, and each pathway by itself.
    fn default() -> Self {
        Self { gate_weights: true, grouped: false }
    }
}
