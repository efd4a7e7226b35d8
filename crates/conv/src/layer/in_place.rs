//! The common part of layers that replace burn's: conversions, constructors, implementation.

/// Conversions between a layer and burn's own, which has the same fields, and the common methods.
///
/// The argument after the fields is the source of the device for [`path`](crate::Conv2d::path): the
/// parameter `weight`, or a `device` argument for layers whose parameters are optional.
macro_rules! in_place_of {
    ($burns:path, $config:ty => $layer:ident { $($field:ident),+ }, $asks:ident) => {
        impl From<$burns> for $layer {
            fn from(layer: $burns) -> Self {
                let $burns { $($field),+ } = layer;
                Self { $($field,)+ forced: None }
            }
        }

        impl From<$layer> for $burns {
            fn from(layer: $layer) -> Self {
                let $layer { $($field,)+ .. } = layer;
                Self { $($field),+ }
            }
        }

        impl $layer {
            /// The layer that burn's config describes.
            ///
            /// # Panics
            /// As burn's: for groups that do not divide the channels, or `Same` padding around an
            /// even kernel, where there are such settings.
            #[must_use]
            pub fn new(config: &$config, device: &burn::tensor::Device) -> Self {
                config.init(device).into()
            }

            $crate::layer::in_place::in_place_of!(path $asks);

            /// The same layer with a forced implementation.
            ///
            /// Its [`forward`](Self::forward) panics if the device or the processor has no such
            /// kernels.
            #[must_use]
            pub fn with_path(self, path: $crate::ops::LayerPath) -> Self {
                Self { forced: Some(path), ..self }
            }
        }
    };
    (path weight) => {
        /// The implementation of the layer in f32 on the device of its parameters.
        #[must_use]
        pub fn path(&self) -> $crate::ops::LayerPath {
            let of_device = || $crate::ops::LayerPath::of(&self.weight.device());
            self.forced.unwrap_or_else(of_device)
        }
    };
    (path device) => {
        /// The implementation of the layer in f32 on a device.
        #[must_use]
        pub fn path(&self, device: &burn::tensor::Device) -> $crate::ops::LayerPath {
            self.forced.unwrap_or_else(|| $crate::ops::LayerPath::of(device))
        }
    };
}
pub(super) use in_place_of;
