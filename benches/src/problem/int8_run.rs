//! A quantized network that runs from f32 to f32, proved against its portable path.

use anyhow::{Result, ensure};
use updraft_quant::slices::Isa;
use updraft_quant::{QuantizedModel, Workspace};

#[cfg(feature = "cube")]
use crate::problem::cube_int8::OnGpu;
use crate::problem::{Outputs, Repeat, Site, widened};
use crate::strategy::{Kernels, isa_named};

/// The network on the device of a strategy, for inputs `x` with `outputs` numbers of output in all:
/// by kernels for GPUs where that is one, on slices elsewhere.
pub(super) fn in_int8(
    site: &Site,
    model: QuantizedModel,
    x: Vec<f32>,
    outputs: usize,
) -> Result<Box<dyn Repeat>> {
    #[cfg(feature = "cube")]
    if let Some(on_gpu) = OnGpu::new(site, &model, &x, outputs)? {
        return Ok(Box::new(on_gpu));
    }
    Ok(Box::new(InBytes::new(site, model, x, outputs)?))
}

/// Our int8 model, on slices.
pub(super) struct InBytes {
    isa: Isa,
    model: QuantizedModel,
    x: Vec<f32>,
    y: Vec<f32>,
    workspace: Workspace,
    threads: usize,
}

impl Repeat for InBytes {
    fn once(&mut self) -> Result<()> {
        self.model.run(self.isa, &self.x, &mut self.y, &mut self.workspace, self.threads);
        Ok(())
    }

    /// # Errors
    /// If a bit differs from the portable path.
    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let mut plain = vec![0.0; self.y.len()];
        self.model.run(Isa::Portable, &self.x, &mut plain, &mut Workspace::new(), 1);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        ensure!(bits(&self.y) == bits(&plain), "{} and the portable path differ", self.isa);
        Ok(Outputs::from([("answer".to_owned(), widened(&self.y))]))
    }
}

impl InBytes {
    /// A network for inputs `x` with `outputs` numbers of output in all.
    ///
    /// A forced instruction set runs every layer in int8, the dispatched one the faster of int8 and
    /// f32.
    pub(super) fn new(
        site: &Site,
        model: QuantizedModel,
        x: Vec<f32>,
        outputs: usize,
    ) -> Result<Self> {
        let (isa, model) = match site.kernels {
            Kernels::Forced(name) => (isa_named(name)?, model),
            Kernels::Ours | Kernels::Burn => {
                let isa = Isa::detect();
                (isa, model.for_processor(isa))
            }
        };
        let (y, workspace) = (vec![0.0; outputs], Workspace::new());
        Ok(Self { isa, model, x, y, workspace, threads: site.threads })
    }
}
