"""Convolutions of functions in closed form as others compute them in PyTorch."""

import torch
import torch.nn.functional as F

import formula
import worker
from kan_bases import VALUES, count_of, order_of
from kan_convolutions import KERNEL, TAPS, passes, same
from kan_layers import load


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    about = f"PyTorch {torch.__version__}, {threads} threads"
    layer, leaves, given = layer_of(problem)
    if strategy == "pytorch-compiled":
        layer = torch.compile(layer)
    once, outputs = passes(problem, layer, leaves, given)
    return once, outputs, about


def layer_of(problem):
    """All functions of all pixels as channels, then two convolutions."""
    basis, (inputs, outputs), side = problem["basis"], problem["channels"], problem["side"]
    count, scale = count_of(basis), formula.weight_scale(inputs * TAPS)
    order = torch.tensor(order_of(basis))
    values = VALUES[basis["kind"]](basis, 2)
    coefficients = load("coefficients", (inputs, TAPS, count, outputs), scale)[:, :, order]
    coefficients = coefficients.permute(3, 0, 2, 1).reshape(outputs, inputs * count, KERNEL, KERNEL)
    base = load("base", (inputs, TAPS, outputs), scale).permute(2, 0, 1)
    leaves = {
        "x": load("x", (problem["batch"], inputs, side, side), 2.0),
        "coefficients": coefficients.contiguous(),
        "base": base.reshape(outputs, inputs, KERNEL, KERNEL).contiguous(),
    }

    def ours(gradient):
        ordered = torch.empty(inputs, TAPS, count, outputs)
        ordered[:, :, order] = gradient.reshape(outputs, inputs, count, TAPS).permute(1, 3, 2, 0)
        return ordered

    def ours_of_base(gradient):
        return gradient.reshape(outputs, inputs, TAPS).permute(1, 2, 0)

    given = {"x": same, "coefficients": ours, "base": ours_of_base, "functions": same}
    if basis["kind"] == "rational":
        leaves["functions"] = load("functions", (10,), 0.5)

    def layer(x, coefficients, base, *functions):
        channels = values(x, *functions).flatten(1, 2)
        return F.conv2d(F.silu(x), base) + F.conv2d(channels, coefficients)

    return layer, leaves, given


if __name__ == "__main__":
    worker.serve(prepare)
