"""Convolutions of splines as others compute them in PyTorch, and the convolution beside them."""

import torch
import torch.nn.functional as F

import formula
import worker
from kan_layers import DEGREE, expanded, knots, load, numbers, reproduce_efficient_kan, splines

KERNEL = 3
TAPS = KERNEL * KERNEL


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    about = f"PyTorch {torch.__version__}, {threads} threads"
    layer, leaves, given = LAYERS[strategy](problem)
    once, outputs = passes(problem, layer, leaves, given)
    return once, outputs, about


def passes(problem, layer, leaves, given):
    """`layer` from its `leaves`, by name, and what `given` makes of the gradients: our layouts."""
    values = tuple(leaves.values())
    if problem["pass"] == "forward":

        def once():
            with torch.no_grad():
                return layer(*values)

        return once, lambda: {"y": numbers(once())}

    out = problem["side"] - KERNEL + 1
    g = load("g", (problem["batch"], problem["channels"][1], out, out))
    for leaf in values:
        leaf.requires_grad_()

    def step():
        for leaf in values:
            leaf.grad = None
        y = layer(*values)
        (y * g).sum().backward()
        return y

    def outputs():
        y = step()
        gradients = {"d" + name: numbers(given[name](v.grad)) for name, v in leaves.items()}
        return {"y": numbers(y)} | gradients

    return step, outputs


def same(gradient):
    return gradient


def image(problem):
    side = problem["side"]
    return load("x", (problem["batch"], problem["channels"][0], side, side), 1.1)


def parameters(problem):
    """Coefficients `[channels, taps, bases, outputs]` and base weights `[channels, taps, outputs]`."""
    inputs, outputs = problem["channels"]
    scale = formula.weight_scale(inputs * TAPS)
    count = problem["intervals"] + DEGREE
    spline = load("spline", (inputs, TAPS, count, outputs), scale)
    return spline, load("base", (inputs, TAPS, outputs), scale)


def basis_then_conv(problem, bases):
    """Every basis of every pixel as a channel, then two convolutions, as torch-conv-kan computes it
    without its norm."""
    inputs, outputs = problem["channels"]
    count = problem["intervals"] + DEGREE
    spline, base = parameters(problem)
    leaves = {
        "x": image(problem),
        "spline": spline.permute(3, 0, 2, 1).reshape(outputs, inputs * count, KERNEL, KERNEL).contiguous(),
        "base": base.permute(2, 0, 1).reshape(outputs, inputs, KERNEL, KERNEL).contiguous(),
    }
    given = {
        "x": same,
        "spline": lambda of: of.reshape(outputs, inputs, count, TAPS).permute(1, 3, 2, 0),
        "base": lambda of: of.reshape(outputs, inputs, TAPS).permute(1, 2, 0),
    }

    def layer(x, spline, base):
        return F.conv2d(F.silu(x), base) + F.conv2d(bases(x).flatten(1, 2), spline)

    return layer, leaves, given


def recursive(problem):
    grid = knots(problem)

    def bases(x):
        # The knots are expanded to every pixel, as torch-conv-kan does.
        own = grid.expand(x.shape[1:] + grid.shape).contiguous()
        return by_recursion(x, own).moveaxis(-1, 2).contiguous()

    return basis_then_conv(problem, bases)


def by_recursion(x, grid):
    x = x.unsqueeze(-1)
    bases = ((x >= grid[..., :-1]) & (x < grid[..., 1:])).to(x.dtype)
    for p in range(1, DEGREE + 1):
        left, right = grid[..., : -(p + 1)], grid[..., p:-1]
        apart = torch.where(right == left, torch.ones_like(right), right - left)
        falling = (grid[..., p + 1 :] - x) / (grid[..., p + 1 :] - grid[..., 1:-p])
        bases = (x - left) / apart * bases[..., :-1] + falling * bases[..., 1:]
    return bases


def compiled(problem):
    """The same with the bases in closed form, through torch.compile."""
    count, step = problem["intervals"] + DEGREE, 2.0 / problem["intervals"]

    def bases(x):
        center = torch.arange(count, dtype=x.dtype).view(1, 1, -1, 1, 1) - DEGREE + 2.0
        away = ((x.unsqueeze(2) + 1.0) / step - center).abs()
        inner = 2.0 / 3.0 - away * away + away * away * away / 2.0
        outer = torch.clamp(2.0 - away, min=0.0) ** 3 / 6.0
        return torch.where(away < 1.0, inner, outer)

    layer, leaves, given = basis_then_conv(problem, bases)
    return torch.compile(layer), leaves, given


def patches(x):
    return F.unfold(x, KERNEL).transpose(1, 2)


def unfolded(problem):
    """A linear layer of the patches, as efficient-kan computes it."""
    reproduce_efficient_kan()
    inputs, outputs = problem["channels"]
    grid, out = knots(problem), problem["side"] - KERNEL + 1
    spline, base = (numbers.flatten(0, 1) for numbers in parameters(problem))
    leaves = {
        "x": image(problem),
        "spline": spline.permute(2, 0, 1).contiguous(),
        "base": base.t().contiguous(),
    }
    given = {"x": same, "spline": lambda of: of.permute(1, 2, 0), "base": torch.t}

    def layer(x, spline, base):
        rows = patches(x)
        y = expanded(rows.flatten(0, 1), spline, base, torch.ones_like(base), grid)
        return y.unflatten(0, rows.shape[:2]).transpose(1, 2).unflatten(2, (out, out))

    return layer, leaves, given


def loop(problem):
    """A layer of splines for each pair of channels, one after the other, as Convolutional-KANs."""
    inputs, outputs = problem["channels"]
    if inputs * outputs > 400:
        raise ValueError(f"a loop over {inputs * outputs} layers takes minutes")
    grid, out = knots(problem), problem["side"] - KERNEL + 1
    spline, base = parameters(problem)
    leaves = {
        "x": image(problem),
        "spline": spline.permute(3, 0, 1, 2).contiguous(),
        "base": base.permute(2, 0, 1).contiguous(),
    }
    given = {"x": same, "spline": lambda of: of.permute(1, 2, 3, 0), "base": lambda of: of.permute(1, 2, 0)}

    def layer(x, spline, base):
        rows = patches(x).unflatten(2, (inputs, TAPS))
        images = []
        for output in range(outputs):
            y = 0.0
            for channel in range(inputs):
                own = rows[:, :, channel]
                bases = splines(own, grid, DEGREE).flatten(2)
                y = y + F.silu(own) @ base[output, channel]
                y = y + bases @ spline[output, channel].flatten()
            images.append(y)
        return torch.stack(images, 1).unflatten(2, (out, out))

    return layer, leaves, given


def convolution(problem):
    """A plain convolution of as many channels as there are bases and a base branch."""
    inputs, outputs = problem["channels"]
    channels, side = inputs * (problem["intervals"] + DEGREE + 1), problem["side"]
    scale = formula.weight_scale(inputs * TAPS)
    leaves = {
        "expanded": load("expanded", (problem["batch"], channels, side, side)),
        "weight": load("weight", (outputs, channels, KERNEL, KERNEL), scale),
    }
    return F.conv2d, leaves, dict.fromkeys(leaves, same)


LAYERS = {
    "pytorch": recursive,
    "pytorch-compiled": compiled,
    "pytorch-unfold": unfolded,
    "pytorch-loop": loop,
    "pytorch-conv": convolution,
}

if __name__ == "__main__":
    worker.serve(prepare)
