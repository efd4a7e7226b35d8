"""U-Nets in PyTorch: MONAI's DynUNet and a plain one, their parameters in the order of ours."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CONV = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORM = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
MAX_POOL = {2: F.max_pool2d, 3: F.max_pool3d}
LINEAR = {2: "bilinear", 3: "trilinear"}
NORMS = {
    "instance": ("INSTANCE", {"affine": True}),
    "group": ("GROUP", {"num_groups": 2, "affine": True}),
    "batch": ("BATCH", {"affine": True}),
}


def dynunet(dims, filters, channels=(1, 2), residual=True, norm="instance"):
    """MONAI's DynUNet of the same shape as `UNetConfig::new`."""
    from monai.networks.nets import DynUNet

    levels = len(filters)
    return DynUNet(
        spatial_dims=dims,
        in_channels=channels[0],
        out_channels=channels[1],
        kernel_size=[3] * levels,
        strides=[1] + [2] * (levels - 1),
        upsample_kernel_size=[2] * (levels - 1),
        filters=filters,
        norm_name=NORMS[norm],
        res_block=residual,
    )


class Block(nn.Module):
    """Two 3-wide convolutions without bias, each with batch norm and ReLU."""

    def __init__(self, dims, inputs, outputs):
        super().__init__()
        self.conv1 = CONV[dims](inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = BATCH_NORM[dims](outputs)
        self.conv2 = CONV[dims](outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = BATCH_NORM[dims](outputs)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(x)))


class PlainUNet(nn.Module):
    """Blocks with max pooling on the way down and transposed convolutions with bias on the way up.

    With `linear`, a 1-wide convolution and linear interpolation take the place of each transposed
    convolution. PyTorch's own initial values.
    """

    def __init__(self, dims, filters, channels=(1, 1), linear=False):
        super().__init__()
        self.dims, self.linear = dims, linear
        inputs = [channels[0], *filters]
        self.encoder = nn.ModuleList([Block(dims, a, b) for a, b in zip(inputs, filters)])
        steps = list(zip(filters, filters[1:]))[::-1]
        if linear:
            self.up = nn.ModuleList([CONV[dims](coarse, fine, 1) for fine, coarse in steps])
        else:
            self.up = nn.ModuleList([TRANSPOSED[dims](coarse, fine, 2, 2) for fine, coarse in steps])
        self.decoder = nn.ModuleList([Block(dims, 2 * fine, fine) for fine, _ in steps])
        self.output = CONV[dims](filters[0], channels[1], 1)

    def forward(self, x):
        finer = []
        for level, block in enumerate(self.encoder):
            x = block(MAX_POOL[self.dims](x, 2) if level else x)
            finer.append(x)
        finer.pop()
        for up, block in zip(self.up, self.decoder):
            skip = finer.pop()
            x = up(x)
            if self.linear:
                x = F.interpolate(x, skip.shape[2:], mode=LINEAR[self.dims], align_corners=False)
            x = block(torch.cat([x, skip], 1))
        return self.output(x)


def layers(block):
    """The convolutions and normalizations of a block, in the order of our records."""
    for number in (1, 2, 3):
        conv, norm = getattr(block, f"conv{number}", None), getattr(block, f"norm{number}", None)
        if conv is not None:
            yield getattr(conv, "conv", conv)
            yield norm


def modules(model):
    """The layers with parameters, in the order of our records: encoder, decoder, output."""
    if isinstance(model, PlainUNet):
        for block in model.encoder:
            yield from layers(block)
        for up, block in zip(model.up, model.decoder):
            yield up
            yield from layers(block)
        yield model.output
        return
    for block in (model.input_block, *model.downsamples, model.bottleneck):
        yield from layers(block)
    for level in model.upsamples:
        yield level.transp_conv.conv
        yield from layers(level.conv_block)
    yield model.output_block.conv.conv


def parameters(model):
    """Every trained parameter with its name, in the order of our records."""
    names = {id(value): name for name, value in model.named_parameters()}
    found = [
        (names[id(value)], value)
        for module in modules(model)
        for value in (module.weight, module.bias)
        if value is not None
    ]
    assert len(found) == len(names), "every parameter is listed once"
    return found


def parameter_count(model):
    return sum(value.numel() for _, value in parameters(model))


def fan(shape):
    """The product of all axes of a weight but the first."""
    return math.prod(shape[1:])
