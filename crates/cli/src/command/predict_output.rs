//! `predict --out`: a prediction into a file, an image or a table.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use updraft_data::{Axis, Blend, Progress, ProgressUnit, WindowProgress};
use updraft_distributed::{Collective, Shared};
use updraft_run::{ComponentFiles, FilePrediction, Registry, TablePrediction, refuse_irregular};
use updraft_trainer::{Metric, Unit};

use super::OpenedRun;
use super::predict::{PredictArgs, device_of, show_layers};
use crate::Stopped;
use crate::output_file::{OutputKind, check_output, refuse_in_run};
use crate::progress::{Display, metric_text};
use crate::stop::{self, NothingToSave};
use crate::terminal::name;

/// The table of components; the mark is the beginning of its header.
const COMPONENTS: OutputKind =
    OutputKind { command: "predict --components", mark: "frame,label,class,voxels,size_um," };

/// What is predicted into a file.
pub(super) enum Request {
    Image(Box<FilePrediction>),
    Table(TablePrediction),
}

/// The options of runs that predict a file into another one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs that predict into a file")]
pub(super) struct OutputArgs {
    /// The OME-TIFF to write, whose prediction is resumed after a stop; or for the rows of a table a
    /// .csv or .tsv file, which appears when it is complete
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Sides of a window, such as 128,128 [default: those of the run's patches; 0: a whole axis]
    #[arg(long, value_name = "SIDES", value_delimiter = ',', requires = "out")]
    window: Option<Vec<usize>>,
    /// Overlap of windows as a fraction, for all axes or each, such as 0.5
    #[arg(long, value_delimiter = ',', default_value = "0.25", requires = "out")]
    overlap: Vec<f64>,
    /// Batch size of windows
    #[arg(long, default_value_t = 1, requires = "out")]
    batch: usize,
    /// Weights of overlapping windows
    #[arg(long, value_enum, default_value_t = BlendName::Gaussian, requires = "out")]
    blend: BlendName,
    /// Standard deviation of the Gaussian weights as a fraction of the window, for all axes or each
    /// [default: 0.125]
    #[arg(long, value_delimiter = ',', requires = "out")]
    sigma: Option<Vec<f64>>,
    /// Axes for test-time augmentation by mirroring
    #[arg(long, value_enum, value_delimiter = ',', requires = "out")]
    mirror: Vec<AxisName>,
    /// Write the output of every class of a mask instead of the class
    #[arg(long, requires = "out")]
    keep_channels: bool,
    /// Write the connected components of a mask to this OME-TIFF, and their sizes to a .csv file of
    /// the same name
    #[arg(long, value_name = "FILE", requires = "out")]
    components: Option<PathBuf>,
    /// Compare with this prediction of the same image, such as one without windows, and print the mean
    /// and the largest difference, or the fraction of different classes
    #[arg(long, value_name = "FILE", requires = "out")]
    pub(super) compare_with: Option<PathBuf>,
    /// Compare with this true image or mask, and print the metrics
    #[arg(long, value_name = "FILE", requires = "out")]
    pub(super) truth: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BlendName {
    Constant,
    Gaussian,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AxisName {
    Depth,
    Height,
    Width,
}

impl OutputArgs {
    /// The prediction of a file into another one, if there is one to write.
    pub(super) fn request(&self, files: &[PathBuf]) -> Result<Option<Request>> {
        let Some(out) = &self.out else { return Ok(None) };
        let [input] = files else {
            bail!("--out is one file, and {} files are to be predicted; name one", files.len())
        };
        if self.blend == BlendName::Constant && self.sigma.is_some() {
            bail!("constant weights have no --sigma; leave it out, or --blend constant");
        }
        let image = self.image(input, out);
        if self.table().is_none() {
            return Ok(Some(Request::Image(Box::new(image))));
        }
        if image != FilePrediction::new(input, out) {
            bail!(
                "`{}` is a table, which has no windows; leave out the options beside --out, or name \
                 an OME-TIFF",
                out.display()
            );
        }
        Ok(Some(Request::Table(TablePrediction::new(input, out))))
    }

    /// Returns an error for outputs that would replace a file of a run, something that is not a
    /// regular file, or a table that is no table of components.
    pub(super) fn check_places(&self, files: &[PathBuf]) -> Result<()> {
        for output in self.out.iter().chain(&self.components) {
            refuse_in_run(output)?;
            refuse_irregular(output)?;
        }
        let Some(labels) = &self.components else { return Ok(()) };
        let inputs = files.iter().chain(&self.truth).chain(&self.compare_with);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        refuse_irregular(&table_of(labels))?;
        check_output(&table_of(labels), COMPONENTS, &inputs)
    }

    /// The table to write.
    pub(super) fn table(&self) -> Option<&PathBuf> {
        self.out.as_ref().filter(|out| TablePrediction::is_table(out))
    }

    /// The prediction of an image into `out`.
    fn image(&self, input: &Path, out: &Path) -> FilePrediction {
        let mut request = FilePrediction::new(input, out);
        request.window.clone_from(&self.window);
        request.overlap.clone_from(&self.overlap);
        request.batch = self.batch;
        request.blend = match self.blend {
            BlendName::Constant => Blend::Constant,
            BlendName::Gaussian => match &self.sigma {
                Some(sigma) => Blend::Gaussian { sigma: sigma.clone() },
                None => request.blend,
            },
        };
        let axis = |axis: &AxisName| match axis {
            AxisName::Depth => Axis::Depth,
            AxisName::Height => Axis::Height,
            AxisName::Width => Axis::Width,
        };
        request.mirror = self.mirror.iter().map(axis).collect();
        request.keeps_channels = self.keep_channels;
        request.components = self.components.clone().map(|labels| {
            let table = table_of(&labels);
            ComponentFiles { labels, table }
        });
        request.truth.clone_from(&self.truth);
        request.compare_with.clone_from(&self.compare_with);
        request
    }
}

/// The table of the sizes of components beside their image.
fn table_of(labels: &Path) -> PathBuf {
    labels.with_extension("csv")
}

/// Predicts an image into a file and prints what was written.
pub(super) fn run_to_file(
    registry: Registry,
    args: &PredictArgs,
    (run, ranks): (&OpenedRun, &mut Shared),
    request: &FilePrediction,
) -> Result<()> {
    // The image may be a pipe without a writer; from the first window on, signals are checked.
    let mut unasked = Some(NothingToSave::begin());
    let model = args.load(registry, run, &device_of(args, run, ranks.size()))?;
    let mut trace = args.trace(&model, &run.folder)?;
    let mut untraced = Ok(());
    let mut display = Display::new();
    let is_first = ranks.rank() == 0;
    let mut progress = |windows: WindowProgress| {
        unasked = None;
        if let (Some(trace), Ok(())) = (&mut trace, &untraced) {
            untraced = trace.add();
        }
        let WindowProgress { done, total, .. } = windows;
        if is_first {
            display.preparing("predicting", Progress { done, total, unit: ProgressUnit::Samples });
        }
        if stop::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let written = model.predict_image_on_ranks(request, ranks, &mut progress);
    let written = match written {
        Err(_) if stop::requested() => {
            bail!(Stopped("stopped; the same command continues with the rest".to_owned()))
        }
        written => written?,
    };
    // Rank 0 has written, and prints.
    let Some(written) = written else { return Ok(()) };
    PredictArgs::show_captured(&model);
    untraced?;
    show_layers(trace, &run.folder, "batch")?;
    if args.json {
        return crate::print_json(&json!(written));
    }
    let sides: Vec<String> = written.sides.iter().map(usize::to_string).collect();
    let count = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    };
    crate::print(&format!(
        "{}  {}, {}, {}",
        name(&request.output.display().to_string()),
        sides.join(" x "),
        count(written.channels, "channel"),
        count(written.frames, "frame")
    ))?;
    if written.resumed_planes > 0 {
        let planes = written.resumed_planes;
        let what = if written.sides.len() == 3 { "slice" } else { "row" };
        display.line(&format!("resumed  {} of an earlier run were kept", count(planes, what)));
    }
    if let Some(components) = written.components {
        crate::print(&count(components, "component"))?;
    }
    for Metric { spec, value } in &written.metrics {
        let unit = match (&spec.unit, value) {
            (Unit::Of(unit), Some(_)) => format!(" {unit}"),
            _ => String::new(),
        };
        crate::print(&format!("{:<22} {}{unit}", spec.name, metric_text(spec, *value)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: OutputArgs,
    }

    #[test]
    fn the_table_of_components_replaces_no_other_table() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| dir.path().join(name);
        let typed = ["predict".into(), "--out".into(), path("o.ome.tif"), "--components".into()];
        let typed = typed.into_iter().chain([path("volumes.tif")]);
        let args = Typed::try_parse_from(typed).expect("options").args;
        let check = || args.check_places(&[path("x.tif")]).map_err(|error| error.to_string());
        assert_eq!(check(), Ok(()));
        fs::write(path("volumes.csv"), "input,target\n").expect("written");
        let refused = check().expect_err("a table of the user");
        let words = "volumes.csv` exists and was not written by `predict --components`; name";
        assert!(refused.contains(words), "{refused}");
        let header = "frame,label,class,voxels,size_um,center_z,center_y\n";
        fs::write(path("volumes.csv"), header).expect("written");
        assert_eq!(check(), Ok(()));
    }
}
