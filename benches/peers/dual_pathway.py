"""The dual-pathway network in PyTorch, its parameters named as in a record of ours."""

import numpy as np
import torch
from torch import nn

import formula

LUMA = (0.2126, 0.7152, 0.0722)


class ConvNorm(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = ConvNorm(inputs, outputs, 3, stride)
        self.second = ConvNorm(outputs, outputs, 3, 1)
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else ConvNorm(inputs, outputs, 1, stride)

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.second(torch.relu(self.first(x))) + shortcut)


class Blend(nn.Module):
    def __init__(self, has_stream):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([0.5, 0.5, 0.0] if has_stream else [0.5, 0.5]))

    def forward(self, color, brightness, stream):
        weights = torch.softmax(self.logits, 0)
        both = color * weights[0] + brightness * weights[1]
        return both if stream is None else both + stream * weights[2]


class Gate(nn.Module):
    def __init__(self, channels, has_stream):
        super().__init__()
        self.blend = Blend(has_stream)
        self.mix = ConvNorm(2 * channels, channels, 1, 1)
        self.project = ConvNorm(channels, channels, 1, 1)

    def forward(self, color, brightness, stream):
        both = torch.cat([color, brightness], 1)
        nonlinear = self.project(torch.relu(self.mix(both)))
        return self.blend(color, brightness, stream) + nonlinear


class PooledGate(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.blend = Blend(True)
        self.mix = nn.Linear(2 * channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        self.project = nn.Linear(channels, channels, bias=False)

    def forward(self, color, brightness, stream):
        both = torch.cat([color, brightness], 1)
        nonlinear = self.project(torch.relu(self.norm(self.mix(both))))
        return self.blend(color, brightness, stream) + nonlinear


class Carry(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.project = ConvNorm(inputs, outputs, 3, stride)

    def forward(self, stream):
        return self.project(torch.relu(stream))


class Stage(nn.Module):
    def __init__(self, inputs, outputs, stride, has_stream):
        super().__init__()
        self.color = nn.ModuleList([Residual(inputs, outputs, stride)])
        self.brightness = nn.ModuleList([Residual(inputs, outputs, stride)])
        self.carry = Carry(inputs, outputs, stride) if has_stream else None
        self.gate = Gate(outputs, has_stream)

    def forward(self, color, brightness, stream):
        for block in self.color:
            color = block(color)
        for block in self.brightness:
            brightness = block(brightness)
        if self.carry is not None:
            stream = self.carry(stream)
        return color, brightness, self.gate(color, brightness, stream)


class Classifier(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.hidden = nn.Linear(features, features // 2)
        self.output = nn.Linear(features // 2, classes)

    def forward(self, x):
        return self.output(torch.relu(self.hidden(x)))


class DualPathway(nn.Module):
    def __init__(self, channels, stem_stride, classes, side):
        super().__init__()
        self.color_stem = ConvNorm(3, channels, 3, stem_stride)
        self.brightness_stem = ConvNorm(1, channels, 3, stem_stride)
        self.stages = nn.ModuleList(
            [Stage(channels, channels, 1, False), Stage(channels, 2 * channels, 2, True)]
        )
        self.gate = PooledGate(2 * channels)
        self.classifier = Classifier(2 * channels, classes)
        self.register_buffer("luma", torch.tensor(LUMA).reshape(1, 3, 1, 1), persistent=False)

    def forward(self, rgb):
        brightness = (rgb * self.luma).sum(1, keepdim=True)
        color = torch.relu(self.color_stem(rgb))
        brightness = torch.relu(self.brightness_stem(brightness))
        stream = None
        for stage in self.stages:
            color, brightness, stream = stage(color, brightness, stream)
        pooled = [value.mean((2, 3)) for value in (color, brightness, stream)]
        return self.classifier(self.gate(*pooled))


# Names that differ between PyTorch and our records.
RECORD_NAMES = {"norm.weight": "norm.gamma", "norm.bias": "norm.beta"}


def path(name):
    """The path of a parameter in a record of ours."""
    for torchs, ours in RECORD_NAMES.items():
        if name.endswith("." + torchs):
            return name[: -len(torchs)] + ours
    return name


def as_record(value):
    """A parameter as a record holds it: linear weights are [inputs, outputs] there."""
    return value.detach().t() if value.dim() == 2 else value.detach()


def as_parameter(name, parameter, make):
    """What `make(path, shape in a record)` returns, in the shape and layout of a parameter."""
    made = torch.from_numpy(make(path(name), tuple(as_record(parameter).shape)))
    made = made.t() if made.dim() == 2 else made
    return torch.empty_like(parameter.detach()).copy_(made)


def by_formula(network):
    """The network with the weights that benches/src/network.rs gives it."""
    model = DualPathway(**network)

    def weight(path, shape):
        fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return formula.tensor(path, shape, formula.weight_scale(fan_in))

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                parameter.copy_(as_parameter(name, parameter, weight))
            elif name.startswith("classifier.") and name.endswith(".bias"):
                parameter.zero_()
    return model


def in_evaluation(network):
    """The network as after a training, with the values of benches/src/network.rs."""
    model = by_formula(network).eval()
    with torch.no_grad():
        for name, module in model.named_modules():
            for part, value, center, spread in trained_parts(module):
                drawn = formula.tensor(f"{name}.{part}", value.shape, spread) + np.float32(center)
                value.copy_(torch.from_numpy(drawn))
    return model


def trained_parts(module):
    """What a training sets in a norm or a blend: its name in a record, and where values lie."""
    if isinstance(module, Blend):
        return [("logits", module.logits, 0, 1.0)]
    if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
        return [
            ("gamma", module.weight, 1, 0.25),
            ("beta", module.bias, 0, 0.25),
            ("running_mean", module.running_mean, 0, 0.25),
            ("running_var", module.running_var, 1, 0.25),
        ]
    return []
