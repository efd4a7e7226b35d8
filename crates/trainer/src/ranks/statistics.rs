//! Running statistics of a model whose ranks see different batches.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Tensor, Transaction};
use updraft_distributed::{AllReduce, Collective};

use super::packing::{flat, floats, taken};
use crate::error::TrainError;
use crate::paths::{PathVisitor, visit_paths};

/// The values of all running statistics of a model, in module order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values(Vec<Vec<f32>>);

/// The running statistics of a model before an update and after each of its batches.
#[derive(Debug)]
pub(crate) struct Statistics {
    seen: Vec<Values>,
}

/// The statistics of a model and how each follows the batches.
#[derive(Debug, Default)]
pub(super) struct Layout {
    paths: Vec<String>,
    roles: Vec<Role>,
}

impl Values {
    pub(super) fn of<M: Module>(model: &M) -> Self {
        // burn applies pending statistics at the next forward pass or in `valid`.
        drop(model.valid());
        let mut find = Find::default();
        visit_paths(model, &mut find);
        Self(find.reads.execute().into_iter().map(floats).collect())
    }

    /// The values as bytes, for a comparison of their bits.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
    }
}

impl Statistics {
    /// Before an update.
    pub(crate) fn before<M: Module>(model: &M) -> Self {
        Self { seen: vec![Values::of(model)] }
    }

    /// After the next batch of the update.
    pub(crate) fn add<M: Module>(&mut self, model: &M) {
        self.seen.push(Values::of(model));
    }

    fn before_update(&self) -> &Values {
        self.seen.first().expect("the values before the update are read first")
    }

    fn after_update(&self) -> &Values {
        self.seen.last().expect("the values before the update are read first")
    }
}

impl Layout {
    /// `followers` has, by the parameter of a running variance, that of its running mean and the
    /// share of a batch in both.
    pub(super) fn of<M: Module>(model: &M, followers: &HashMap<ParamId, (ParamId, f64)>) -> Self {
        let mut find = Find::default();
        visit_paths(model, &mut find);
        let index_of = |id: &ParamId| find.ids.iter().position(|other| other == id);
        let mut roles = vec![Role::Other; find.ids.len()];
        for (variance, (mean, share)) in followers {
            if let (Some(variance), Some(mean)) = (index_of(variance), index_of(mean)) {
                // A share is measured, and a resumed run has to measure the same.
                let share = (share * 1e6).round() / 1e6;
                roles[mean] = Role::Mean { share };
                roles[variance] = Role::Variance { mean, share };
            }
        }
        Self { paths: find.paths, roles }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// The path of the statistic that has the value at `index` of all of them.
    pub(super) fn path_of(&self, values: &Values, mut index: usize) -> &str {
        for (path, values) in self.paths.iter().zip(&values.0) {
            if index < values.len() {
                return path;
            }
            index -= values.len();
        }
        "a running statistic"
    }

    /// The model with the statistics that its batch norms would have if they had seen the batches
    /// of all ranks as one: each batch counts with the mean and the variance over the samples of
    /// all ranks. Every other statistic becomes the mean over the ranks. `counts` are the samples of
    /// each batch, by rank.
    ///
    /// What a layer saw in a batch is computed from its statistics before and after, since
    /// `after = (1 − share)·before + share·seen`.
    pub(super) fn merge<M: Module>(
        &self,
        statistics: &Statistics,
        counts: &[Vec<usize>],
        engine: (&mut AllReduce, &mut dyn Collective),
        model: M,
    ) -> Result<M, TrainError> {
        if self.roles.is_empty() {
            return Ok(model);
        }
        let merged = self.merged(statistics, counts, engine)?;
        // No update is pending that would overwrite the values: reading the last ones applied it.
        Ok(model.map(&mut Put { path: Vec::new(), values: merged.into_iter() }))
    }

    /// The merged values, in module order.
    fn merged(
        &self,
        statistics: &Statistics,
        counts: &[Vec<usize>],
        (sums, collective): (&mut AllReduce, &mut dyn Collective),
    ) -> Result<Vec<Vec<f32>>, TrainError> {
        let (rank, ranks) = (collective.rank(), collective.size());
        let batches = statistics.seen.len() - 1;
        let weight_of = |batch: usize| {
            let all: usize = counts.iter().filter_map(|of_rank| of_rank.get(batch)).sum();
            counts[rank][batch] as f64 / all as f64
        };
        let weights: Vec<f64> = (0..batches).map(weight_of).collect();
        let mut numbers = Vec::new();
        for (at, role) in self.roles.iter().enumerate() {
            match role.share() {
                Some(share) => (0..batches).for_each(|batch| {
                    let seen = in_batch(statistics, at, batch, share);
                    numbers.extend(seen.map(|number| (weights[batch] * number) as f32));
                }),
                None => {
                    let own = statistics.after_update().0[at].iter();
                    numbers.extend(own.map(|number| number / ranks as f32));
                }
            }
        }
        sums.sum(collective, &mut numbers)?;
        // The means of all ranks are known now: the variance among ranks is summed about them.
        let lengths = self.lengths(statistics, batches);
        let starts = starts(&lengths);
        let mut between = Vec::new();
        for role in &self.roles {
            let Role::Variance { mean, share } = *role else { continue };
            let length = statistics.before_update().0[mean].len();
            for batch in 0..batches {
                let of_all = &numbers[starts[mean] + batch * length..][..length];
                let own = in_batch(statistics, mean, batch, share);
                between.extend(
                    own.zip(of_all).map(|(own, &all)| {
                        (weights[batch] * (own - f64::from(all)).powi(2)) as f32
                    }),
                );
            }
        }
        sums.sum(collective, &mut between)?;
        let mut between = &between[..];
        let mut merged = Vec::new();
        for (at, role) in self.roles.iter().enumerate() {
            let before = &statistics.before_update().0[at];
            let own = &numbers[starts[at]..][..lengths[at]];
            let Some(share) = role.share() else {
                merged.push(own.to_vec());
                continue;
            };
            let mut values = before.clone();
            for seen in own.chunks_exact(before.len().max(1)) {
                let mut seen = seen.to_vec();
                if matches!(role, Role::Variance { .. }) {
                    let (of_batch, rest) = between.split_at(seen.len());
                    between = rest;
                    seen.iter_mut().zip(of_batch).for_each(|(within, between)| *within += between);
                }
                for (value, seen) in values.iter_mut().zip(seen) {
                    let next = (1.0 - share) * f64::from(*value) + share * f64::from(seen);
                    *value = next as f32;
                }
            }
            merged.push(values);
        }
        Ok(merged)
    }

    /// How many numbers the ranks sum for each statistic.
    fn lengths(&self, statistics: &Statistics, batches: usize) -> Vec<usize> {
        let of = |(at, role): (usize, &Role)| {
            let length = statistics.before_update().0[at].len();
            length * if role.share().is_some() { batches } else { 1 }
        };
        self.roles.iter().enumerate().map(of).collect()
    }
}

/// How a statistic follows the batches, with the share of a batch.
#[derive(Debug, Clone, Copy)]
enum Role {
    Mean {
        share: f64,
    },
    /// With the index of the mean that belongs to it.
    Variance {
        mean: usize,
        share: f64,
    },
    Other,
}

impl Role {
    fn share(self) -> Option<f64> {
        match self {
            Self::Mean { share } | Self::Variance { share, .. } => Some(share),
            Self::Other => None,
        }
    }
}

/// What a statistic was in a batch of this rank.
fn in_batch(
    statistics: &Statistics,
    at: usize,
    batch: usize,
    share: f64,
) -> impl Iterator<Item = f64> + '_ {
    let (before, after) = (&statistics.seen[batch].0[at], &statistics.seen[batch + 1].0[at]);
    before.iter().zip(after).map(move |(&before, &after)| {
        (f64::from(after) - (1.0 - share) * f64::from(before)) / share
    })
}

fn starts(lengths: &[usize]) -> Vec<usize> {
    let mut sum = 0;
    let start = |length: &usize| {
        sum += length;
        sum - length
    };
    lengths.iter().map(start).collect()
}

#[derive(Default)]
struct Find {
    ids: Vec<ParamId>,
    paths: Vec<String>,
    reads: Transaction,
}

/// Whether a tensor at the end of a path is a running statistic.
fn is_statistic<const D: usize>(path: &[String], tensor: &Tensor<D>) -> bool {
    !tensor.is_require_grad() && path.last().is_some_and(|name| name.starts_with("running_"))
}

/// The numbers of all running statistics of a model on an autodiff device, which ranks with local
/// batch norms merge after every update.
#[must_use]
pub fn count_statistics<M: Module>(model: &M) -> usize {
    let mut count = Count(0);
    visit_paths(model, &mut count);
    count.0
}

struct Count(usize);

impl PathVisitor for Count {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let tensor = param.base();
        if is_statistic(path, &tensor) {
            self.0 += tensor.shape().num_elements();
        }
    }
}

impl PathVisitor for Find {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let tensor = param.base();
        if is_statistic(path, &tensor) {
            self.ids.push(param.id);
            self.paths.push(path.join("."));
            let reads = std::mem::take(&mut self.reads);
            self.reads = reads.register(flat(tensor.without_autodiff()));
        }
    }
}

struct Put {
    path: Vec<String>,
    values: std::vec::IntoIter<Vec<f32>>,
}

impl ModuleMapper for Put {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !is_statistic(&self.path, &param.base()) {
            return param;
        }
        let values = self.values.next().expect("a value for each statistic");
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, taken(&mut &values[..], &old), mapper)
    }
}
