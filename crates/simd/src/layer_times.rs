//! The time of each layer of a network, in both passes.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// A layer, or an operation without parameters that no layer contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LayerId {
    /// What it computes, such as `convolution`.
    pub kind: &'static str,
    /// The identifier of a parameter of the layer; `None` for an operation without parameters that
    /// belongs to no module.
    pub parameter: Option<u64>,
    /// Whether it has no parameters, and belongs to the module that contains the layer of
    /// [`parameter`](Self::parameter), as attention does between its linear layers.
    pub is_part: bool,
}

/// A pass of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerPass {
    /// From inputs to outputs.
    Forward,
    /// From the gradient of the outputs to those of inputs and parameters.
    Backward,
}

/// A pass of a layer with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LayerSpan {
    /// The layer; in the backward pass the one whose forward pass recorded the gradient.
    pub layer: LayerId,
    /// The pass.
    pub pass: LayerPass,
    /// When it began.
    pub started: Instant,
    /// How long it took, with the layers inside it.
    pub took: Duration,
    /// The same without the layers inside it.
    pub own: Duration,
    /// Floating-point operations of its products, where a multiplication with its addition counts
    /// two; 0 for a layer without products, such as a pooling.
    pub operations: u64,
    /// Whether its forward pass, or a part of it, was computed without kernels, as [`mark_plain`] says.
    pub is_plain: bool,
}

/// Records the passes of layers on this thread until it is dropped.
///
/// Layers are those of [`time_layer`], [`time_part`] and [`time_operation`]. The time of work that a device does
/// later, as GPUs do, is not in it.
///
/// # Example
/// ```
/// use updraft_simd::{LayerTimer, add_operations, time_layer};
///
/// let mut timer = LayerTimer::start();
/// let sum = time_layer(7, "linear", || {
///     add_operations(2);
///     3.0 * 4.0 + 5.0
/// });
/// let [span] = &timer.take()[..] else { panic!("one layer") };
/// assert_eq!((sum, span.layer.parameter, span.operations), (17.0, Some(7), 2));
/// ```
#[derive(Debug)]
pub struct LayerTimer {
    /// What was recorded belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl LayerTimer {
    /// Starts to record; what another timer of this thread recorded is lost.
    #[must_use]
    pub fn start() -> Self {
        TIMING.set(Timing::default());
        IS_TIMING.set(true);
        Self { _thread: PhantomData }
    }

    /// What was recorded since the last call, in the order in which the passes ended.
    pub fn take(&mut self) -> Vec<LayerSpan> {
        TIMING.with_borrow_mut(|timing| std::mem::take(&mut timing.spans))
    }
}

impl Drop for LayerTimer {
    fn drop(&mut self) {
        IS_TIMING.set(false);
        TIMING.set(Timing::default());
    }
}

thread_local! {
    static IS_TIMING: Cell<bool> = const { Cell::new(false) };
    static TIMING: RefCell<Timing> = RefCell::default();
}

#[derive(Debug, Default)]
struct Timing {
    /// Passes in progress, the innermost last.
    open: Vec<Open>,
    spans: Vec<LayerSpan>,
}

#[derive(Debug)]
struct Open {
    layer: LayerId,
    pass: LayerPass,
    started: Instant,
    inner: Duration,
    operations: u64,
    /// Those of them that belong to no node of the graph yet.
    unrecorded: u64,
    is_plain: bool,
}

/// Whether a timer records on this thread.
#[must_use]
pub fn times_layers() -> bool {
    IS_TIMING.get()
}

/// Runs the forward pass of a layer that has this parameter.
pub fn time_layer<T>(parameter: u64, kind: &'static str, run: impl FnOnce() -> T) -> T {
    let layer = LayerId { kind, parameter: Some(parameter), is_part: false };
    let _open = LayerPass::Forward.open(layer, 0);
    run()
}

/// Runs the forward pass of an operation without parameters of the module that contains the layer
/// with this parameter.
pub fn time_part<T>(parameter: u64, kind: &'static str, run: impl FnOnce() -> T) -> T {
    let part = LayerId { kind, parameter: Some(parameter), is_part: true };
    let _open = LayerPass::Forward.open(part, 0);
    run()
}

/// Runs the forward pass of an operation without parameters, which is part of the layer that runs,
/// if there is one.
pub fn time_operation<T>(kind: &'static str, run: impl FnOnce() -> T) -> T {
    let is_alone = times_layers() && TIMING.with_borrow(|timing| timing.open.is_empty());
    let operation = LayerId { kind, parameter: None, is_part: false };
    let _open = is_alone.then(|| LayerPass::Forward.open(operation, 0));
    run()
}

/// Adds floating-point operations of products to the layer that runs.
pub fn add_operations(operations: u64) {
    if times_layers() {
        TIMING.with_borrow_mut(|timing| {
            if let Some(open) = timing.open.last_mut() {
                open.operations += operations;
                open.unrecorded += operations;
            }
        });
    }
}

/// Marks the layer that runs as computed, wholly or in part, by the plain operations of the tensor
/// library in place of kernels.
pub fn mark_plain() {
    if times_layers() {
        TIMING.with_borrow_mut(|timing| {
            if let Some(open) = timing.open.last_mut() {
                open.is_plain = true;
            }
        });
    }
}

/// The layer that a node of the graph of gradients belongs to.
///
/// An operation takes it while its forward pass runs, and times the gradient with it.
#[derive(Debug, Clone, Copy)]
pub struct NodeLayer(Option<(LayerId, u64)>);

impl NodeLayer {
    /// The layer that runs, with those of its floating-point operations that no earlier node took.
    #[must_use]
    pub fn current() -> Self {
        if !times_layers() {
            return Self(None);
        }
        Self(TIMING.with_borrow_mut(|timing| {
            let open = timing.open.last_mut()?;
            Some((open.layer, std::mem::take(&mut open.unrecorded)))
        }))
    }

    /// Starts the backward pass of the node, which ends when the result is dropped.
    ///
    /// It has as many floating-point operations as `forward_passes` forward passes: a gradient of
    /// the input and one of the parameters have those of one each.
    #[must_use]
    pub fn time_backward(self, forward_passes: u64) -> TimedPass {
        match self.0 {
            Some((layer, operations)) => {
                LayerPass::Backward.open(layer, operations * forward_passes)
            }
            None => TimedPass { is_open: false, _thread: PhantomData },
        }
    }
}

/// A pass of a layer in progress, which ends when it is dropped.
#[derive(Debug)]
pub struct TimedPass {
    is_open: bool,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl LayerPass {
    fn open(self, layer: LayerId, operations: u64) -> TimedPass {
        let is_open = times_layers();
        if is_open {
            TIMING.with_borrow_mut(|timing| {
                timing.open.push(Open {
                    layer,
                    pass: self,
                    started: Instant::now(),
                    inner: Duration::ZERO,
                    operations,
                    unrecorded: 0,
                    is_plain: false,
                });
            });
        }
        TimedPass { is_open, _thread: PhantomData }
    }
}

impl Drop for TimedPass {
    fn drop(&mut self) {
        if self.is_open {
            TIMING.with_borrow_mut(Timing::close);
        }
    }
}

impl Timing {
    fn close(&mut self) {
        // A timer that started in between knows nothing of the pass.
        let Some(Open { layer, pass, started, inner, operations, is_plain, .. }) = self.open.pop()
        else {
            return;
        };
        let took = started.elapsed();
        if let Some(outer) = self.open.last_mut() {
            outer.inner += took;
        }
        let own = took.saturating_sub(inner);
        self.spans.push(LayerSpan { layer, pass, started, took, own, operations, is_plain });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() {
        std::thread::sleep(Duration::from_millis(2));
    }

    #[test]
    fn a_layer_within_another_is_not_part_of_its_own_time() {
        let mut timer = LayerTimer::start();
        time_layer(1, "block", || {
            wait();
            time_layer(2, "linear", wait);
            time_operation("activation", wait);
        });
        time_operation("pooling", wait);
        let spans = timer.take();
        let layers: Vec<_> = spans.iter().map(|it| (it.layer.kind, it.layer.parameter)).collect();
        assert_eq!(layers, [("linear", Some(2)), ("block", Some(1)), ("pooling", None)]);
        let [inner, outer, _] = &spans[..] else { panic!("three spans: {spans:?}") };
        assert_eq!(outer.own, outer.took - inner.took);
        assert!(outer.own >= Duration::from_millis(4) && inner.own == inner.took);
        assert!(outer.started <= inner.started && outer.pass == LayerPass::Forward);
        assert_eq!(timer.take(), []);
    }

    #[test]
    fn a_mark_of_plain_operations_belongs_to_the_innermost_layer() {
        let mut timer = LayerTimer::start();
        time_layer(1, "block", || {
            time_layer(2, "linear", mark_plain);
            time_layer(3, "linear", || time_operation("activation", mark_plain));
            time_layer(4, "linear", || ());
        });
        mark_plain();
        let marks: Vec<_> = timer.take().iter().map(|it| it.is_plain).collect();
        assert_eq!(marks, [true, true, false, false]);
    }

    #[test]
    fn a_part_of_a_module_contains_its_operations() {
        let mut timer = LayerTimer::start();
        time_part(3, "attention", || time_operation("products", || add_operations(10)));
        let [span] = &timer.take()[..] else { panic!("one layer") };
        let part = LayerId { kind: "attention", parameter: Some(3), is_part: true };
        assert_eq!((span.layer, span.operations), (part, 10));
    }

    #[test]
    fn a_node_belongs_to_the_layer_of_its_forward_pass_with_operations_of_its_own() {
        let mut timer = LayerTimer::start();
        let nodes = time_layer(1, "convolution", || {
            add_operations(100);
            [NodeLayer::current(), NodeLayer::current()]
        });
        let outside = NodeLayer::current();
        let forward = timer.take();
        assert_eq!((forward.len(), forward[0].operations), (1, 100));
        for node in nodes {
            let pass = node.time_backward(2);
            wait();
            drop(pass);
        }
        drop(outside.time_backward(1));
        let backward = timer.take();
        let operations: Vec<u64> = backward.iter().map(|it| it.operations).collect();
        assert_eq!(operations, [200, 0]);
        for span in backward {
            assert_eq!((span.layer, span.pass), (forward[0].layer, LayerPass::Backward));
            assert!(span.own >= Duration::from_millis(2));
        }
    }

    #[test]
    fn nothing_is_recorded_without_a_timer_and_a_panic_ends_its_layers() {
        let node = time_layer(1, "linear", NodeLayer::current);
        drop(node.time_backward(1));
        let mut timer = LayerTimer::start();
        assert!(times_layers());
        drop(node.time_backward(1));
        assert_eq!(timer.take(), []);
        let panic = std::panic::catch_unwind(|| time_layer(1, "linear", || panic!("on purpose")));
        assert!(panic.is_err());
        time_operation("pooling", || ());
        let kinds: Vec<_> = timer.take().iter().map(|it| it.layer.kind).collect();
        assert_eq!(kinds, ["linear", "pooling"]);
        let pass = time_layer(1, "linear", NodeLayer::current).time_backward(1);
        drop(timer);
        drop(pass);
        assert!(!times_layers());
        assert_eq!(LayerTimer::start().take(), []);
    }
}
