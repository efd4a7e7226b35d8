"""The data of the microscopy twins, and the scores that need no network."""

import csv
import os
from dataclasses import dataclass, field

import numpy as np
import tifffile
from scipy.ndimage import gaussian_filter
from skimage.filters import threshold_otsu


@dataclass
class Volume:
    """One input `[channels, *sides]` with its target; a mask has one channel of class numbers."""

    input: np.ndarray
    target: np.ndarray
    # The mask of the cells where the target is no mask.
    mask: np.ndarray = None
    places: dict = field(default_factory=dict)

    @property
    def foreground(self):
        return self.places.setdefault(True, np.flatnonzero(self.target[0] > 0))

    @property
    def background(self):
        return self.places.setdefault(False, np.flatnonzero(self.target[0] <= 0))


def z_score(values, axes):
    values = values.astype(np.float64)
    mean, std = values.mean(axes, keepdims=True), values.std(axes, keepdims=True)
    return ((values - mean) / std).astype(np.float32)


def read(folder, *names):
    return tifffile.imread(os.path.join(folder, *names))


def frames_of(folder, position, what, scale):
    values = read(folder, "labelfree2d", f"{position}_{what}.tif")
    return z_score(values, (1, 2) if scale == "frame" else None)


def positions(options, make):
    """The frames of pos01 to train and of pos02 to test."""
    sets = []
    for position in ("pos01", "pos02"):
        phase = frames_of(options.data, position, "phase", options.scale)
        cells = read(options.data, "labelfree2d", f"{position}_cells.tif") > 0
        sets.append([make(*frame) for frame in zip(phase, targets(options, position), cells)])
    return sets


def targets(options, position):
    fluo = read(options.data, "labelfree2d", f"{position}_fluo.tif").astype(np.float64)
    if options.scale == "volume":
        return z_score(fluo, None)
    # By frame: its median is 0, and the deviation of the training position is 1.
    unit = read(options.data, "labelfree2d", "pos01_fluo.tif").std()
    return ((fluo - np.median(fluo, (1, 2), keepdims=True)) / unit).astype(np.float32)


def label_free(options):
    """Phase contrast to fluorescence."""
    return positions(options, lambda phase, fluo, cells: Volume(phase[None], fluo[None], cells))


def cells(options):
    """Phase contrast to the mask of the cells."""
    return positions(options, lambda phase, _, cells: Volume(phase[None], cells[None].astype(np.int64)))


def nuclei(options):
    """Columns 0 to 159 of one volume to train, 176 to 255 to test."""
    image = read(options.data, "nuclei3d", "nuclei.tif")
    labels = (read(options.data, "nuclei3d", "nuclei_labels.tif") > 0).astype(np.int64)
    parts = (slice(0, 160), slice(176, 256))
    return [
        [Volume(z_score(image[:, :, part], None)[None], labels[None, :, :, part])] for part in parts
    ]


def generated(manifest):
    """Fields of generated cells by their manifest, each channel z-scored by itself."""

    def volumes(options):
        sets = {"train": [], "test": []}
        with open(os.path.join(options.data, manifest), newline="") as file:
            for row in csv.DictReader(file):
                given = [read(options.data, row[name]) for name in row if name.startswith("input.")]
                spatial = 3 if "-3d" in options.task else 2
                image = np.concatenate([channels_first(value, spatial) for value in given])
                axes = tuple(range(1, image.ndim))
                if "labels" in row:
                    target = channels_first(read(options.data, row["labels"]), spatial)
                    target, mask = target.astype(np.int64), None
                else:
                    name = next(name for name in row if name.startswith("target."))
                    target = z_score(channels_first(read(options.data, row[name]), spatial), axes)
                    mask = read(options.data, f"{row['position']}_classes.ome.tif")
                sets[row["split"]].append(Volume(z_score(image, axes), target, mask))
        return sets["train"], sets["test"]

    return volumes


def channels_first(values, spatial):
    """`[channels, *sides]` of what tifffile returns: slices come before channels there."""
    if values.ndim == spatial:
        return values[None]
    return np.moveaxis(values, 1, 0) if spatial == 3 else values


def pearson(a, b):
    return float(np.corrcoef(a.astype(np.float64), b.astype(np.float64))[0, 1])


def dice(found, wanted):
    return float(2.0 * (found & wanted).sum() / max(found.sum() + wanted.sum(), 1))


def joined(volumes, of):
    return np.concatenate([of(volume).ravel() for volume in volumes])


def label_free_floors(_train, test):
    fluo = joined(test, lambda volume: volume.target)
    yield "the input itself", [pearson(joined(test, lambda volume: volume.input), fluo)]
    yield "the mask of the cells", [pearson(joined(test, lambda volume: volume.mask), fluo)]


def generated_floors(_train, test):
    def of(channel, values):
        return pearson(joined(test, values), joined(test, lambda volume: volume.target[channel]))

    yield "the input itself", [of(channel, lambda volume: volume.input) for channel in (0, 1)]
    masks = (lambda volume: volume.mask > 0, lambda volume: volume.mask > 1)
    yield "the masks of bodies and nuclei", [of(channel, masks[channel]) for channel in (0, 1)]


def mask_floors(train, test):
    """Otsu's threshold of the blurred channel, found on the training volumes, either side of it."""
    classes = int(max(volume.target.max() for volume in train))

    def blurred(volumes, channel):
        return joined(volumes, lambda volume: gaussian_filter(volume.input[channel], 1.0))

    def otsu(of):
        wanted = [joined(volumes, lambda volume: volume.target >= of) for volumes in (train, test)]
        channel = min(of, train[0].input.shape[0]) - 1
        values = blurred(train, channel)
        threshold = threshold_otsu(values)
        # Cells are darker than the ground in phase contrast.
        is_bright = dice(values > threshold, wanted[0]) >= dice(values <= threshold, wanted[0])
        found = blurred(test, channel) > threshold
        return found if is_bright else ~found

    found = [otsu(of) for of in range(1, classes + 1)]
    found = [a & ~b for a, b in zip(found, [*found[1:], np.zeros_like(found[0])])]
    truth = joined(test, lambda volume: volume.target)
    numbers = range(1, classes + 1)
    yield "Otsu's threshold", [dice(found[of - 1], truth == of) for of in numbers]
    yield "all background", [dice(np.zeros_like(truth, bool), truth == of) for of in numbers]
    yield "all foreground", [dice(np.ones_like(truth, bool), truth == of) for of in numbers]
