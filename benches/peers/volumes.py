"""Layers and networks of volumes in PyTorch and MONAI: contiguous, channels-last or compiled."""

import torch
import torch.nn.functional as F
from monai.inferers import sliding_window_inference

import formula
import unet
import worker

CONV_TRANSPOSE = {2: F.conv_transpose2d, 3: F.conv_transpose3d}
OVERLAP = 0.25


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    layout = Layout(strategy.endswith("-channels-last"), strategy.endswith("-compiled"))
    once, outputs = KINDS[problem["kind"]](problem, layout)
    return once, outputs, f"PyTorch {torch.__version__}, {threads} threads"


class Layout:
    """How tensors lie in memory, and whether what computes is compiled."""

    def __init__(self, is_last, is_compiled):
        self.is_last, self.is_compiled = is_last, is_compiled

    def format(self, dims):
        if not self.is_last:
            return torch.contiguous_format
        return torch.channels_last if dims == 4 else torch.channels_last_3d

    def load(self, name, shape, scale=1.0):
        value = torch.from_numpy(formula.tensor(name, shape, scale))
        return value.contiguous(memory_format=self.format(len(shape))) if len(shape) > 3 else value

    def compiled(self, function):
        return torch.compile(function) if self.is_compiled else function


def numbers(value):
    return value.detach().contiguous().double().numpy().ravel()


def passes(layer, leaves, g, is_forward, layout):
    """The layer of its leaves, by name, and their gradients for the loss sum(y g)."""
    values = tuple(leaves.values())
    layer = layout.compiled(layer)
    if is_forward:

        def once():
            with torch.no_grad():
                return layer(*values)

        return once, lambda: {"y": numbers(once())}
    for value in values:
        value.requires_grad_()

    def step():
        for value in values:
            value.grad = None
        y = layer(*values)
        (y * g).sum().backward()
        return y

    def outputs():
        y = step()
        return {"y": numbers(y)} | {"d" + name: numbers(v.grad) for name, v in leaves.items()}

    return step, outputs


def conv3d(problem, layout):
    (inputs, outputs), kernel, batch = problem["channels"], problem["kernel"], problem["batch"]
    stride, padding, sides = problem["stride"], kernel // 2, problem["sides"]
    out = [(side + 2 * padding - kernel) // stride + 1 for side in sides]
    scale = formula.weight_scale(inputs * kernel**3)
    x = layout.load("x", (batch, inputs, *sides))
    w = layout.load("w", (outputs, inputs, kernel, kernel, kernel), scale)
    g = layout.load("g", (batch, outputs, *out))
    if problem["pass"] in ("forward", "training"):

        def layer(x, w):
            return F.conv3d(x, w, stride=stride, padding=padding)

        return passes(layer, {"x": x, "w": w}, g, problem["pass"] == "forward", layout)
    of_input = problem["pass"] == "input_gradient"

    def gradient():
        steps = ([stride] * 3, [padding] * 3, [1] * 3, False, [0] * 3, 1)
        wanted = (of_input, not of_input, False)
        return torch.ops.aten.convolution_backward(g, x, w, None, *steps, wanted)

    name = "dx" if of_input else "dw"
    return gradient, lambda: {name: numbers(gradient()[0 if of_input else 1])}


def volume_layer(problem, layout):
    kind, axes, side = problem["layer"], problem["axes"], problem["side"]
    batch, (inputs, outputs) = problem["batch"], problem["channels"]
    out = {"conv_transpose": 2 * side, "resize": 2 * side, "instance_norm": side, "group_norm": side}.get(kind, side // 2)
    leaves = {"x": layout.load("x", (batch, inputs, *[side] * axes))}
    g = layout.load("g", (batch, outputs, *[out] * axes))
    if kind == "conv_transpose":
        shape = (inputs, outputs, *[2] * axes)
        leaves["w"] = layout.load("w", shape, formula.weight_scale(inputs))
    if kind in ("instance_norm", "group_norm"):
        leaves["gamma"] = layout.load("gamma", (inputs,), 0.5) + 1.0
        leaves["beta"] = layout.load("beta", (inputs,), 0.5)
    layers = {
        "conv_transpose": lambda x, w: CONV_TRANSPOSE[axes](x, w, stride=2),
        "instance_norm": lambda x, gamma, beta: F.leaky_relu(
            F.instance_norm(x, weight=gamma, bias=beta, eps=1e-5), 0.01
        ),
        "group_norm": lambda x, gamma, beta: F.leaky_relu(F.group_norm(x, 4, gamma, beta, 1e-5), 0.01),
        "max_pool": lambda x: F.max_pool3d(x, 2),
        "avg_pool": lambda x: F.avg_pool3d(x, 2),
        "resize": lambda x: F.interpolate(
            x, scale_factor=2, mode=unet.LINEAR[axes], align_corners=False
        ),
    }
    return passes(layers[kind], leaves, g, problem["pass"] == "forward", layout)


def network(of, layout):
    """MONAI's DynUNet with the parameters of benches/src/volume_network.rs."""
    axes = of["axes"]
    model = unet.dynunet(axes, of["filters"], (1, 1))
    weights = [value for _, value in unet.parameters(model) if value.dim() > 1]
    with torch.no_grad():
        for number, value in enumerate(weights):
            scale = formula.weight_scale(unet.fan(value.shape))
            value.copy_(torch.from_numpy(formula.tensor(f"unet.{number}", value.shape, scale)))
        model.output_block.conv.conv.bias.zero_()
    return model.to(memory_format=layout.format(axes + 2))


def unet_pass(problem, layout):
    model = network(problem["network"], layout)
    shape = (problem["batch"], 1, *[problem["side"]] * problem["network"]["axes"])
    images, targets = layout.load("images", shape, 1.7), layout.load("targets", shape, 1.7)
    return network_pass(model, images, targets, problem["pass"] == "forward", layout)


def network_pass(model, images, targets, is_forward, layout):
    """Inference, or a step with the mean squared error and AdamW."""
    forward = layout.compiled(model)
    if is_forward:
        model.eval()

        def once():
            with torch.inference_mode():
                return forward(images)

        return once, lambda: {"y": numbers(once())}
    model.train()
    optimizer = adamw(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(forward(images), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, lambda: {"losses": [step() for _ in range(3)]}


def sliding(problem, layout):
    model = network(problem["network"], layout).eval()
    axes, window, batch = problem["network"]["axes"], problem["window"], problem["batch"]
    volume = layout.load("volume", (1, 1, *[problem["side"]] * axes), 1.7)
    forward = layout.compiled(model)

    def once():
        with torch.inference_mode():
            return sliding_window_inference(
                volume, [window] * axes, batch, forward, overlap=OVERLAP, mode="gaussian"
            )

    return once, lambda: {"y": numbers(once())}


def import_all():
    """Takes one step: what PyTorch imports at the first one is no memory of the problem."""
    model = torch.nn.Linear(1, 1)
    model(torch.ones(1, 1)).sum().backward()
    adamw(model).step()


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)


KINDS = {
    "conv3d": conv3d,
    "volume_layer": volume_layer,
    "u_net": unet_pass,
    "sliding": sliding,
}

if __name__ == "__main__":
    import_all()
    worker.serve(prepare)
