"""Layers of functions in closed form as others compute them in PyTorch."""

import torch
import torch.nn.functional as F

import formula
import worker
from kan_layers import load, passes, same

NUMERATOR = 6


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    about = f"PyTorch {torch.__version__}, {worker.place(threads)}"
    layer, leaves, given = layer_of(problem)
    if strategy == "pytorch-compiled":
        layer = torch.compile(layer)
    once, outputs = passes(problem, layer, leaves, given)
    return once, outputs, about


def count_of(basis):
    """How many functions an input has."""
    return {
        "chebyshev": lambda: basis["degree"] + 1,
        "legendre": lambda: basis["degree"] + 1,
        "fourier": lambda: 2 * basis["frequencies"],
        "rational": lambda: 1,
    }.get(basis["kind"], lambda: basis["functions"])()


def bumps(basis, trailing):
    """Distances from the centers in widths, as fast-kan and faster-kan compute them."""
    low, high, count = basis["low"], basis["high"], basis["functions"]
    centers = torch.linspace(low, high, count, device=worker.device())
    centers = centers.view([count] + [1] * trailing)
    width = (high - low) / (count - 1)
    return lambda x: (x.unsqueeze(-1 - trailing) - centers) / width


def gaussian(basis, trailing):
    distances = bumps(basis, trailing)
    return lambda x: torch.exp(-(distances(x) ** 2))


def rswaf(basis, trailing):
    distances = bumps(basis, trailing)
    return lambda x: 1 - torch.tanh(distances(x)) ** 2


def mexican_hat(basis, trailing):
    distances = bumps(basis, trailing)
    norm = 2 / (3**0.5 * torch.pi**0.25)

    def values(x):
        squared = distances(x) ** 2
        return norm * (1 - squared) * torch.exp(-0.5 * squared)

    return values


def chebyshev(basis, trailing):
    """By the recurrence, which takes less time than the cosines of multiples of an angle."""

    def values(x):
        u = torch.tanh(x)
        terms = [torch.ones_like(u), u]
        for _ in range(2, basis["degree"] + 1):
            terms.append(2 * u * terms[-1] - terms[-2])
        return torch.stack(terms[: basis["degree"] + 1], -1 - trailing)

    return values


def legendre(basis, trailing):
    def values(x):
        u = torch.tanh(x)
        terms = [torch.ones_like(u), u]
        for n in range(1, basis["degree"]):
            terms.append(((2 * n + 1) * u * terms[-1] - n * terms[-2]) / (n + 1))
        return torch.stack(terms[: basis["degree"] + 1], -1 - trailing)

    return values


def fourier(basis, trailing):
    """All cosines, then all sines."""
    multiples = torch.arange(1, basis["frequencies"] + 1, device=worker.device())
    multiples = multiples.view([basis["frequencies"]] + [1] * trailing)

    def values(x):
        angles = x.unsqueeze(-1 - trailing) * multiples
        return torch.cat([torch.cos(angles), torch.sin(angles)], -1 - trailing)

    return values


def horner(x, coefficients):
    """From the lowest degree."""
    value = coefficients[-1]
    for index in range(len(coefficients) - 2, -1, -1):
        value = value * x + coefficients[index]
    return value


def rational(_basis, trailing):
    def values(x, functions):
        below = horner(x, functions[NUMERATOR:]) * x
        return (horner(x, functions[:NUMERATOR]) / (1 + below.abs())).unsqueeze(-1 - trailing)

    return values


# Each takes a basis and how many axes follow that of the functions.
VALUES = {
    "gaussian": gaussian,
    "rswaf": rswaf,
    "mexican-hat": mexican_hat,
    "chebyshev": chebyshev,
    "legendre": legendre,
    "fourier": fourier,
    "rational": rational,
}


def order_of(basis):
    """Where the functions of this script are among ours."""
    count = count_of(basis)
    if basis["kind"] == "fourier":
        return [*range(0, count, 2), *range(1, count, 2)]
    return list(range(count))


def layer_of(problem):
    """All values of the functions, then a product; weights have the outputs first."""
    basis, inputs, outputs = problem["basis"], problem["inputs"], problem["outputs"]
    count, scale = count_of(basis), formula.weight_scale(inputs)
    order = torch.tensor(order_of(basis), device=worker.device())
    values = VALUES[basis["kind"]](basis, 0)
    coefficients = load("coefficients", (inputs, count, outputs), scale)[:, order]
    leaves = {
        "x": load("x", (problem["batch"], inputs), 2.0),
        "coefficients": coefficients.permute(2, 0, 1).flatten(1).contiguous(),
        "base": load("base", (inputs, outputs), scale).t().contiguous(),
    }

    def ours(gradient):
        ordered = torch.empty(inputs, count, outputs, device=gradient.device)
        ordered[:, order] = gradient.unflatten(1, (inputs, count)).permute(1, 2, 0)
        return ordered

    given = {"x": same, "coefficients": ours, "base": torch.t, "functions": same}
    if basis["kind"] == "rational":
        leaves["functions"] = load("functions", (10,), 0.5)

    def layer(x, coefficients, base, *functions):
        of_functions = values(x, *functions).flatten(1)
        return F.linear(F.silu(x), base) + F.linear(of_functions, coefficients)

    return layer, leaves, given


if __name__ == "__main__":
    worker.serve(prepare)
