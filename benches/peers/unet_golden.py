"""Outputs of MONAI's DynUNet and of the plain U-Net with parameters by formula, as a Rust table.

Tensor number k (from 0, trained parameters only, in the order of our records: encoder blocks from
the finest level, decoder levels from the coarsest, output; in a block first convolution, its
normalization's scale and shift, second convolution, ..., shortcut; weight before bias) holds

    value(i) = c sin(0.7 i i + 0.3 k)

with i the flat index, and c = 2 / sqrt(fan), fan the product of all axes but the first, or c = 0.5
for a vector; the scale of a normalization is 1 + value(i). Running statistics of batch norm, with k
the number of its scale: mean(i) = 0.2 sin(0.7 i i + 0.3 k), variance(i) = 1 + 0.5 cos(0.7 i i + 0.3 k).
The input is x(i) = sin(0.37 i) + 0.5 cos(0.11 i). All are computed in f64 and rounded to f32; the
networks compute in f64, in eval mode.
"""

import math

import numpy as np
import torch
from torch import nn

import unet

SHAPES = {2: (2, 1, 16, 12), 3: (2, 1, 8, 8, 12)}


def angle(count, k):
    index = np.arange(count, dtype=np.float64)
    return 0.7 * index * index + 0.3 * k


def rounded(values, shape):
    return torch.from_numpy(values.astype(np.float32).astype(np.float64)).reshape(shape)


def is_norm(module):
    return not hasattr(module, "kernel_size")


def fill(model):
    k = 0
    with torch.no_grad():
        for module in unet.modules(model):
            if getattr(module, "running_mean", None) is not None:
                angles = angle(module.num_features, k)
                module.running_mean.copy_(rounded(0.2 * np.sin(angles), -1))
                module.running_var.copy_(rounded(1.0 + 0.5 * np.cos(angles), -1))
            for name in ("weight", "bias"):
                value = getattr(module, name)
                if value is None:
                    continue
                scale = 2.0 / math.sqrt(unet.fan(value.shape)) if value.dim() > 1 else 0.5
                values = np.sin(angle(value.numel(), k)) * scale
                if is_norm(module) and name == "weight":
                    values = 1.0 + values
                value.copy_(rounded(values, value.shape))
                k += 1
    return model


def digest(model, dims):
    model = fill(model.double()).eval()
    shape = SHAPES[dims]
    index = np.arange(math.prod(shape), dtype=np.float64)
    x = rounded(np.sin(0.37 * index) + 0.5 * np.cos(0.11 * index), shape)
    with torch.no_grad():
        y = model(x)
    flat = y.flatten()
    spread = flat[:: flat.numel() // 8]
    values = ", ".join(f"{value:.9}" for value in spread.tolist())
    # The deviation of all numbers, with their count as the divisor.
    mean, std = flat.mean().item(), flat.std(unbiased=False).item()
    return tuple(y.shape), f"[{values}], {mean:.9}, {std:.9}"


def cases():
    filters = [4, 6, 8]
    for dims in (2, 3):
        for norm in ("instance", "group", "batch"):
            for residual in (True, False):
                about = f"DynUNet, {'residual' if residual else 'plain'} blocks, {norm} norm"
                yield dims, about, unet.dynunet(dims, filters, residual=residual, norm=norm)
        yield dims, "plain U-Net, max pooling", unet.PlainUNet(dims, filters, (1, 2))
        linear = unet.PlainUNet(dims, filters, (1, 2), linear=True)
        yield dims, "plain U-Net, max pooling, linear up-sampling with bias", linear


if __name__ == "__main__":
    import monai

    torch.set_num_threads(1)
    print(__doc__)
    print(f"PyTorch {torch.__version__}, MONAI {monai.__version__}; filters 4, 6, 8; 1 channel in,")
    print(f"2 out; group norm has 2 groups. Input shapes {SHAPES}.\n")
    print("// values at the flat indices j n / 8 for j of 0 to 7 (n values), mean, standard deviation")
    for dims, about, model in cases():
        shape, row = digest(model, dims)
        print(f"// {dims}D, {about}, {unet.parameter_count(model)} parameters, output {shape}")
        print(f"({row}),")
    print("\nParameter counts, DynUNet, filters 16, 32, 64, 1 channel in, 2 out (residual, plain):")
    for dims in (2, 3):
        counts = [
            unet.parameter_count(unet.dynunet(dims, [16, 32, 64], residual=residual))
            for residual in (True, False)
        ]
        print(f"{dims}D: {counts[0]}, {counts[1]}; with 1 channel out:", [
            unet.parameter_count(unet.dynunet(dims, [16, 32, 64], (1, 1), residual))
            for residual in (True, False)
        ])
    print("\nParameter counts, plain U-Net with max pooling and transposed convolutions with bias:")
    for dims, filters in ((2, [8, 16, 32, 64]), (2, [16, 32, 64, 128]), (3, [6, 12, 24])):
        print(f"{dims}D, filters {filters}:", unet.parameter_count(unet.PlainUNet(dims, filters)))
    for dims, model in ((3, unet.dynunet(3, [4, 6, 8])), (2, unet.PlainUNet(2, [4, 6, 8], (1, 2)))):
        print(f"\nTensors in order, {dims}D, {type(model).__name__}, filters 4, 6, 8:")
        for number, (name, value) in enumerate(unet.parameters(model)):
            print(number, name, list(value.shape))
