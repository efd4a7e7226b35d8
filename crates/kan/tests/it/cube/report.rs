//! The warning for layers that burn's operations compute.

use std::fmt;
use std::sync::{Arc, Mutex};

use burn::tensor::Tensor;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use updraft_kan::{Basis, BasisLinearConfig, LayerPath, PlainReason};
use updraft_testing::gpus;

/// The messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("updraft_kan") && *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(&self.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Takes the message of an event.
struct Message<'a>(&'a Mutex<Vec<String>>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().expect("no test panicked with it").push(format!("{value:?}"));
        }
    }
}

#[test]
fn a_layer_without_kernels_warns_once_with_the_reason() {
    let mut expected = 0;
    let warnings = Warnings::default();
    for device in gpus() {
        expected = 1;
        // No other test computes such a layer on a GPU.
        let config = BasisLinearConfig::new(3, 4, Basis::Chebyshev { degree: 3 });
        let layer = config.init(&device);
        assert_eq!(layer.plain_reason(), Some(PlainReason::Functions));
        tracing::subscriber::with_default(warnings.clone(), || {
            for path in [None, None, Some(LayerPath::Plain)] {
                let layer = match path {
                    Some(path) => layer.clone().with_path(path),
                    None => layer.clone(),
                };
                let _ = layer.forward(Tensor::<2>::zeros([2, 3], &device));
            }
        });
        // A process that exits while lavapipe compiles a kernel may end with SIGSEGV.
        device.sync().expect("the device computes");
    }
    let warnings = warnings.0.lock().expect("no test panicked with it");
    assert_eq!(warnings.len(), expected, "{warnings:?}");
    assert!(warnings.iter().all(|text| text.contains("this layer has functions in closed form")));
}
