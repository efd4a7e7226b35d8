//! The report of a run as one self-contained HTML page.

mod page;
mod pictures;
mod plot;
mod quantized;
mod search;

pub(crate) use page::{Run, document, page};
pub(crate) use plot::{Curve, Scale, plot};
pub(crate) use search::search_page;
