"""The dual autoencoder in PyTorch, its parameters named as in a record of ours.

`doubled` is `double` there: PyTorch's modules have a method of that name.
"""

import torch
import torch.nn.functional as F
from torch import nn

import formula
import worker
from volumes import Layout, import_all, network_pass



class ConvNorm(nn.Module):
    """A convolution, batch norm and ELU; with `up` a transposed one that doubles the sides."""

    def __init__(self, inputs, outputs, stride=1, up=False, activation=F.elu):
        super().__init__()
        if up:
            self.conv = nn.ConvTranspose2d(inputs, outputs, 3, 2, 1, 1, bias=False)
        else:
            self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.activation = activation

    def forward(self, x):
        return self.activation(self.norm(self.conv(x)))


def identity(x):
    return x


class SplineConv(nn.Module):
    """Splines on every tap: the bases as channels of a convolution, as torch-conv-kan computes it."""

    def __init__(self, channels, kernel, intervals, degree):
        super().__init__()
        self.bases, self.degree, self.padding = intervals + degree, degree, kernel // 2
        self.spline = nn.Parameter(torch.empty(channels, channels * self.bases, kernel, kernel))
        self.base = nn.Parameter(torch.empty(channels, channels, kernel, kernel))
        self.scaler = nn.Parameter(torch.empty(channels, channels, kernel, kernel))
        step = 2.0 / intervals
        knots = torch.arange(-degree, intervals + degree + 1) * step - 1.0
        self.register_buffer("knots", knots, persistent=False)

    def basis_values(self, x):
        t, x = self.knots.view(1, 1, -1, 1, 1), x.unsqueeze(2)
        values = ((x >= t[:, :, :-1]) & (x < t[:, :, 1:])).to(x.dtype)
        for p in range(1, self.degree + 1):
            rising = (x - t[:, :, : -(p + 1)]) / (t[:, :, p:-1] - t[:, :, : -(p + 1)])
            falling = (t[:, :, p + 1 :] - x) / (t[:, :, p + 1 :] - t[:, :, 1:-p])
            values = rising * values[:, :, :-1] + falling * values[:, :, 1:]
        return values.flatten(1, 2)

    def forward(self, x):
        x = torch.tanh(x)
        # Zeros at the border are inputs, so they have values of basis functions.
        padded = F.pad(x, [self.padding] * 4)
        spline = self.spline * self.scaler.repeat_interleave(self.bases, 1)
        return F.conv2d(F.silu(padded), self.base) + F.conv2d(self.basis_values(padded), spline)


class Core(nn.Module):
    def __init__(self, channels, kernel, intervals, degree):
        super().__init__()
        self.kan = SplineConv(channels, kernel, intervals, degree)

    def forward(self, x):
        return self.kan(x)


class Bam(nn.Module):
    def __init__(self, channels):
        super().__init__()
        hidden = max(channels // 16, 1)
        self.squeeze = nn.Linear(channels, hidden)
        self.expand = nn.Linear(hidden, channels)
        self.channel_norm = nn.BatchNorm1d(channels)
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.dilated = nn.ModuleList([Dilated(hidden), Dilated(hidden)])
        self.collapse = nn.Conv2d(hidden, 1, 1)
        self.position_norm = nn.BatchNorm2d(1)

    def forward(self, x):
        hidden = torch.relu(self.squeeze(x.mean((2, 3))))
        of_channels = self.channel_norm(self.expand(hidden))[:, :, None, None]
        seen = self.reduce(x)
        for layer in self.dilated:
            seen = layer(seen)
        return x + x * torch.sigmoid(of_channels + self.position_norm(self.collapse(seen)))


class Dilated(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=4, dilation=4)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bam = Bam(channels)

    def forward(self, x):
        return self.bam(x)


class Hourglass(nn.Module):
    def __init__(self, inputs, widths):
        super().__init__()
        wide, middle, narrow = widths
        self.to_middle = ConvNorm(inputs, middle, 2)
        self.to_narrow = ConvNorm(middle, narrow, 2, activation=identity)
        self.core = Core(narrow, 3, 3, 2)
        self.core_norm = nn.BatchNorm2d(narrow)
        self.from_narrow = ConvNorm(narrow, middle, up=True)
        self.from_middle = ConvNorm(middle, wide, up=True)

    def narrow(self, x):
        middle = self.to_middle(x)
        return middle, self.to_narrow(middle)

    def widen(self, narrow, at_middle, at_wide):
        middle = self.from_narrow(self.core_norm(self.core(narrow)))
        return self.from_middle(middle + at_middle) + at_wide


class Bottleneck(nn.Module):
    def __init__(self, widths, latent):
        super().__init__()
        wide, middle, _ = widths
        self.halve = ConvNorm(wide, wide, 2)
        self.wide_attention = Attention(wide)
        self.to_latent = ConvNorm(wide, latent, 2)
        self.latent_attention = Attention(latent)
        self.from_latent = ConvNorm(latent, middle, up=True)

    def forward(self, x):
        x = self.wide_attention(self.halve(x))
        return self.from_latent(self.latent_attention(self.to_latent(x)))


class DualAutoencoder(nn.Module):
    def __init__(self, widths, latent):
        super().__init__()
        wide, middle, _ = widths
        self.stem = ConvNorm(3, wide, 2)
        self.encoder = Hourglass(wide, widths)
        self.bottleneck = Bottleneck(widths, latent)
        self.doubled = ConvNorm(middle, middle, up=True)
        self.decoder = Hourglass(middle, widths)
        self.to_image_size = ConvNorm(wide, wide, up=True)
        self.to_channels = ConvNorm(wide, 3, activation=identity)
        self.last = Core(3, 1, 2, 1)

    def forward(self, images):
        wide = self.stem(images)
        middle, narrow = self.encoder.narrow(wide)
        latent = self.bottleneck(self.encoder.widen(narrow, middle, wide))
        _, narrow = self.decoder.narrow(self.doubled(latent))
        pixels = self.to_image_size(self.decoder.widen(narrow, middle, wide))
        return torch.sigmoid(self.last(self.to_channels(pixels)))


def by_formula(widths, latent):
    """The network with the weights that benches/src/network.rs gives it."""
    model = DualAutoencoder(widths, latent)
    with torch.no_grad():
        for module in model.modules():
            for values in getattr(module, "bias", None), getattr(module, "scaler", None):
                if values is not None:
                    values.zero_()
        for name, value in model.named_parameters():
            if value.dim() > 1:
                set_weight(name.replace("doubled.", "double."), value)
    return model


def set_weight(path, value):
    if path.endswith(".kan.spline"):
        # In a record: [inputs * taps, bases, outputs].
        outputs, expanded, kernel, _ = value.shape
        taps = kernel * kernel
        bases = expanded // outputs
        drawn = torch.from_numpy(formula.tensor(path, (outputs, taps, bases, outputs), 1.0))
        value.copy_(drawn.permute(3, 0, 2, 1).reshape(value.shape))
    elif path.endswith(".kan.base"):
        # In a record: [inputs * taps, outputs].
        outputs, inputs, kernel, _ = value.shape
        fan_in = inputs * kernel * kernel
        drawn = formula.tensor(path, (fan_in, outputs), formula.weight_scale(fan_in))
        value.copy_(torch.from_numpy(drawn).t().reshape(value.shape))
    elif path.endswith(".kan.scaler"):
        value.fill_(value[0].numel() ** -0.5)
    elif value.dim() == 2:
        outputs, inputs = value.shape
        drawn = formula.tensor(path, (inputs, outputs), formula.weight_scale(inputs))
        value.copy_(torch.from_numpy(drawn).t())
    else:
        scale = formula.weight_scale(value[0].numel())
        value.copy_(torch.from_numpy(formula.tensor(path, value.shape, scale)))


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    layout = Layout(strategy.endswith("-channels-last"), strategy.endswith("-compiled"))
    once, outputs = autoencoder(problem, layout)
    return once, outputs, f"PyTorch {torch.__version__}, {threads} threads"


def autoencoder(problem, layout):
    model = by_formula(problem["widths"], problem["latent"]).to(memory_format=layout.format(4))
    images = layout.load("images", (problem["batch"], 3, problem["side"], problem["side"]), 0.5)
    images += 0.5
    return network_pass(model, images, images, problem["pass"] == "forward", layout)


if __name__ == "__main__":
    import_all()
    worker.serve(prepare)
