//! The arithmetic of each layer with the least total time: a minimum cut.

use std::collections::VecDeque;

/// A layer, or an input of the network, with its costs in any unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Costs {
    /// Its time in int8 and in f32; none where it cannot run so.
    pub(super) int8: Option<f64>,
    pub(super) f32: Option<f64>,
    /// The time of converting its result: to codes for readers in int8 if it is in f32, and to
    /// numbers for readers in f32 if it is in int8.
    pub(super) to_codes: f64,
    pub(super) to_real: f64,
    /// The layers that read it, those that read codes in either arithmetic left out.
    pub(super) readers: Vec<usize>,
    /// Whether its result is also needed in f32.
    pub(super) is_output: bool,
}

/// Finer than any measurement, and far from an overflow.
const STEPS: f64 = 1e12;
const WITHOUT_END: u64 = u64::MAX / 4;

/// Which of the layers run in f32; int8 where both take the same time.
///
/// Each layer is a node; those on the side of the source run in int8. What a conversion costs does
/// not depend on the number of readers, so a node stands between a layer and all of them: the edge
/// before it is cut once.
///
/// # Source
/// Binary labels with submodular pairwise costs as a minimum cut: Kolmogorov and Zabih 2004,
/// "What energy functions can be minimized via graph cuts?", theorem 4.1; augmenting paths by
/// breadth-first search: Edmonds and Karp 1972.
pub(super) fn fastest(layers: &[Costs]) -> Vec<bool> {
    let sum: f64 = layers
        .iter()
        .flat_map(|layer| [layer.int8, layer.f32, Some(layer.to_codes), Some(layer.to_real)])
        .flatten()
        .sum();
    let scaled = |time: f64| if sum > 0.0 { (time / sum * STEPS).round() as u64 } else { 0 };
    let cost = |time: Option<f64>| time.map_or(WITHOUT_END, scaled);
    let (source, sink, outside) = (layers.len(), layers.len() + 1, layers.len() + 2);
    let mut network = Network::new(layers.len() + 3);
    // Who needs an output reads it in f32.
    network.edge(outside, sink, WITHOUT_END);
    for (index, layer) in layers.iter().enumerate() {
        network.edge(source, index, cost(layer.f32));
        network.edge(index, sink, cost(layer.int8));
        let to_real = network.node();
        network.edge(index, to_real, scaled(layer.to_real));
        let to_codes = network.node();
        network.edge(to_codes, index, scaled(layer.to_codes));
        for &reader in &layer.readers {
            network.edge(to_real, reader, WITHOUT_END);
            network.edge(reader, to_codes, WITHOUT_END);
        }
        if layer.is_output {
            network.edge(to_real, outside, WITHOUT_END);
        }
    }
    let mut is_float = network.cut(source, sink);
    is_float.truncate(layers.len());
    is_float
}

/// A network of edges with capacities.
#[derive(Debug)]
struct Network {
    /// The edges that leave a node.
    from: Vec<Vec<usize>>,
    /// The end of an edge and its capacity; edges `2i` and `2i + 1` are opposite.
    edges: Vec<(usize, u64)>,
}

impl Network {
    fn new(nodes: usize) -> Self {
        Self { from: vec![Vec::new(); nodes], edges: Vec::new() }
    }

    fn node(&mut self) -> usize {
        self.from.push(Vec::new());
        self.from.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0)] {
            self.from[from].push(self.edges.len());
            self.edges.push((to, capacity));
        }
    }

    /// The nodes on the side of the sink of a minimum cut, as few as possible.
    fn cut(&mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            // The edge by which each node is reached.
            let mut by = vec![None; self.from.len()];
            let mut is_reached = vec![false; self.from.len()];
            is_reached[source] = true;
            let mut next = VecDeque::from([source]);
            while let Some(node) = next.pop_front() {
                for &edge in &self.from[node] {
                    let (to, capacity) = self.edges[edge];
                    if capacity > 0 && !is_reached[to] {
                        (is_reached[to], by[to]) = (true, Some(edge));
                        next.push_back(to);
                    }
                }
            }
            if !is_reached[sink] {
                return self.ends_at(sink);
            }
            let mut path = Vec::new();
            let mut node = sink;
            while let Some(edge) = by[node] {
                path.push(edge);
                node = self.edges[edge ^ 1].0;
            }
            let flow = path.iter().map(|&edge| self.edges[edge].1).min().unwrap_or(0);
            for edge in path {
                self.edges[edge].1 -= flow;
                self.edges[edge ^ 1].1 += flow;
            }
        }
    }

    /// The nodes from which edges with capacity lead to the sink.
    fn ends_at(&self, sink: usize) -> Vec<bool> {
        let mut leads = vec![false; self.from.len()];
        leads[sink] = true;
        let mut next = vec![sink];
        while let Some(node) = next.pop() {
            for &edge in &self.from[node] {
                let before = self.edges[edge].0;
                if self.edges[edge ^ 1].1 > 0 && !leads[before] {
                    leads[before] = true;
                    next.push(before);
                }
            }
        }
        leads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of an assignment by its definition; none if a layer cannot run so.
    fn time(layers: &[Costs], is_float: &[bool]) -> Option<f64> {
        let mut sum = 0.0;
        for (layer, &is_here) in layers.iter().zip(is_float) {
            sum += if is_here { layer.f32? } else { layer.int8? };
            let other = |&reader: &usize| is_float[reader] != is_here;
            if layer.readers.iter().any(other) || layer.is_output && !is_here {
                sum += if is_here { layer.to_codes } else { layer.to_real };
            }
        }
        Some(sum)
    }

    #[test]
    fn the_cut_is_the_fastest_of_all_assignments() {
        let mut state = 7_u64;
        let mut random = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for _ in 0..300 {
            let count = 1 + random(9) as usize;
            let layers: Vec<Costs> = (0..count)
                .map(|index| {
                    let kind = random(8);
                    Costs {
                        int8: (kind != 0).then(|| random(100) as f64),
                        f32: (kind != 1).then(|| random(100) as f64),
                        to_codes: random(30) as f64,
                        to_real: random(30) as f64,
                        readers: (index + 1..count).filter(|_| random(3) == 0).collect(),
                        is_output: random(4) == 0,
                    }
                })
                .collect();
            let all = (0..1_u32 << count)
                .map(|bits| (0..count).map(|i| bits >> i & 1 == 1).collect::<Vec<_>>());
            let least = all.filter_map(|it| time(&layers, &it)).fold(f64::INFINITY, f64::min);
            let chosen = fastest(&layers);
            let given = time(&layers, &chosen).expect("layers run where they can");
            assert!((given - least).abs() < 1e-6, "{given}, not {least}: {layers:?}");
        }
    }

    #[test]
    fn without_any_time_every_layer_that_can_stays_in_int8() {
        let layer = |int8, f32| Costs {
            int8,
            f32,
            to_codes: 0.0,
            to_real: 0.0,
            readers: Vec::new(),
            is_output: false,
        };
        let layers = [layer(Some(0.0), Some(0.0)), layer(None, Some(0.0))];
        assert_eq!(fastest(&layers), [false, true]);
        assert_eq!(fastest(&[]), Vec::<bool>::new());
    }
}
