"""Runs an exported model with onnxruntime and compares its answers with the model's own.

    cargo run -p updraft-quant --example answers -- RUN/model.int8 FOLDER   (or FOLDER alone)
    python crates/quant/tests/same_answers.py FOLDER

Fails where fewer than 99.5 % of the greatest answers are the same, or 99 % after onnxruntime's own
optimizations: those quantize the weights of layers that the file keeps in f32 between codes. On
processors without VNNI they also take kernels whose sums of two products saturate in 16 bits; there
only the first of the two holds. Images in FOLDER/resize, resized between pixels, may differ by one
code. Needs onnxruntime and numpy; no test of the workspace does.
"""

import pathlib
import sys

import numpy as np
import onnxruntime

LEAST = {"ORT_DISABLE_ALL": 0.995, "ORT_ENABLE_ALL": 0.99}


def answers(folder, level):
    """The outputs of onnxruntime, the model's own, and their names."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    (image,) = session.get_inputs()
    x = np.fromfile(folder / "images.f32", "<f4").reshape(-1, *image.shape[1:])
    given = [output.reshape(len(x), -1) for output in session.run(None, {image.name: x})]
    # One output after the other, each of all images.
    own = np.fromfile(folder / "answers.f32", "<f4")
    ends = np.cumsum([output.size for output in given])
    own = np.split(own, ends[:-1])
    names = [output.name for output in session.get_outputs()]
    return given, [mine.reshape(len(x), -1) for mine in own], names


def agreement(folder, level):
    (given,), (own,), _ = answers(folder, level)
    share = float(np.mean(given.argmax(1) == own.argmax(1)))
    classes = len(np.unique(own.argmax(1)))
    noise = np.sum((given.astype(np.float64) - own) ** 2)
    decibels = 10 * np.log10(np.sum(own.astype(np.float64) ** 2) / max(noise, 1e-300))
    print(
        f"onnxruntime {onnxruntime.__version__}, {level}: {100 * share:.2f} % of {len(own)} answers "
        f"agree over {classes} classes, signal to difference {decibels:.1f} dB"
    )
    return share


def resized(folder, level):
    """Whether nearest pixels are equal and others differ by one code at most."""
    same, worst, different, count = True, 0.0, 0, 0
    for given, own, name in zip(*answers(folder, level), strict=True):
        codes = np.unique(own)
        step = np.min(np.diff(codes))
        difference = np.abs(given - own) / step
        worst = max(worst, float(difference.max()))
        same &= bool(difference.max() < (0.01 if name.startswith("Nearest") else 1.01))
        different += int(np.sum(difference > 0.5))
        count += own.size
    print(
        f"{level}: {different} of {count} numbers of resized images differ, the worst by "
        f"{worst:.3f} codes"
    )
    return same


def main(folder):
    folder = pathlib.Path(folder)
    shares = {level: agreement(folder, level) for level in LEAST}
    same = all(shares[level] >= least for level, least in LEAST.items())
    if (folder / "transformer").is_dir():
        same &= all(agreement(folder / "transformer", level) >= LEAST[level] for level in LEAST)
    if (folder / "resize").is_dir():
        same &= all([resized(folder / "resize", level) for level in LEAST])
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
