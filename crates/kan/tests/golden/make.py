"""Makes the golden files beside it: weights as the original projects save them, and their outputs.

Run where these can be imported: torch 2.15.0, safetensors 0.8.0, scipy 1.17.1, pykan 0.2.8, and
`kan.py` of https://github.com/Blealtan/efficient-kan at commit 082a4da as `efficient_kan`, and
`fastkan.py` of https://github.com/ZiyaoLi/fast-kan at commit 01b59f7 as `fastkan`, of which the
tensors are saved; `tests/it/fast_kan.rs` has its formula.
Outputs are computed in f64 from weights that were rounded to f32.

`python make.py convolutions` makes `torch_conv_kan.json` alone, which needs nothing but torch: the
formula of `KANConvNDLayer` of https://github.com/IvanDrokin/torch-conv-kan at commit 7a0e83c before
its normalization, written anew.
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F

if sys.argv[1:] != ["convolutions"]:
    import efficient_kan
    import fastkan
    import kan as pykan
    from safetensors.torch import save_file
    from scipy.interpolate import BSpline

FOLDER = pathlib.Path(__file__).parent


def write(name, model, x):
    tensors = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
    save_file(tensors, FOLDER / f"{name}.safetensors")
    with torch.no_grad():
        y = model.double()(x.double())
    numbers = {"x": x.double().flatten().tolist(), "y": y.flatten().tolist()}
    (FOLDER / f"{name}.json").write_text(json.dumps(numbers) + "\n")


def inputs(rows, columns):
    """Inside the grid, on its knots, in the tapers and beyond them; exact in f32."""
    x = torch.randn(rows, columns) * 0.9
    x[0] = 0.0
    x[1] = 3.0
    x[2] = -1.5
    return x


def efficient():
    torch.manual_seed(1)
    model = efficient_kan.KAN([3, 4, 2], grid_size=5, spline_order=3, scale_noise=2.0)
    write("efficient_kan", model, inputs(24, 3))
    torch.manual_seed(2)
    layer = efficient_kan.KANLinear(
        2, 3, grid_size=4, spline_order=2, scale_noise=2.0,
        enable_standalone_scale_spline=False, grid_range=[-2, 1],
    )
    write("efficient_kan_layer", layer, inputs(24, 2))


def original():
    torch.manual_seed(3)
    model = pykan.KAN(
        width=[3, 4, 2], grid=5, k=3, seed=3, noise_scale=2.0, symbolic_enabled=False,
        auto_save=False, save_act=False,
    )
    with torch.no_grad():
        for layer in range(2):
            model.act_fun[layer].mask[0, 1] = 0.0
            for name in ("node", "subnode"):
                getattr(model, f"{name}_bias_{layer}").uniform_(-0.5, 0.5)
                getattr(model, f"{name}_scale_{layer}").uniform_(0.5, 1.5)
        x = inputs(200, 3)
        model(x)
        # Knots of each feature's own.
        model.act_fun[0].update_grid_from_samples(x)
    write("pykan", model, x[:24])
    multiplying = pykan.KAN(width=[2, [2, 1], 1], grid=3, k=3, auto_save=False)
    save_file(multiplying.state_dict(), FOLDER / "pykan_multiplying.safetensors")
    symbolic = pykan.KAN(width=[2, 1], grid=3, k=3, auto_save=False)
    symbolic.fix_symbolic(0, 0, 0, "sin", fit_params_bool=False)
    save_file(symbolic.state_dict(), FOLDER / "pykan_symbolic.safetensors")


def fast():
    torch.manual_seed(4)
    save_file(fastkan.FastKAN([2, 2], num_grids=3).state_dict(), FOLDER / "fast_kan.safetensors")


def bases():
    """Every basis over some knots by scipy, by the three rules outside the domain."""
    cases = []
    for degree in range(1, 5):
        even = [-1.0 + 0.5 * step for step in range(-degree, 5 + degree)]
        uneven = [knot + 0.125 * (index % 3) for index, knot in enumerate(even)]
        for knots in (even, uneven):
            count = len(knots) - degree - 1
            low, high = knots[0] - 0.5, knots[-1] + 0.5
            # Exact in f32.
            grid = [round((low + (high - low) * step / 24) * 256) / 256 for step in range(25)]
            x = sorted(set(grid + knots))
            rules = {"zero": [], "clamp": [], "extend": []}
            for basis in range(count):
                own = knots[basis : basis + degree + 2]
                element = BSpline.basis_element(own, extrapolate=False)
                # Half open, as a spline of degree 0 is.
                rules["zero"].append(
                    [float(element(at)) if own[0] <= at < own[-1] else 0.0 for at in x]
                )
                unit = [float(index == basis) for index in range(count)]
                spline = BSpline(knots, unit, degree, extrapolate=True)
                rules["extend"].append([float(spline(at)) for at in x])
                ends = knots[degree], knots[count]
                rules["clamp"].append([float(spline(min(max(at, ends[0]), ends[1]))) for at in x])
            cases.append({"degree": degree, "knots": knots, "x": x, "bases": rules})
    (FOLDER / "scipy_bases.json").write_text(json.dumps(cases) + "\n")


def splines(x, knots, degree):
    """Every basis of every pixel, a last axis, by the recursion of Cox and de Boor."""
    x = x.unsqueeze(-1)
    bases = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    for p in range(1, degree + 1):
        rising = (x - knots[: -(p + 1)]) / (knots[p:-1] - knots[: -(p + 1)])
        falling = (knots[p + 1 :] - x) / (knots[p + 1 :] - knots[1:-p])
        bases = rising * bases[..., :-1] + falling * bases[..., 1:]
    return bases


def convolutions():
    """Bases of all pixels as channels, then a convolution each for splines and base branch.

    Padding is done to the input before, where torch-conv-kan pads the bases with zeros: a spline has
    a value at 0. Weights are stored as ours, `[channels, taps, bases, outputs of a group]`.
    """
    cases = []
    # Axes, channels, groups; kernel, stride, padding, dilation; intervals and degree.
    kinds = {
        "plain": (2, (3, 4), 1, 3, 1, 0, 1, 5, 3),
        "padded": (2, (2, 3), 1, 3, 1, 1, 1, 5, 3),
        "strided groups": (2, (4, 6), 2, 3, 2, 1, 2, 4, 2),
        "one axis": (1, (2, 2), 1, 4, 3, 2, 1, 8, 3),
        "three axes": (3, (2, 2), 2, 2, 1, 1, 1, 3, 3),
    }
    for seed, (name, kind) in enumerate(kinds.items()):
        axes, channels, groups, kernel, stride, padding, dilation, intervals, degree = kind
        torch.manual_seed(seed)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
        inputs, outputs = channels[0] // groups, channels[1] // groups
        count = intervals + degree
        taps = kernel**axes
        shape = [7, 6, 5][:axes]
        # Few digits, exact in f32.
        short = lambda numbers: (numbers * 64).round().double() / 64
        x = short(torch.randn(2, channels[0], *shape) * 0.9)
        base = short(torch.randn(channels[0], taps, outputs))
        spline = short(torch.randn(channels[0], taps, count, outputs))
        knots = torch.arange(-degree, intervals + degree + 1).double() * (2.0 / intervals) - 1.0
        padded = F.pad(x, [padding] * (2 * axes))
        y = []
        for group in range(groups):
            own = slice(group * inputs, (group + 1) * inputs)
            of_base = base[own].permute(2, 0, 1).reshape(outputs, inputs, *[kernel] * axes)
            of_spline = spline[own].permute(3, 0, 2, 1).reshape(
                outputs, inputs * count, *[kernel] * axes
            )
            bases = splines(padded[:, own], knots, degree).moveaxis(-1, 2).flatten(1, 2)
            y.append(
                convolve(F.silu(padded[:, own]), of_base, stride=stride, dilation=dilation)
                + convolve(bases, of_spline, stride=stride, dilation=dilation)
            )
        y = torch.cat(y, 1)
        cases.append({
            "name": name, "shape": shape, "channels": channels, "groups": groups,
            "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
            "intervals": intervals, "degree": degree,
            "x": x.flatten().tolist(), "base": base.flatten().tolist(),
            "spline": spline.flatten().tolist(), "y": y.flatten().tolist(),
        })
    (FOLDER / "torch_conv_kan.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    convolutions()
    if sys.argv[1:] == ["convolutions"]:
        sys.exit()
    efficient()
    original()
    fast()
    bases()
