"""Compares models that onnxruntime has quantized with the same files run by this crate.

    cargo build --release -p updraft-quant --example run_onnx
    python crates/quant/tests/import_answers.py target/release/examples/run_onnx FOLDER

Networks in PyTorch with seeded weights, convolutional ones, a perceptron and vision transformers,
whose last layer is fitted to ten classes, are exported to ONNX, quantized by `quantize_static` in
QDQ form with uint8 and with int8 activations, and run by both on one thread. Fails where fewer
than 99.5 % of the greatest answers are the same, or the signal to difference is below 30 dB. In a
deep network codes that differ by one add up:
onnxruntime's own optimized kernels have 31 to 37 dB to its answers without optimizations.
Answers are compared with the latter: on processors without VNNI, the optimized kernels saturate
sums of two products in 16 bits. Needs onnxruntime, onnx, torch and numpy; no test of the
workspace does.
"""

import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn

SAMPLES = 2000
BATCH = 32
LEAST_SHARE = 0.995
LEAST_DECIBELS = 30.0


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        short = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]
        self.short = nn.Identity() if same else nn.Sequential(*short)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        hidden = 4 * inputs
        self.is_same = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.body(x) if self.is_same else self.body(x)


def stem(outputs, activation):
    convolution = nn.Conv2d(3, outputs, 3, 1, 1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), activation]


def resnet():
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    blocks = [Residual(*width) for width in widths]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(*stem(64, nn.ReLU()), *blocks, *head)


def mobilenet():
    widths = [(32, 32, 1), (32, 48, 2), (48, 48, 1), (48, 64, 2), (64, 64, 1)]
    blocks = [Inverted(*width) for width in widths]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*stem(32, nn.ReLU6()), *blocks, *head)


class Attention(nn.Module):
    """Scores, softmax and their product with the values, head by head."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        shares = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        return self.joined((shares @ v).transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        wide = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
        self.perceptron = nn.Sequential(nn.LayerNorm(width), *wide)

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Tokens(nn.Module):
    """Patches of an image behind a class token, with positions."""

    def __init__(self, width, patch, side):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.5 * torch.randn(1, (side // patch) ** 2 + 1, width))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions


class ClassToken(nn.Module):
    def forward(self, x):
        return x[:, 0]


def transformer(block):
    width = 192
    blocks = [block(width, 3) for _ in range(4)]
    head = [nn.LayerNorm(width), ClassToken(), nn.Linear(width, 10)]
    return nn.Sequential(Tokens(width, 4, 32), *blocks, *head)


def encoder(width, heads):
    """PyTorch's own block, whose heads are joined with the batch."""
    return nn.TransformerEncoderLayer(
        width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )


def perceptron():
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.LeakyReLU(0.1)]
    return nn.Sequential(*layers, nn.Linear(512, 10))


@torch.no_grad()
def settle(module, x, labels):
    """Batch norms with the statistics of some samples, and a last layer that fits their classes."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
    x = torch.from_numpy(x)
    module.train()
    for batch in x.split(64):
        module(batch)
    module.eval()
    features = torch.cat([module[:-1](batch) for batch in x.split(64)]).double()
    mean = features.mean(0)
    centered = features - mean
    wanted = torch.nn.functional.one_hot(torch.from_numpy(labels), 10).double()
    gram = centered.T @ centered
    gram += 1e-2 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weight = torch.linalg.solve(gram, centered.T @ (wanted - wanted.mean(0))).T
    module[-1].weight.copy_(weight)
    module[-1].bias.copy_(wanted.mean(0) - weight @ mean)


class Reader(CalibrationDataReader):
    def __init__(self, x):
        self.batches = iter([{"x": part} for part in np.split(x, 8)])

    def get_next(self):
        return next(self.batches, None)


def numbers(seed, count, shape):
    """Samples of ten classes, each a pattern and noise, and their labels."""
    patterns = np.random.default_rng(0).standard_normal((10, *shape))
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 10, count)
    x = patterns[labels] + 0.5 * chance.standard_normal((count, *shape))
    return x.astype("<f4"), labels


def decibels(right, given):
    noise = max(float(np.sum((given - right) ** 2)), 1e-300)
    return 10 * np.log10(np.sum(right**2) / noise)


def session(path, optimizations):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, optimizations)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def median_ms(run):
    times = []
    for _ in range(21):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def compare(program, folder, name, module, shape, activations):
    float32 = folder / f"{name}.onnx"
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            torch.zeros(2, *shape),
            str(float32),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    prepared = folder / f"{name}.prepared.onnx"
    # onnxruntime's inference of shapes fails on the shapes that PyTorch's encoder computes.
    is_encoder = name == "encoder"
    quant_pre_process(str(float32), str(prepared), skip_symbolic_shape=is_encoder)
    path = folder / f"{name}.{activations.name}.onnx"
    quantize_static(
        str(prepared),
        str(path),
        Reader(numbers(1, 256, shape)[0]),
        quant_format=QuantFormat.QDQ,
        activation_type=activations,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    x, _ = numbers(2, SAMPLES, shape)
    x.tofile(folder / "x.f32")
    command = [program, path, folder / "x.f32", folder / "y.f32", str(BATCH)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    own_ms = float(printed.splitlines()[-1].split()[1])
    in_f32 = [line for line in printed.splitlines()[:-1] if ": f32" in line]
    own = np.fromfile(folder / "y.f32", "<f4").reshape(SAMPLES, -1).astype(np.float64)
    plain = session(path, "ORT_DISABLE_ALL")
    parts = np.split(x, 20)
    given = np.concatenate([plain.run(None, {"x": part})[0] for part in parts]).astype(np.float64)
    fast = session(path, "ORT_ENABLE_ALL")
    optimized = np.concatenate([fast.run(None, {"x": part})[0] for part in parts])
    peer_ms = median_ms(lambda: fast.run(None, {"x": x[:BATCH]}))
    share = float(np.mean(given.argmax(1) == own.argmax(1)))
    difference, of_peer = decibels(given, own), decibels(given, optimized)
    classes = len(np.unique(own.argmax(1)))
    print(
        f"{name}, {activations.name}: {100 * share:.2f} % of {SAMPLES} answers agree over {classes} "
        f"classes, signal to difference {difference:.1f} dB (onnxruntime's optimizations: "
        f"{of_peer:.1f} dB), batch of {BATCH}: {own_ms:.2f} ms, onnxruntime "
        f"{onnxruntime.__version__} {peer_ms:.2f} ms; in f32: {in_f32 or 'no layer'}"
    )
    # Attention amplifies roundings: not farther off than onnxruntime from itself.
    return share >= LEAST_SHARE and difference >= min(LEAST_DECIBELS, of_peer)


def main(program, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    image = (3, 32, 32)
    networks = [("resnet", resnet(), image), ("mobilenet", mobilenet(), image)]
    networks.append(("perceptron", perceptron(), (256,)))
    networks.append(("transformer", transformer(Block), image))
    networks.append(("encoder", transformer(encoder), image))
    good = True
    for name, module, shape in networks:
        settle(module, *numbers(3, 1024, shape))
        for activations in (QuantType.QUInt8, QuantType.QInt8):
            good &= compare(program, folder, name, module, shape, activations)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
