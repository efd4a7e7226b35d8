//! Tests of the public API.

mod any_run;
mod distillation;
mod experiment;
mod folders;
mod image_to_image;
mod inheriting;
mod int8;
mod masked_images;
mod plans;
mod pretrained;
mod profiles;
mod pruning;
mod quantization_aware;
mod rank_costs;
mod ranks;
mod refusals;
mod resident;
mod tables;
mod tables_schema;
mod tables_splits;
mod tables_weights;
mod train;
mod trained;
mod unknown_keys;
mod unread;
mod whitened;
