"""Runs an exported model with onnxruntime and compares its answers with the model's own.

    cargo run -p updraft-quant --example answers -- RUN/model.int8 FOLDER   (or FOLDER alone)
    python crates/quant/tests/same_answers.py FOLDER

Fails where fewer than 99.5 % of the greatest answers are the same, or 99 % after onnxruntime's own
optimizations: those quantize the weights of layers that the file keeps in f32 between codes. On
processors without VNNI they also take kernels whose sums of two products saturate in 16 bits; there
only the first of the two holds. Needs onnxruntime and numpy; no test of the workspace does.
"""

import pathlib
import sys

import numpy as np
import onnxruntime

LEAST = {"ORT_DISABLE_ALL": 0.995, "ORT_ENABLE_ALL": 0.99}


def agreement(folder, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    (image,) = session.get_inputs()
    x = np.fromfile(folder / "images.f32", "<f4").reshape(-1, *image.shape[1:])
    given = session.run(None, {image.name: x})[0].reshape(len(x), -1)
    own = np.fromfile(folder / "answers.f32", "<f4").reshape(len(x), -1)
    share = float(np.mean(given.argmax(1) == own.argmax(1)))
    classes = len(np.unique(own.argmax(1)))
    noise = np.sum((given.astype(np.float64) - own) ** 2)
    decibels = 10 * np.log10(np.sum(own.astype(np.float64) ** 2) / max(noise, 1e-300))
    print(
        f"onnxruntime {onnxruntime.__version__}, {level}: {100 * share:.2f} % of {len(x)} answers "
        f"agree over {classes} classes, signal to difference {decibels:.1f} dB"
    )
    return share


def main(folder):
    folder = pathlib.Path(folder)
    shares = {level: agreement(folder, level) for level in LEAST}
    return 0 if all(shares[level] >= least for level, least in LEAST.items()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
