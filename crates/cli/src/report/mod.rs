//! The report of a run, and of comparisons, as one self-contained HTML page.

mod category_axis;
mod confusion;
mod contributions;
mod gpu_load;
mod integer_axis;
mod log_axis;
mod marks;
mod options;
mod page;
mod pictures;
mod plot;
mod quantized;
mod ranks;
mod search;

pub(crate) use options::options_page;
pub(crate) use page::{Run, document, page};
pub(crate) use plot::{Curve, Scale, plot};
pub(crate) use search::search_page;
