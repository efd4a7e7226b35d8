//! A quantized network that runs on a GPU from f32 to f32, proved against its portable path.

use anyhow::{Result, ensure};
use updraft_quant::slices::Isa;
use updraft_quant::{DeviceError, DeviceInt8Network, QuantizedModel, Workspace};

use crate::problem::{Outputs, Repeat, Site, widened};

/// Our int8 model on a GPU; inputs and outputs are copied in each repetition.
pub(super) struct OnGpu {
    network: DeviceInt8Network,
    model: QuantizedModel,
    x: Vec<f32>,
    y: Vec<f32>,
    workspace: Workspace,
    threads: usize,
}

impl OnGpu {
    /// A network for inputs `x` with `outputs` numbers of output in all; `None` if the strategy's
    /// device is no GPU.
    pub(super) fn new(
        site: &Site,
        model: &QuantizedModel,
        x: &[f32],
        outputs: usize,
    ) -> Result<Option<Self>> {
        let network = match DeviceInt8Network::try_new(model, &site.device) {
            Ok(network) => network,
            Err(DeviceError::NoGpu { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self {
            network,
            model: model.in_int8(),
            x: x.to_vec(),
            y: vec![0.0; outputs],
            workspace: Workspace::new(),
            threads: site.threads,
        }))
    }
}

impl Repeat for OnGpu {
    fn once(&mut self) -> Result<()> {
        let Self { network, x, y, workspace, threads, .. } = self;
        network.run_all(&[x.as_slice()], &mut [y.as_mut_slice()], workspace, *threads)?;
        Ok(())
    }

    /// # Errors
    /// If a bit differs from the portable path.
    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let mut plain = vec![0.0; self.y.len()];
        self.model.run(Isa::Portable, &self.x, &mut plain, &mut Workspace::new(), 1);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        ensure!(bits(&self.y) == bits(&plain), "the GPU and the portable path differ");
        Ok(Outputs::from([("answer".to_owned(), widened(&self.y))]))
    }
}
