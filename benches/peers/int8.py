"""The numbers of the problems in eight bits, the same as benches/src/problem/int8_*.rs makes."""

import numpy as np

import formula

INPUT = (1 / 64, 120)
OUTPUT = (0.25, 0)
WEIGHT_SCALES = (1 / 128, 1 / 256)
CALIBRATION = 8


def activations(problem):
    values = formula.tensor("a", (problem["rows"], problem["inner"]), 1.0)
    return np.floor((values + np.float32(1.0)) * np.float32(127.5)).astype(np.uint8)


def weights(problem):
    """A row for each output."""
    values = formula.tensor("b", (problem["columns"], problem["inner"]), 127.0)
    return np.floor(values).astype(np.int8)


def weight_scales(problem):
    return np.resize(np.array(WEIGHT_SCALES, np.float32), problem["columns"])


def samples(problem, name, count):
    shape = problem["shape"]
    if shape["network"] == "residual":
        sample = (3, shape["side"], shape["side"])
    else:
        sample = (shape["inputs"], 1, 1)
    return formula.tensor(name, (count, *sample), 1.0)


def layer(name, shape):
    """A layer's weights and biases."""
    scale = formula.weight_scale(int(np.prod(shape[1:])))
    return formula.tensor(name, shape, scale), formula.tensor(name + ".bias", shape[:1], 0.1)


def perceptron(shape):
    """Names and shapes of the layers."""
    inputs, hidden = shape["inputs"], shape["hidden"]
    return [("first", (hidden, inputs)), ("second", (hidden, hidden)), ("answers", (10, hidden))]


def scheme(values):
    """Scale and zero point of what was seen, from the least to the greatest and around zero."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = (high - low) / 255
    return scale, round(-low / scale)
