//! A run as one HTML page that needs nothing else.

mod page;
mod pictures;
mod plot;
mod quantized;
mod search;

pub(crate) use page::{Run, document, page};
pub(crate) use plot::{Curve, Scale, plot};
pub(crate) use search::search_page;
