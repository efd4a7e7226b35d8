//! A batch of gray images from memory: bytes gathered in a random order, normalized to f32.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use updraft_data::{InMemoryTensors, Loader, Order, StreamConfig, Targets, TensorBatch, Workers};

use crate::formula;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, widened};

const FILE: &str = "gray.bin";
const MEAN: f32 = 0.1307;
const STD: f32 = 0.3081;

/// Square gray images of bytes, gathered batch by batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gather {
    /// Images in memory.
    pub(crate) images: usize,
    /// Height and width, in pixels.
    pub(crate) side: usize,
    /// Images in a batch.
    pub(crate) batch: usize,
}

impl Gather {
    fn bytes(&self) -> Vec<u8> {
        let count = self.images * self.side * self.side;
        let values = formula::tensor("gray", count, 127.5);
        values.into_iter().map(|value| (value + 127.5).round() as u8).collect()
    }
}

impl Task for Gather {
    fn id(&self) -> String {
        format!("gather/u8-{0}x{0}-b{1}", self.side, self.batch)
    }

    fn small(&self) -> Problem {
        Problem::Gather(Self { images: 2 * self.batch, ..self.clone() })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.batch as u64) }
    }

    /// The first images in the order of the file.
    fn reference(&self) -> Result<Outputs> {
        let count = self.batch * self.side * self.side;
        let normalize = |&byte: &u8| (f64::from(byte) / 255.0 - f64::from(MEAN)) / f64::from(STD);
        let values = self.bytes()[..count].iter().map(normalize).collect();
        Ok(Outputs::from([("batch".to_owned(), values)]))
    }

    /// One multiplication and one addition in f32.
    fn tolerance(&self) -> f64 {
        1e-6
    }

    fn write_inputs(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        std::fs::write(&path, self.bytes()).with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = site.folder.join(FILE);
        let bytes =
            std::fs::read(&path).with_context(|| format!("reading `{}`", path.display()))?;
        let loader = |order| -> Result<Loader<InMemoryTensors>> {
            let shape = [self.side, self.side];
            let set =
                InMemoryTensors::from_bytes(self.images, &shape, bytes.clone(), Targets::None)?
                    .with_normalization(MEAN, STD)?;
            let config =
                StreamConfig::new(self.batch).with_order(order).with_workers(Workers::Count(0));
            Ok(Loader::collating(set, config)?)
        };
        let shuffled = loader(Order::Shuffled)?;
        let epoch = shuffled.epoch(0);
        Ok(Box::new(Ours { in_order: loader(Order::Sequential)?, shuffled, epoch, number: 0 }))
    }
}

struct Ours {
    in_order: Loader<InMemoryTensors>,
    shuffled: Loader<InMemoryTensors>,
    epoch: updraft_data::Epoch<InMemoryTensors>,
    number: u64,
}

impl Ours {
    fn batch(&mut self) -> Result<TensorBatch> {
        if let Some(batch) = self.epoch.next() {
            return Ok(batch?);
        }
        self.number += 1;
        self.epoch = self.shuffled.epoch(self.number);
        match self.epoch.next() {
            Some(batch) => Ok(batch?),
            None => bail!("an epoch without batches"),
        }
    }
}

impl Repeat for Ours {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.batch()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let first = self.in_order.epoch(0).next().context("an epoch without batches")??;
        Ok(Outputs::from([("batch".to_owned(), widened(first.values()))]))
    }
}
