//! Every promised name: removing one breaks this file, not a user.

use updraft_data::{
    Ahead, Augment, Axis, CacheUse, CachedImages, CachedSamples, Canvas, CifarFiles, CifarLabels,
    CifarPart, CifarRecords, Collate, ColorJitter, ColumnEncoder, ColumnKind, ColumnSchema, Crop,
    Cue, DataError, DecodeError, Delimiter, Digest, Draw, EncodedTable, Epoch, FaultPolicy,
    FileImages, FileSample, FileSamples, FileTarget, FitConfig, Flip, FormatError, Formula,
    GeneratedConfig, GeneratedImages, HorizontalFlip, IdxArray, IdxValues, Image, ImageBatch,
    ImageCollate, ImageFolder, ImageSamples, ImageSource, InMemoryImages, InMemorySamples,
    InMemoryTensors, LastBatch, Loader, LoaderConfig, LoaderState, Mix, MixUp, Normalize,
    NormalizeChannels, Order, PatchPair, PixelType, Pixels, PixelsMut, Place, Progress,
    ProgressUnit, Quarantined, Random, RandomPatches, RandomResizedCrop, Raster, RasterSpec,
    Relabeled, ResidentBatch, ResidentEpoch, ResidentSet, Resized, Rotate, Sample, SampleCollate,
    SampleConfig, SampleFault, SampleFiles, SampleSource, SampleSubset, SampleTarget,
    SlidingWindow, Split, StreamConfig, Subset, Table, TableEncoder, TableError, TableSchema,
    TarImages, TargetBatch, Targets, TensorBatch, Translate, TranslateDepth, Vocabulary, Waits,
    Workers, Zoom,
};

#[test]
fn the_promised_names_are_there() {
    use updraft_data::{
        blob_volumes, decode, formula_samples, interaction_csv, stratified_sample, stratified_split,
    };
    let _ = (blob_volumes, decode, formula_samples, interaction_csv);
    let _ = (stratified_sample, stratified_split);
    let _ = |folder: &str| updraft_data::read_cifar(folder, CifarLabels::Ten, CifarPart::Test);
    let _ = size_of::<(Canvas, ColorJitter, HorizontalFlip, MixUp, Normalize)>();
    let _ = size_of::<(RandomResizedCrop, Rotate, Translate, Zoom, Mix, Image<'_>, ImageBatch)>();
    let _ = size_of::<(
        CacheUse,
        CachedImages,
        FileImages,
        FileSamples,
        FileSample,
        FileTarget,
        Progress,
        ProgressUnit,
    )>();
    let _ = size_of::<(CifarFiles, CifarLabels, CifarPart, CifarRecords, IdxArray, IdxValues)>();
    let _ = size_of::<(ColumnEncoder, ColumnKind, ColumnSchema, Delimiter, EncodedTable)>();
    let _ = size_of::<(FitConfig, Table, TableEncoder, TableError, TableSchema, Vocabulary)>();
    let _ = size_of::<(
        DataError,
        DecodeError,
        FormatError,
        Place,
        SampleFault,
        SampleFiles,
        Quarantined,
    )>();
    let _ = size_of::<(Draw, Epoch, FaultPolicy, ImageCollate, LastBatch, Loader, LoaderConfig)>();
    let _ = size_of::<(
        Ahead<ImageCollate, u8, fn(ImageBatch) -> u8>,
        LoaderState,
        Order,
        StreamConfig,
        Waits,
        Workers,
        Split,
    )>();
    let _ = size_of::<(Cue, Formula, GeneratedConfig, GeneratedImages, ImageFolder, TarImages)>();
    let _ = size_of::<(InMemoryImages, InMemoryTensors, Relabeled, Resized, Subset, Targets)>();
    let _ = size_of::<(PatchPair, RandomPatches, SlidingWindow, TargetBatch, TensorBatch)>();
    let _ = size_of::<(ResidentBatch<2>, ResidentEpoch<'_, 2>, ResidentSet<2>)>();
    let _ = size_of::<(Axis, Crop, Digest, Flip, NormalizeChannels, Random, TranslateDepth)>();
    let _ = size_of::<(PixelType, Pixels<'_>, PixelsMut<'_>, Raster<'_>, RasterSpec)>();
    let _ = size_of::<(Sample<'_>, SampleTarget<'_>, SampleCollate, SampleConfig)>();
    let _ = size_of::<(FileSample, FileTarget, SampleFiles)>();
    let _ = size_of::<(CachedSamples, ImageSamples, InMemorySamples, SampleSubset)>();
    fn is_augment<A: Augment>() {}
    is_augment::<HorizontalFlip>();
    fn is_sample_source<S: SampleSource>() {}
    is_sample_source::<InMemorySamples>();
    fn is_collate<C: Collate>() {}
    is_collate::<InMemoryTensors>();
    fn is_source<S: ImageSource>() {}
    is_source::<ImageFolder>();
}
