//! Predictions of whole volumes: in memory, or into a file.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::error::DataError;
use crate::pixels::{PixelType, Pixels};
use crate::raster::{Raster, RasterSpec};
use crate::sliding::engine::{Engine, PlaneSink, WindowModel};
use crate::sliding::journal::{Begun, Journal, Left};
use crate::sliding::{Reduction, SlidingWindow, WindowProgress};
use crate::volume::{TiffWriteConfig, Volume, VolumeSource, VolumeSpec, VolumeWriter};

/// The settings of an output file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PredictConfig {
    /// The reduction of the model's channels.
    pub reduction: Reduction,
    /// How the file is written.
    pub tiff: TiffWriteConfig,
    /// The identity of the model, such as a hash of its weights: a partial file of another model is
    /// not continued.
    pub model: String,
}

/// A prediction that was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// What the file has.
    pub spec: VolumeSpec,
    /// Slices of a volume, or rows of a picture, over all frames, that an earlier run wrote.
    pub resumed_planes: usize,
}

/// Where a prediction into a file starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictionStart {
    /// A SHA-256 of everything that the result depends on.
    pub settings: String,
    /// Slices of a volume, or rows of a picture, over all frames, that an earlier run wrote.
    pub resumed_planes: usize,
}

impl SlidingWindow {
    /// Applies a model to a volume and returns the whole result in memory.
    ///
    /// # Errors
    /// As [`validate`](Self::validate) and [`VolumeSource::read`];
    /// [`VolumeError::Model`](crate::VolumeError::Model) for a model that fails or returns another
    /// number of values than the windows have,
    /// [`VolumeError::Stopped`](crate::VolumeError::Stopped) if `progress` breaks.
    ///
    /// # Example
    /// ```
    /// use std::ops::ControlFlow;
    /// use updraft_data::{Raster, Reduction, SlidingWindow, Volume};
    ///
    /// let raster = Raster::try_new(1, &[6, 40, 40], vec![2.0_f32; 6 * 40 * 40])?;
    /// let volume = Volume::try_new("volume", vec![raster.clone()], [None; 3])?;
    /// let sliding = SlidingWindow::new(&[8, 16, 16]).with_overlap(&[0.5]).with_batch(4);
    /// let same = &mut |windows: updraft_data::WindowBatch| Ok(windows.values);
    /// let result = sliding.predict(&volume, Reduction::Keep, same, &mut |_| ControlFlow::Continue(()))?;
    /// assert_eq!(result.frames(), [raster]);
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn predict<'a>(
        &'a self,
        input: &'a dyn VolumeSource,
        reduction: Reduction,
        model: &'a mut WindowModel<'a>,
        progress: &'a mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<Volume, DataError> {
        let spec = *input.spec();
        let mut memory = Memory { spec, reduction, frames: Vec::new(), planes: Vec::new() };
        Engine { sliding: self, reduction, input, model, progress }.run(0, &mut memory)?;
        let frames = memory.frames.into_iter();
        let frames = frames.collect::<Result<Vec<_>, _>>()?;
        Volume::try_new(format!("prediction of {}", input.name()), frames, spec.voxel_um)
    }

    /// Applies a model to a volume and writes the result as OME-TIFF, with the axes and the voxel
    /// size of the input, slab by slab; see [`SlidingWindow`] for the memory it takes.
    ///
    /// Finished planes are written to `.name.partial` next to `output`, with a journal of slabs. A
    /// prediction that ended early (an error such as a full disk, `progress`, a killed process) is
    /// resumed by the next call with the same input and settings; finished slabs are not predicted
    /// again, and the file is bit-identical.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); [`DataError::Write`] if the file cannot be written.
    pub fn predict_to_tiff<'a>(
        &'a self,
        input: &'a dyn VolumeSource,
        output: impl AsRef<Path>,
        config: &'a PredictConfig,
        model: &'a mut WindowModel<'a>,
        progress: &'a mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<Predicted, DataError> {
        let output = output.as_ref();
        self.validate(input.spec().raster.sides().len())?;
        let settings = self.settings_of(input, config);
        let left = Journal::read(output, &settings);
        let rows = left.as_ref().map_or(0, |left| left.rows);
        let mut file = FileSink {
            output: output.to_owned(),
            config,
            input: *input.spec(),
            settings,
            left,
            open: None,
            is_due: false,
        };
        let resumed_planes = rows / rows_per_plane(input.spec());
        let reduction = config.reduction;
        let engine = Engine { sliding: self, reduction, input, model, progress };
        let ran = engine.run(resumed_planes, &mut file);
        let spec = file.finish(ran)?;
        Ok(Predicted { spec, resumed_planes })
    }

    /// Where [`predict_to_tiff`](Self::predict_to_tiff) with the same arguments would start.
    pub fn start(
        &self,
        input: &dyn VolumeSource,
        output: impl AsRef<Path>,
        config: &PredictConfig,
    ) -> PredictionStart {
        let settings = self.settings_of(input, config);
        let rows = Journal::read(output.as_ref(), &settings).map_or(0, |left| left.rows);
        PredictionStart { settings, resumed_planes: rows / rows_per_plane(input.spec()) }
    }

    /// Applies a model to the windows that [`predict_to_tiff`](Self::predict_to_tiff) has left,
    /// without a result: for a process that computes a part of each call of the model, while another
    /// one writes.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn follow<'a>(
        &'a self,
        input: &'a dyn VolumeSource,
        start: &PredictionStart,
        model: &'a mut WindowModel<'a>,
        progress: &'a mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<(), DataError> {
        let engine = Engine { sliding: self, reduction: Reduction::Keep, input, model, progress };
        engine.run(start.resumed_planes, &mut Nothing)
    }

    fn settings_of(&self, input: &dyn VolumeSource, config: &PredictConfig) -> String {
        let digest = Digest::new("updraft prediction").text(&input.fingerprint());
        let digest = self.describe(input.spec().describe(digest)).text(&config.model);
        digest.text(&format!("{:?} {:?}", config.reduction, config.tiff)).hex()
    }
}

/// A result that is not kept.
struct Nothing;

impl PlaneSink for Nothing {
    fn begin(&mut self, _: usize) -> Result<(), DataError> {
        Ok(())
    }

    fn plane(&mut self, _: &Pixels<'_>) -> Result<(), DataError> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), DataError> {
        Ok(())
    }
}

/// Rows of a file in a plane.
const fn rows_per_plane(input: &VolumeSpec) -> usize {
    if input.raster.depth.is_some() { input.raster.height } else { 1 }
}

/// The specification of a result with this many channels.
fn result_spec(input: &VolumeSpec, reduction: Reduction, channels: usize) -> VolumeSpec {
    let (pixel_type, channels) = reduction.kept(channels);
    VolumeSpec { raster: RasterSpec { pixel_type, channels, ..input.raster }, ..*input }
}

/// A result in memory.
struct Memory {
    spec: VolumeSpec,
    reduction: Reduction,
    frames: Vec<Result<Raster<'static>, DataError>>,
    /// The planes of the current frame.
    planes: Vec<Pixels<'static>>,
}

impl PlaneSink for Memory {
    fn begin(&mut self, channels: usize) -> Result<(), DataError> {
        self.spec = result_spec(&self.spec, self.reduction, channels);
        Ok(())
    }

    fn plane(&mut self, plane: &Pixels<'_>) -> Result<(), DataError> {
        self.planes.push(plane.borrowed().into_owned());
        let raster = self.spec.raster;
        if self.planes.len() == raster.depth.unwrap_or(raster.height) {
            let planes = std::mem::take(&mut self.planes);
            self.frames.push(assembled(&raster, &planes));
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), DataError> {
        Ok(())
    }
}

/// A raster of planes `[channels, …]`.
fn assembled(spec: &RasterSpec, planes: &[Pixels<'_>]) -> Result<Raster<'static>, DataError> {
    macro_rules! assemble {
        ($kind:ident) => {{
            let mut values = Vec::new();
            for plane in planes {
                if let Pixels::$kind(plane) = plane {
                    let count = plane.len() / spec.channels;
                    for at in 0..count {
                        values
                            .extend((0..spec.channels).map(|channel| plane[channel * count + at]));
                    }
                }
            }
            Raster::try_new(spec.channels, &spec.sides(), values)
        }};
    }
    match spec.pixel_type {
        PixelType::U8 => assemble!(U8),
        PixelType::U16 => assemble!(U16),
        PixelType::F32 => assemble!(F32),
    }
}

/// Writes a result to a file, with a journal.
struct FileSink<'a> {
    output: PathBuf,
    config: &'a PredictConfig,
    input: VolumeSpec,
    settings: String,
    left: Option<Left>,
    open: Option<(VolumeWriter, Journal)>,
    /// Whether a slab was finished and is not recorded yet.
    is_due: bool,
}

impl FileSink<'_> {
    /// Records what is on disk, if it ends with a strip.
    fn note(&mut self) -> Result<(), DataError> {
        let Some((writer, journal)) = &mut self.open else { return Ok(()) };
        if !self.is_due || !writer.is_between_strips() {
            return Ok(());
        }
        writer.sync()?;
        let (rows, strips, end) = writer.written();
        journal.add(rows, end, strips)?;
        self.is_due = false;
        Ok(())
    }

    fn finish(mut self, ran: Result<(), DataError>) -> Result<VolumeSpec, DataError> {
        ran?;
        if self.open.is_none() {
            // An earlier run wrote everything but the directories.
            let channels = self.left.as_ref().map_or(1, |left| left.begun.channels);
            self.begin(channels)?;
        }
        let (writer, journal) = self.open.take().expect("begun");
        let spec = *writer.spec();
        writer.finish()?;
        journal.remove();
        Ok(spec)
    }
}

impl PlaneSink for FileSink<'_> {
    fn begin(&mut self, channels: usize) -> Result<(), DataError> {
        let spec = result_spec(&self.input, self.config.reduction, channels);
        let pages = spec.frames * spec.sides()[0] * spec.raster.channels;
        let begun = Begun { settings: self.settings.clone(), channels, pages };
        let (tiff, output) = (&self.config.tiff, &self.output);
        let mut opened = match self.left.take() {
            Some(left) => {
                if left.begun != begun {
                    let path = Journal::path_of(output);
                    let cause = std::io::Error::other(format!(
                        "it is of a model with {} channels, this one has {channels}; remove it",
                        left.begun.channels
                    ));
                    return Err(DataError::Write { path, cause });
                }
                let journal = Journal::open(output, &begun, Some(&left))?;
                let place = (left.end, left.rows);
                (VolumeWriter::resume(output, &spec, tiff, left.strips, place)?, journal)
            }
            None => {
                let writer = VolumeWriter::create(output, &spec, tiff)?;
                (writer, Journal::open(output, &begun, None)?)
            }
        };
        opened.0.keep_partial();
        self.open = Some(opened);
        Ok(())
    }

    fn plane(&mut self, plane: &Pixels<'_>) -> Result<(), DataError> {
        if let Some((writer, _)) = &mut self.open {
            writer.write(plane)?;
        }
        self.note()
    }

    fn checkpoint(&mut self) -> Result<(), DataError> {
        self.is_due = true;
        self.note()
    }
}
