"""KAN layers as others compute them in PyTorch, and the layers that people weigh them against."""

import importlib.metadata
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

import formula
import worker

DEGREE = 3


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    worker.set_tf32(strategy.endswith("-tf32"))
    layer, leaves, given = LAYERS[strategy](problem)
    about = f"PyTorch {torch.__version__}, {worker.place(threads)}"
    package = strategy.split("-")[0]
    if package != "pytorch":
        about = f"{package} {importlib.metadata.version(package)}, {about}"
    once, outputs = passes(problem, layer, leaves, given)
    return once, outputs, about


def load(name, shape, scale=1.0):
    return torch.from_numpy(formula.tensor(name, shape, scale)).to(worker.device())


def numbers(value):
    # Metal has no f64.
    return value.detach().contiguous().cpu().double().numpy().ravel()


def passes(problem, layer, leaves, given):
    """`layer` from its `leaves`, by name, and what `given` makes of the gradients: our layouts."""
    values = tuple(leaves.values())
    if problem["pass"] == "forward":

        def once():
            with torch.no_grad():
                return layer(*values)

        return once, lambda: {"y": numbers(once())}

    g = load("g", (problem["batch"], problem["outputs"]))
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


def knots(problem):
    intervals = problem["intervals"]
    places = torch.arange(-DEGREE, intervals + DEGREE + 1, dtype=torch.float64)
    return (places * (2.0 / intervals) - 1.0).float().to(worker.device())


def same(gradient):
    return gradient


def parameters(problem):
    """Coefficients, base weights and factors in our layouts: the outputs last."""
    inputs, outputs = problem["inputs"], problem["outputs"]
    scale = formula.weight_scale(inputs)
    spline = load("spline", (inputs, problem["intervals"] + DEGREE, outputs), scale)
    return spline, load("base", (inputs, outputs), scale), load("scaler", (inputs, outputs))


def splines(x, knots, degree):
    """Every basis by the recursion of Cox and de Boor: one step a degree over the whole tensor."""
    x = x.unsqueeze(-1)
    bases = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    for p in range(1, degree + 1):
        rising = (x - knots[: -(p + 1)]) / (knots[p:-1] - knots[: -(p + 1)])
        falling = (knots[p + 1 :] - x) / (knots[p + 1 :] - knots[1:-p])
        bases = rising * bases[..., :-1] + falling * bases[..., 1:]
    return bases


def expanded(x, spline, base, scaler, knots, degree=DEGREE):
    """Basis expansion, then a product of matrices; weights have the outputs first."""
    weights = (spline * scaler.unsqueeze(-1)).flatten(1)
    bases = splines(x, knots, degree).flatten(1)
    return F.linear(F.silu(x), base) + F.linear(bases, weights)


def expansion(problem):
    """A layer as efficient-kan computes it."""
    reproduce_efficient_kan()
    grid = knots(problem)
    spline, base, scaler = parameters(problem)
    leaves = {
        "x": load("x", (problem["batch"], problem["inputs"]), 1.1),
        "spline": spline.permute(2, 0, 1).contiguous(),
        "base": base.t().contiguous(),
        "scaler": scaler.t().contiguous(),
    }
    given = {"x": same, "spline": lambda of: of.permute(1, 2, 0), "base": torch.t, "scaler": torch.t}
    return lambda x, spline, base, scaler: expanded(x, spline, base, scaler, grid), leaves, given


def compiled(problem):
    layer, leaves, given = expansion(problem)
    return torch.compile(layer), leaves, given


def bf16(problem):
    """The compiled layer with products in bf16, as mixed precision computes them: bases and leaves
    are f32."""
    layer, leaves, given = expansion(problem)
    return torch.compile(mixed(layer)), leaves, given


def mixed(layer):
    """A layer under autocast to bf16, with f32 out."""

    def compute(*values):
        with torch.autocast(worker.device(), dtype=torch.bfloat16):
            return layer(*values).float()

    return compute


def flashkan(problem):
    """The layer of PyPI's flashkan, which compiles its bases. It has no factors: the coefficients
    are multiplied by them before."""
    try:
        from flashkan import KANLayer
    except ImportError as error:
        raise ImportError(f"{error}; `pip install flashkan` installs it") from error

    inputs, outputs = problem["inputs"], problem["outputs"]
    module = KANLayer(inputs, outputs, problem["intervals"], DEGREE).to(worker.device())
    _, leaves, given = expansion(problem)

    def layer(x, spline, base, scaler):
        weights = {"spline_weight": spline * scaler.unsqueeze(-1), "base_weight": base}
        return torch.func.functional_call(module, weights, (x,))

    return layer, leaves, given


def flashkan_bf16(problem):
    layer, leaves, given = flashkan(problem)
    return mixed(layer), leaves, given


def reproduce_efficient_kan():
    """Refuses to stand for efficient-kan without giving the outputs that it has stored: of a layer
    without factors, and of a network of cubic ones with them."""
    reproduce("efficient_kan_layer", [""])
    reproduce("efficient_kan", ["layers.0.", "layers.1."])


def reproduce(name, layers):
    here = os.path.dirname(os.path.abspath(__file__))
    stored = os.path.join(here, "..", "..", "crates", "kan", "tests", "golden", name)
    with open(stored + ".json") as file:
        samples = json.load(file)
    with open(stored + ".safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for name, about in header.items():
        first, end = about["data_offsets"]
        values = np.frombuffer(data[first:end], dtype="<f4").astype(np.float64)
        tensors[name] = torch.from_numpy(values.reshape(about["shape"]))
    y = torch.tensor(samples["x"], dtype=torch.float64)
    for layer in layers:
        spline, base, grid = (tensors[layer + n] for n in ("spline_weight", "base_weight", "grid"))
        scaler = tensors.get(layer + "spline_scaler", torch.ones_like(base))
        degree = grid.shape[1] - 1 - spline.shape[2]
        # Every input's knots are the same.
        y = expanded(y.reshape(-1, base.shape[1]), spline, base, scaler, grid[0], degree)
    right = torch.tensor(samples["y"], dtype=torch.float64).reshape(y.shape)
    error = ((y - right).abs().max() / right.abs().max()).item()
    if not error < 1e-6:
        raise ValueError(f"this is not efficient-kan's {name}: error {error:.0e} of its outputs")


def linear(problem):
    """A plain linear layer over as many inputs as a layer has bases: the floor of an expansion."""
    inputs, outputs = problem["inputs"], problem["outputs"]
    width = inputs * (problem["intervals"] + DEGREE)
    spline, _, _ = parameters(problem)
    leaves = {
        "expanded": load("expanded", (problem["batch"], width)),
        "spline": spline.reshape(width, outputs).t().contiguous(),
    }
    return F.linear, leaves, {"expanded": same, "spline": torch.t}


def gaussians(problem):
    """fast-kan's layer: Gaussians over normalized inputs, as many as there would be splines."""
    batch, inputs = problem["batch"], problem["inputs"]
    count = problem["intervals"] + DEGREE
    centers = torch.linspace(-1.0, 1.0, count, device=worker.device())
    width = 2.0 / (count - 1)
    spline, base, _ = parameters(problem)
    leaves = {
        "x": load("x", (batch, inputs), 1.1),
        "spline": spline.permute(2, 0, 1).flatten(1).contiguous(),
        "base": base.t().contiguous(),
        "gamma": load("gamma", (inputs,), 0.5) + 1.0,
        "beta": load("beta", (inputs,), 0.5),
    }

    def layer(x, spline, base, gamma, beta):
        z = F.layer_norm(x, (inputs,), gamma, beta, 1e-5).unsqueeze(-1)
        bases = torch.exp(-(((z - centers) / width) ** 2))
        return F.linear(F.silu(x), base) + F.linear(bases.flatten(1), spline)

    given = dict.fromkeys(leaves, same) | {"spline": torch.t, "base": torch.t}
    return layer, leaves, given


def pykan(problem):
    """pip's own layer, which lays out every edge's spline for every sample."""
    inputs, outputs, batch = problem["inputs"], problem["outputs"], problem["batch"]
    # With less it would swap, or the system would end it: so many of these are alive at a time.
    needed = 4 * batch * inputs * outputs * (6 if problem["pass"] == "forward" else 10)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory // 2:
        raise MemoryError(f"{needed >> 20} MiB for edges, beyond half of {memory >> 20}")

    from kan.KANLayer import KANLayer

    layer = KANLayer(inputs, outputs, num=problem["intervals"], k=DEGREE)
    spline, base, scaler = parameters(problem)
    with torch.no_grad():
        layer.grid.copy_(knots(problem).expand(inputs, -1))
        layer.coef.copy_(spline.permute(0, 2, 1))
        layer.scale_base.copy_(base)
        layer.scale_sp.copy_(scaler)
    leaves = {
        "x": load("x", (batch, inputs), 1.1),
        "spline": layer.coef,
        "base": layer.scale_base,
        "scaler": layer.scale_sp,
    }
    # The layer reads its own parameters, which are the leaves.
    given = dict.fromkeys(leaves, same) | {"spline": lambda of: of.permute(0, 2, 1)}
    return lambda x, *_: layer(x)[0], leaves, given


LAYERS = {
    "pytorch": expansion,
    "pytorch-compiled": compiled,
    "pytorch-compiled-tf32": compiled,
    "pytorch-compiled-bf16": bf16,
    "flashkan": flashkan,
    "flashkan-tf32": flashkan,
    "flashkan-bf16": flashkan_bf16,
    "pytorch-gaussians": gaussians,
    "pytorch-linear": linear,
    "pykan": pykan,
}

if __name__ == "__main__":
    worker.serve(prepare)
