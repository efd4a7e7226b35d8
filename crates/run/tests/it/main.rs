//! What the crate promises, seen from outside.

mod any_run;
mod folders;
mod image_to_image;
mod inheriting;
mod plans;
mod refusals;
mod tables;
mod train;
mod trained;
mod unknown_keys;
mod unread;
