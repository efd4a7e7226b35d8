//! The networks that a plan can name, as one module; the names of parameters are those of the
//! network itself.

use anyhow::{Result, anyhow};
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::{Device, Tensor};
use updraft_integration::{
    DualPathwayConfig, DualPathwayNet, Pathways, SeparableConfig, SeparableNet, StageWeights,
};

/// What a network is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClassifierConfig {
    DualPathway(DualPathwayConfig),
    Separable(SeparableConfig),
}

impl ClassifierConfig {
    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::DualPathway(config) => config.validate()?,
            Self::Separable(config) => config.validate()?,
        }
        Ok(())
    }

    /// Whether outlier channels can be planted in the network without changing what it computes.
    pub(crate) fn check_outliers(&self) -> Result<()> {
        match self {
            Self::Separable(_) => Ok(()),
            Self::DualPathway(_) => Err(no_place_for_outliers()),
        }
    }

    /// A network with fresh parameters.
    pub(crate) fn init(&self, device: &Device) -> Classifier {
        match self {
            Self::DualPathway(config) => Classifier::DualPathway(config.init(device)),
            Self::Separable(config) => Classifier::Separable(config.init(device)),
        }
    }
}

/// A network that classifies images.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one network at a time")]
pub(crate) enum Classifier {
    DualPathway(DualPathwayNet),
    Separable(SeparableNet),
}

/// What flows from segment to segment: the one of the network's kind.
pub(crate) type Flow = (Option<Pathways>, Option<Tensor<4>>);

impl Classifier {
    /// Classifies images `[batch, 3, height, width]`; `[batch, classes]`, not normalized.
    pub(crate) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        match self {
            Self::DualPathway(net) => net.forward(images),
            Self::Separable(net) => net.forward(images),
        }
    }

    /// The name of its kind in a configuration.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::DualPathway(_) => "dual-pathway",
            Self::Separable(_) => "separable",
        }
    }

    /// The weights of each integration; none where there is nothing to integrate.
    pub(crate) fn integration_weights(&self) -> Vec<StageWeights> {
        match self {
            Self::DualPathway(net) => net.weights(),
            Self::Separable(_) => Vec::new(),
        }
    }

    /// Multiply-adds of the forward pass of one image.
    pub(crate) fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        match self {
            Self::DualPathway(net) => net.multiply_adds(image),
            Self::Separable(net) => net.multiply_adds(image),
        }
    }

    /// The same function, with channels that stand out by a factor.
    pub(crate) fn with_outliers(self, factor: f32) -> Result<Self> {
        match self {
            Self::Separable(net) => Ok(Self::Separable(net.try_with_outliers(factor)?)),
            Self::DualPathway(_) => Err(no_place_for_outliers()),
        }
    }

    /// Into how many segments the network can be cut.
    pub(crate) fn segments(&self) -> usize {
        match self {
            Self::DualPathway(net) => net.segments(),
            Self::Separable(net) => net.segments(),
        }
    }

    /// What flows into the first segment.
    pub(crate) fn enter(&self, images: Tensor<4>) -> Flow {
        match self {
            Self::DualPathway(net) => (Some(net.enter(images)), None),
            Self::Separable(_) => (None, Some(images)),
        }
    }

    /// Runs one segment.
    pub(crate) fn segment(&self, index: usize, flow: Flow) -> Flow {
        match (self, flow) {
            (Self::DualPathway(net), (Some(flow), _)) => (Some(net.segment(index, flow)), None),
            (Self::Separable(net), (_, Some(maps))) => (None, Some(net.segment(index, maps))),
            _ => unreachable!("what flows is of the network's kind"),
        }
    }

    /// Classifies what the last segment gives.
    pub(crate) fn leave(&self, flow: Flow) -> Tensor<2> {
        match (self, flow) {
            (Self::DualPathway(net), (Some(flow), _)) => net.leave(flow),
            (Self::Separable(net), (_, Some(maps))) => net.leave(maps),
            _ => unreachable!("what flows is of the network's kind"),
        }
    }

    /// The same kind, with what becomes of the network.
    fn each(
        self,
        dual_pathway: impl FnOnce(DualPathwayNet) -> DualPathwayNet,
        separable: impl FnOnce(SeparableNet) -> SeparableNet,
    ) -> Self {
        match self {
            Self::DualPathway(net) => Self::DualPathway(dual_pathway(net)),
            Self::Separable(net) => Self::Separable(separable(net)),
        }
    }
}

fn no_place_for_outliers() -> anyhow::Error {
    anyhow!(
        "outlier channels are planted in networks of `model.kind = \"separable\"`, and this one is \
         `dual-pathway`; leave out --outliers"
    )
}

// Not derived: burn's derive puts the variant's name before that of every parameter.
impl Module for Classifier {
    fn collect_devices(&self, devices: Devices) -> Devices {
        match self {
            Self::DualPathway(net) => net.collect_devices(devices),
            Self::Separable(net) => net.collect_devices(devices),
        }
    }

    fn fork(self, device: &Device) -> Self {
        self.each(|net| net.fork(device), |net| net.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.each(|net| net.to_device(device), |net| net.to_device(device))
    }

    fn train(self) -> Self {
        self.each(Module::train, Module::train)
    }

    fn valid(&self) -> Self {
        self.clone().each(|net| net.valid(), |net| net.valid())
    }

    fn materialize(self) -> Self {
        self.each(Module::materialize, Module::materialize)
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        match self {
            Self::DualPathway(net) => net.visit(visitor),
            Self::Separable(net) => net.visit(visitor),
        }
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        match self {
            Self::DualPathway(net) => Self::DualPathway(net.map(mapper)),
            Self::Separable(net) => Self::Separable(net.map(mapper)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names(Vec<String>, Vec<String>);

    impl ModuleVisitor for Names {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.0.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.0.pop();
        }

        fn visit_float<const D: usize>(&mut self, _: &burn::module::Param<Tensor<D>>) {
            self.1.push(self.0.join("."));
        }
    }

    fn names(module: &impl Module) -> Vec<String> {
        let mut names = Names(Vec::new(), Vec::new());
        module.visit(&mut names);
        names.1
    }

    #[test]
    fn parameters_have_the_names_that_they_have_in_the_network() {
        let device = Device::flex();
        let config = DualPathwayConfig::new(3, 2);
        let alone = names(&config.init(&device));
        assert_eq!(names(&ClassifierConfig::DualPathway(config).init(&device)), alone);
        let config = SeparableConfig::new(3, 2);
        let alone = names(&config.init(&device));
        assert!(alone.contains(&"blocks.0.depthwise.conv.weight".to_owned()), "{alone:?}");
        assert_eq!(names(&ClassifierConfig::Separable(config).init(&device)), alone);
    }

    #[test]
    fn segments_in_their_order_are_the_forward_pass() {
        let device = Device::flex();
        for config in [
            ClassifierConfig::DualPathway(DualPathwayConfig::new(3, 2)),
            ClassifierConfig::Separable(SeparableConfig::new(3, 2)),
        ] {
            let net = config.init(&device);
            let images = Tensor::ones([2, 3, 16, 16], &device);
            let flow = net.enter(images.clone());
            let flow = (0..net.segments()).fold(flow, |flow, index| net.segment(index, flow));
            assert!(net.leave(flow).into_data() == net.forward(images).into_data());
        }
    }

    #[test]
    fn a_network_without_a_place_for_outliers_says_which_has_one() {
        let net = ClassifierConfig::DualPathway(DualPathwayConfig::new(3, 2)).init(&Device::flex());
        let said = net.with_outliers(64.0).expect_err("no place").to_string();
        assert!(said.contains("`model.kind = \"separable\"`"), "{said}");
    }
}
