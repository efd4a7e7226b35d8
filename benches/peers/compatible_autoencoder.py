"""Compares the compatible dual autoencoder with an implementation of its formulae in PyTorch.

    cargo xtask train configs/kan-autoencoder-compatible.toml --data DIR
    cargo xtask predict RUN image.png --out prediction.tif --window 0,0
    python benches/peers/compatible_autoencoder.py RUN image.png prediction.tif

The run has images of three channels and `data.scale` of percentiles from 0 to 100, and the
prediction one window. Loads the newest checkpoint of the run, computes the image in f64, and prints
the largest and the root mean square difference from the prediction, relative to the largest and the
root mean square value. Needs numpy, pillow, safetensors and torch.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from dual_autoencoder import Bam
from PIL import Image
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional as F

CORE_SPLINE, LAST_SPLINE = (3, 2), (2, 1)
"""Intervals and degree of the splines of both cores, and of those of the last layer."""


def bsplines(x, intervals, degree):
    """The values of all B-splines on [-1, 1], by the recursion of Cox and de Boor."""
    step = 2 / intervals
    knots = torch.arange(-degree, intervals + degree + 1, dtype=x.dtype) * step - 1
    x = x.unsqueeze(-1)
    values = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    for order in range(1, degree + 1):
        rising = (x - knots[: -order - 1]) / (order * step)
        falling = (knots[order + 1 :] - x) / (order * step)
        values = rising * values[..., :-1] + falling * values[..., 1:]
    return values


class KanConv(nn.Module):
    """Windows as rows, then a layer of splines for each input and output."""

    def __init__(self, inputs, outputs, kernel, spline):
        super().__init__()
        each, (intervals, degree) = inputs * kernel**2, spline
        self.kernel, self.spline_shape = kernel, spline
        self.base = nn.Parameter(torch.empty(each, outputs))
        self.scaler = nn.Parameter(torch.empty(each, outputs))
        self.spline = nn.Parameter(torch.empty(each, intervals + degree, outputs))

    def forward(self, x):
        samples, _, height, width = x.shape
        rows = F.unfold(x, self.kernel, padding=self.kernel // 2).transpose(1, 2)
        values = bsplines(rows, *self.spline_shape)
        y = F.silu(rows) @ self.base
        y = y + torch.einsum("npik,iko->npo", values, self.spline * self.scaler.unsqueeze(1))
        return y.transpose(1, 2).reshape(samples, -1, height, width)


class Block(nn.Sequential):
    """A convolution or a transposed one, batch norm and ELU."""

    def __init__(self, inputs, outputs, stride=2, is_up=False):
        conv = (
            nn.ConvTranspose2d(inputs, outputs, 3, 2, 1, output_padding=1)
            if is_up
            else nn.Conv2d(inputs, outputs, 3, stride, 1)
        )
        super().__init__()
        self.conv, self.norm = conv, nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.elu(self.norm(self.conv(x)))


class Compatible(nn.Module):
    def __init__(self, channels, widths, latent):
        super().__init__()
        wide, middle, narrow = widths

        def up(inputs, outputs):
            return Block(inputs, outputs, is_up=True)

        def core():
            return KanConv(narrow, narrow, 3, CORE_SPLINE)

        # Without the dash, one name would be that of a method.
        named = {
            "stem": Block(channels, wide),
            "encoder-to_middle": Block(wide, middle),
            "encoder-to_narrow": Block(middle, narrow),
            "encoder-core-kan": core(),
            "encoder-core_norm": nn.BatchNorm2d(narrow),
            "encoder-from_narrow": up(narrow, middle),
            "encoder-from_middle": up(middle, wide),
            "bottleneck-halve": Block(wide, wide),
            "bottleneck-wide_attention-bam": Bam(wide),
            "bottleneck-to_latent": Block(wide, latent),
            "bottleneck-latent_attention-bam": Bam(latent),
            "bottleneck-from_latent": up(latent, middle),
            "double": up(middle, middle),
            "decoder-to_middle": Block(middle, middle),
            "decoder-to_narrow": Block(middle, narrow),
            "decoder-core-kan": core(),
            "decoder-core_norm": nn.BatchNorm2d(narrow),
            "decoder-from_narrow": up(narrow, middle),
            "decoder-from_middle": up(middle, wide),
            "to_image_size": up(wide, wide),
            "to_channels": Block(wide, channels, stride=1),
            "last-kan": KanConv(channels, channels, 1, LAST_SPLINE),
        }
        self.parts = nn.ModuleDict({f"-{name}": part for name, part in named.items()})

    def forward(self, x):
        def run(x, *names):
            for name in names:
                x = self.parts[f"-{name}"](x)
            return x

        wide = run(x, "stem")
        middle = run(wide, "encoder-to_middle")
        x = run(middle, "encoder-to_narrow", "encoder-core-kan", "encoder-core_norm")
        x = run(run(x, "encoder-from_narrow") + middle, "encoder-from_middle") + wide
        x = run(x, "bottleneck-halve", "bottleneck-wide_attention-bam", "bottleneck-to_latent")
        x = run(x, "bottleneck-latent_attention-bam", "bottleneck-from_latent", "double")
        x = run(x, "decoder-to_middle", "decoder-to_narrow", "decoder-core-kan")
        x = run(x, "decoder-core_norm", "decoder-from_narrow", "decoder-from_middle")
        return run(x, "to_image_size", "to_channels", "last-kan")


def load(tensors):
    """The network of a checkpoint's tensors; each must have a place."""
    sides = {name: tensor.shape for name, tensor in tensors.items()}
    blocks = ["stem", "encoder.to_middle", "encoder.to_narrow"]
    widths = [sides[f"{block}.conv.weight"][0] for block in blocks]
    latent = sides["bottleneck.to_latent.conv.weight"][0]
    network = Compatible(sides["stem.conv.weight"][1], widths, latent).double()
    state = {}
    for name, tensor in tensors.items():
        tensor = torch.from_numpy(tensor).double()
        if name.endswith((".squeeze.weight", ".expand.weight")):
            tensor = tensor.T
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        name = f".{name}"
        part = max((p for p in network.parts if name.startswith(p.replace("-", ".") + ".")), key=len)
        state[f"parts.{part}{name[len(part):]}"] = tensor
    missing, unexpected = network.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        sys.exit(f"not a compatible autoencoder: {missing} are missing, {unexpected} too many")
    return network.eval()


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: compatible_autoencoder.py RUN IMAGE PREDICTION")
    run, image, predicted = map(Path, sys.argv[1:])
    steps = (run / "checkpoints").glob("step-*/model.safetensors")
    network = load(load_file(max(steps, key=lambda path: int(path.parent.name.split("-")[1]))))
    learned = sum(parameter.numel() for parameter in network.parameters())
    pixels = np.asarray(Image.open(image).convert("RGB")).astype(np.float64).transpose(2, 0, 1)
    low, high = pixels.min((1, 2), keepdims=True), pixels.max((1, 2), keepdims=True)
    span = np.where(high > low, high - low, 1.0)
    scaled = torch.from_numpy((pixels - low) / span).unsqueeze(0)
    with torch.no_grad():
        right = network(scaled)[0].numpy()
    planes = Image.open(predicted)
    given = []
    for page in range(planes.n_frames):
        planes.seek(page)
        given.append(np.asarray(planes, dtype=np.float64))
    given = np.stack(given)
    if given.shape != right.shape:
        sys.exit(f"the prediction has the shape {given.shape}, the image {right.shape}")
    off = np.abs(given - right)
    mean = np.sqrt((off**2).mean() / (right**2).mean())
    found = {"parameters": learned, "largest": off.max() / np.abs(right).max(), "mean": mean}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
