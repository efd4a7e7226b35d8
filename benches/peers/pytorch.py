"""PyTorch as a peer: the catalogue's problems, NCHW or channels-last; networks also compiled."""

import os

import numpy as np
import torch
import torch.nn.functional as F

import dual_pathway
import formula
import worker


def prepare(problem, strategy, folder, threads):
    torch.set_num_threads(threads)
    worker.set_tf32(strategy.endswith("-tf32"))
    layout = (
        torch.channels_last if strategy.endswith("-channels-last") else torch.contiguous_format
    )
    if strategy.startswith("pytorch-compiled"):
        compute, is_mixed = COMPILED[problem["kind"]], strategy.endswith("-bf16")
        once, outputs = compute(problem, torch.channels_last, folder, compiled(is_mixed))
        return once, outputs, f"PyTorch {torch.__version__}, {worker.place(threads)}"
    if problem["kind"] == "photos":
        layout = (strategy.endswith("-pillow"), threads)
    once, outputs = KINDS[problem["kind"]](problem, layout, folder)
    return once, outputs, f"PyTorch {torch.__version__}, {worker.place(threads)}"


def load(name, shape, scale=1.0, layout=torch.contiguous_format):
    value = torch.from_numpy(formula.tensor(name, shape, scale)).to(worker.device())
    return value.contiguous(memory_format=layout) if value.dim() == 4 else value


def numbers(value):
    # Metal has no f64.
    return value.detach().contiguous().cpu().double().numpy().ravel()


def matmul(problem, _layout, _folder):
    rows, inner, columns = problem["rows"], problem["inner"], problem["columns"]
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[problem["dtype"]]

    def coarse(name, shape):
        values = formula.tensor(name, shape, 127.0)
        # Rust rounds halves away from zero.
        rounded = np.trunc(values + np.copysign(np.float32(0.5), values)) / np.float32(128.0)
        return torch.from_numpy(rounded).to(worker.device(), dtype)

    a, b = coarse("a", (rows, inner)), coarse("b", (inner, columns))

    def once():
        with torch.no_grad():
            return a @ b

    return once, lambda: {"y": numbers(once())}


def conv2d(problem, layout, _folder):
    (inputs, outputs), kernel, side = problem["channels"], problem["kernel"], problem["side"]
    stride, padding, batch = problem["stride"], kernel // 2, problem["batch"]
    groups = problem["groups"]
    scale = formula.weight_scale(inputs // groups * kernel * kernel)
    out = (side + 2 * padding - kernel) // stride + 1
    x = load("x", (batch, inputs, side, side), 1.0, layout)
    w = load("w", (outputs, inputs // groups, kernel, kernel), scale, layout)
    g = load("g", (batch, outputs, out, out), 1.0, layout)

    def convolve():
        with torch.autocast("cpu", torch.bfloat16, enabled=problem["bf16"]):
            return F.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    if problem["pass"] == "forward":

        def once():
            with torch.no_grad():
                return convolve()

        return once, lambda: {"y": numbers(once())}
    if problem["pass"] != "training":
        of_input = problem["pass"] == "input_gradient"

        def gradient():
            steps = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
            wanted = (of_input, not of_input, False)
            return torch.ops.aten.convolution_backward(g, x, w, None, *steps, wanted)

        name = "dx" if of_input else "dw"
        return gradient, lambda: {name: numbers(gradient()[0 if of_input else 1])}

    x.requires_grad_()
    w.requires_grad_()

    def step():
        x.grad = w.grad = None
        y = convolve()
        (y * g).sum().backward()
        return y

    return step, lambda: {"y": numbers(step()), "dx": numbers(x.grad), "dw": numbers(w.grad)}


def batch_norm(problem, layout, _folder):
    channels, side = problem["channels"], problem["side"]
    shape = (problem["batch"], channels, side, side)
    x, g = load("x", shape, 1.0, layout), load("g", shape, 1.0, layout)
    gamma, beta = load("gamma", (channels,), 0.5) + 1.0, load("beta", (channels,), 0.5)

    def forward():
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-5)

    if problem["pass"] == "forward":

        def once():
            with torch.no_grad():
                return forward()

        return once, lambda: {"y": numbers(once())}

    for value in (x, gamma, beta):
        value.requires_grad_()

    def step():
        x.grad = gamma.grad = beta.grad = None
        y = forward()
        (y * g).sum().backward()
        return y

    def outputs():
        y = step()
        return {
            "y": numbers(y),
            "dx": numbers(x.grad),
            "dgamma": numbers(gamma.grad),
            "dbeta": numbers(beta.grad),
        }

    return step, outputs


def train_step(problem, layout, _folder, forward_of=lambda model: model):
    network, batch = problem["network"], problem["batch"]
    model = dual_pathway.by_formula(network).to(worker.device(), memory_format=layout)
    model.train()
    images = load("images", (batch, 3, network["side"], network["side"]), 1.7, layout)
    labels = (torch.arange(batch) * 7 % network["classes"]).to(worker.device())
    optimizer = adamw(model)
    forward = forward_of(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = forward(images)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        correct = (logits.argmax(1) == labels).sum()
        return loss.item(), correct.item()

    return step, lambda: {"losses": [step()[0] for _ in range(4)]}


def compiled(is_mixed):
    """What compiles a model, with its products in bf16 where they are mixed."""

    def forward_of(model):
        # On a GPU, launches of the forward and the backward pass are replayed as graphs.
        mode = "reduce-overhead" if worker.device() == "cuda" else None
        forward = torch.compile(model, mode=mode)
        if not is_mixed:
            return forward

        def mixed(images):
            with torch.autocast(worker.device(), dtype=torch.bfloat16):
                return forward(images).float()

        return mixed

    return forward_of


def dual_pathway_inference(problem, layout, _folder, forward_of=lambda model: model):
    network, side = problem["network"], problem["network"]["side"]
    model = dual_pathway.in_evaluation(network).to(worker.device(), memory_format=layout)
    images = load("images", (problem["batch"], 3, side, side), 1.7, layout)
    forward = forward_of(model)

    def once():
        with torch.inference_mode():
            return forward(images)

    return once, lambda: {"y": numbers(once())}


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)


def sgd(model):
    settings = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "fused": True}
    return torch.optim.SGD(model.parameters(), lr=1e-3, **settings)


def optimizer(problem, layout, _folder):
    model = dual_pathway.by_formula(problem["network"]).to(memory_format=layout)
    for name, parameter in model.named_parameters():
        parameter.grad = dual_pathway.as_parameter(
            name, parameter, lambda path, shape: formula.tensor("gradient of " + path, shape, 0.1)
        )
    stepper = adamw(model) if problem["algorithm"] == "adamw" else sgd(model)

    def outputs():
        for _ in range(3):
            stepper.step()
        named = model.named_parameters()
        return {dual_pathway.path(n): numbers(dual_pathway.as_record(v)) for n, v in named}

    return stepper.step, outputs


def decode(problem, _layout, folder):
    import torchvision
    from torchvision.transforms import v2

    with open(os.path.join(folder, "input.jpg"), "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    side = problem["to"]

    def once():
        image = torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB)
        if image.shape[-1] != side:
            image = v2.functional.resize(image, [side, side], antialias=True)
        return image

    return once, lambda: {"pixels": numbers(once().permute(1, 2, 0))}


class PhotoFiles(torch.utils.data.Dataset):
    """Files as the network sees them, decoded by torchvision.io or by Pillow."""

    def __init__(self, folder, side, with_pillow):
        names = sorted(os.listdir(folder))
        self.paths = [os.path.join(folder, name) for name in names]
        self.side, self.with_pillow = side, with_pillow
        self.mean, self.std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from torchvision import io, transforms
        from torchvision.transforms.v2 import functional

        path, size = self.paths[index], [self.side, self.side]
        if self.with_pillow:
            from PIL import Image

            with Image.open(path) as image:
                image = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
            image = transforms.functional.to_tensor(image)
        else:
            image = io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)
            image = functional.resize(image, size, antialias=True)
            image = functional.to_dtype(image, torch.float32, scale=True)
        return functional.normalize(image, self.mean, self.std, inplace=True)


def photos(problem, layout, folder):
    with_pillow, threads = layout
    files = PhotoFiles(os.path.join(folder, "photos", "one"), problem["side"], with_pillow)
    workers = threads if threads > 1 else 0
    loader = torch.utils.data.DataLoader(
        files,
        batch_size=problem["batch"],
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )

    def once():
        for batch in loader:
            pass

    first = range(problem["batch"])
    return once, lambda: {"planes": numbers(torch.stack([files[index] for index in first]))}


def gather(problem, _layout, folder):
    images, side, batch = problem["images"], problem["side"], problem["batch"]
    values = np.fromfile(os.path.join(folder, "gray.bin"), dtype=np.uint8)
    pixels = torch.from_numpy(values.reshape(images, side, side))
    mean, std = 0.1307, 0.3081
    order, position = torch.randperm(images), 0

    def take(indices):
        return pixels[indices].float().mul_(1.0 / (255.0 * std)).add_(-mean / std)

    def once():
        nonlocal order, position
        if position >= images:
            order, position = torch.randperm(images), 0
        indices = order[position : position + batch]
        position += batch
        return take(indices)

    return once, lambda: {"batch": numbers(take(torch.arange(batch)))}


KINDS = {
    "matmul": matmul,
    "conv2d": conv2d,
    "batch_norm": batch_norm,
    "train_step": train_step,
    "dual_pathway_inference": dual_pathway_inference,
    "optimizer": optimizer,
    "decode": decode,
    "photos": photos,
    "gather": gather,
}
COMPILED = {"train_step": train_step, "dual_pathway_inference": dual_pathway_inference}

if __name__ == "__main__":
    worker.serve(prepare)
