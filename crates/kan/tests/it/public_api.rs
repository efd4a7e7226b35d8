//! Every promised name, imported.

#[expect(unused_imports, reason = "importing them is the test")]
use updraft_kan::slices::{
    Activation as ActivationOfSlices, Gradients, Grid, GridError, Isa, LayerError, LayerGeometry,
    LayerMemory, MAX_DEGREE, MAX_INTERVALS, Outside as OutsideOfSlices, PackedLayer,
    Placement as PlacementOfSlices, PlacementError as PlacementErrorOfSlices, QuantizeError,
    QuantizedLayer, QuantizedScratch, Scratch, Weights, backward, evaluate, forward, local_bases,
    refine, refit,
};

#[expect(unused_imports, reason = "importing them is the test")]
use updraft_kan::{
    Activation, ImportError, Kan, KanConfig, KanConfigError, KanLinear, KanLinearConfig, LayerPath,
    Outside, PackedKan, PackedKanLinear, Penalty, Placement, PlacementError,
};

#[cfg(feature = "reference")]
#[expect(unused_imports, reason = "importing it is the test")]
use updraft_kan::slices::reference::{Derivatives, Parameters, bases, slopes};

#[test]
fn what_computes_prints_for_a_report() {
    assert_eq!(LayerPath::Plain.to_string(), "plain");
    assert_eq!(LayerPath::Kernels(Isa::Portable).to_string(), "kernels (portable)");
    assert_eq!(Isa::Avx512Vnni.name(), "avx512vnni");
}
