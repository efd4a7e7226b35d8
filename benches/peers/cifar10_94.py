"""The recipe of configs/cifar10-94.toml in PyTorch, for accuracy and for the time of a step.

The rules are equal, the weights are not: both draw their own from a seed. Every step is a line of
JSON with its loss before the update, its learning rate, and its wall and processor time; the last
line has the scores of the test images, plain and with test-time augmentation.

    python cifar10_94.py DATA/train.tar.gz DATA/test.tar.gz --layout channels-last --log a.jsonl

An archive is decoded with Pillow. A file that `data.cache = { kind = "file", folder = "..." }` wrote
is read instead if it is given, so that both train on the same bytes: JPEG decoders differ by a level
or two. `--steps` ends the run early, without scores; schedules are those of the whole run.
`--checkpoint` names a file that every epoch replaces, and from which the same command resumes.
"""

import argparse
import io
import json
import math
import os
import tarfile
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
WIDTHS = (64, 256, 256)
WHITENING_IMAGES, WHITENING_EPSILON, WHITENING_BIAS_EPOCHS = 5000, 5e-4, 3
NORM_MOMENTUM, HEAD_SCALE = 0.4, 1 / 9
RATE, MOMENTUM, DECAY, NORM_SHIFT_FACTOR = 1.5, 0.85, 0.00133043, 64
SMOOTHING, TRANSLATE = 0.2, 2
LOOKAHEAD_EVERY, LOOKAHEAD_DECAY, LOOKAHEAD_POWER = 5, 0.95**5, 3
WARMUP, START, FLOOR = 0.23, 0.2, 0.07


def pixels_of(path):
    """Images `[images, height, width, 3]` in bytes, and the class of each."""
    with open(path, "rb") as file:
        if file.read(8) == b"UPDRAFTC":
            return pixels_of_cache(path)
    pixels, names = [], []
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".jpg"):
                jpeg = archive.extractfile(member).read()
                pixels.append(np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB")))
                names.append(member.name.split("/")[-2])
    classes = sorted(set(names))
    return np.stack(pixels), np.array([classes.index(name) for name in names])


def pixels_of_cache(path):
    """The same from a cache: 16 bytes, the pixels, JSON, its length (u64), a hash of 32 bytes."""
    data = np.memmap(path, mode="r")
    length = int(np.frombuffer(data[-40:-32].tobytes(), "<u8")[0])
    index = json.loads(data[-40 - length : -40].tobytes())
    shape = (len(index["labels"]), index["height"], index["width"], 3)
    pixels = np.array(data[16 : 16 + math.prod(shape)]).reshape(shape)
    return pixels, np.array(index["labels"])


def normalized(pixels):
    """Planes `[images, 3, height, width]`."""
    planes = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return ((planes - mean) / std).contiguous()


def conv(inputs, outputs):
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[:inputs])
    return layer


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=NORM_MOMENTUM)
    layer.weight.requires_grad = False
    return layer


class Stage(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.second = conv(inputs, outputs), conv(outputs, outputs)
        self.first_norm, self.second_norm = norm(outputs), norm(outputs)

    def forward(self, maps):
        maps = functional.max_pool2d(self.first(maps), 2)
        maps = functional.gelu(self.first_norm(maps))
        return functional.gelu(self.second_norm(self.second(maps)))


class Whitened(nn.Module):
    def __init__(self, images, classes=10):
        super().__init__()
        self.whitening = nn.Conv2d(3, 24, 2)
        self.whitening.weight.data[:] = whitening_of(images)
        self.whitening.weight.requires_grad = False
        nn.init.zeros_(self.whitening.bias)
        inputs = (24, *WIDTHS[:-1])
        self.stages = nn.Sequential(*(Stage(*pair) for pair in zip(inputs, WIDTHS)))
        self.classifier = nn.Linear(WIDTHS[-1], classes, bias=False)

    def forward(self, images):
        maps = self.stages(functional.gelu(self.whitening(images)))
        return HEAD_SCALE * self.classifier(maps.amax((2, 3)))


def whitening_of(images):
    """Filters from the second moments of all 2 × 2 patches, and their negatives."""
    patches = functional.unfold(images, 2).transpose(1, 2).reshape(-1, 12).double()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / torch.sqrt(values + WHITENING_EPSILON)).T.flip(0).view(12, 3, 2, 2)
    return torch.cat([filters, -filters]).float()


def rate_at(step, steps):
    warm = round(WARMUP * steps)
    if step < warm:
        return RATE * (START + (1 - START) * step / warm)
    return RATE * (1 - (1 - FLOOR) * (step - warm) / (steps - warm))


def optimizer_of(model):
    shifts = [p for name, p in model.named_parameters() if name.endswith("_norm.bias")]
    others = [
        p for name, p in model.named_parameters() if p.requires_grad and "_norm." not in name
    ]
    groups = [
        {"params": others, "factor": 1.0, "weight_decay": DECAY},
        {
            "params": shifts,
            "factor": NORM_SHIFT_FACTOR,
            "weight_decay": DECAY / NORM_SHIFT_FACTOR,
        },
    ]
    return torch.optim.SGD(groups, lr=RATE, momentum=MOMENTUM, nesterov=True)


class Lookahead:
    """Slow weights and statistics, to which the model returns."""

    def __init__(self, model):
        self.model = model
        self.slow = [value.clone() for value in self.values()]

    def values(self):
        return [value for value in self.model.state_dict().values() if value.is_floating_point()]

    def update(self, share):
        for slow, live in zip(self.slow, self.values()):
            slow.lerp_(live, 1 - share)
            live.copy_(slow)


def moved(images, padded, generator):
    """Every image moved by up to two pixels, with reflected borders."""
    batch, _, height, width = images.shape
    moves = torch.randint(0, 2 * TRANSLATE + 1, (batch, 2), generator=generator)
    result = torch.empty_like(images)
    for at, (top, left) in enumerate(moves.tolist()):
        result[at] = padded[at, :, top : top + height, left : left + width]
    return result


def views(model, images):
    """Logits of the images, and their mean over six views."""

    def mirrored(images):
        logits = model(images)
        return logits, (logits + model(images.flip(3))) / 2

    plain, both = mirrored(images)
    padded = functional.pad(images, (1, 1, 1, 1), "reflect")
    height, width = images.shape[2:]
    crops = [padded[:, :, at : at + height, at : at + width] for at in (0, 2)]
    translated = sum(mirrored(crop)[1] for crop in crops) / 2
    return plain, (both + translated) / 2


@torch.no_grad()
def scores(model, pixels, labels, layout):
    model.eval()
    right = np.zeros(2)
    for begin in range(0, len(pixels), 1000):
        images = normalized(pixels[begin : begin + 1000]).to(memory_format=layout)
        truth = labels[begin : begin + 1000]
        right += [(logits.argmax(1).numpy() == truth).sum() for logits in views(model, images)]
    model.train()
    return (right / len(pixels)).tolist()


def save(path, state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("train")
    arguments.add_argument("test")
    arguments.add_argument("--log", default="/dev/stdout")
    arguments.add_argument("--checkpoint")
    arguments.add_argument("--epochs", type=int, default=10)
    arguments.add_argument("--batch", type=int, default=1024)
    arguments.add_argument("--steps", type=int)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=2)
    layouts = {"channels-first": torch.contiguous_format, "channels-last": torch.channels_last}
    arguments.add_argument("--layout", choices=layouts, default="channels-last")
    given = arguments.parse_args()

    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    generator = torch.Generator().manual_seed(given.seed)
    layout = layouts[given.layout]
    pixels, labels = pixels_of(given.train)
    count = min(WHITENING_IMAGES, len(pixels))
    chosen = np.arange(count) * len(pixels) // count
    model = Whitened(normalized(pixels[chosen])).to(memory_format=layout)
    optimizer = optimizer_of(model)
    lookahead = Lookahead(model)
    per_epoch = len(pixels) // given.batch
    steps = given.epochs * per_epoch
    is_flipped = torch.randint(0, 2, (len(pixels),), generator=generator).bool()
    first_epoch, step = 0, 0
    if given.checkpoint and os.path.exists(given.checkpoint):
        state = torch.load(given.checkpoint)
        first_epoch, step, is_flipped = state["epoch"], state["step"], state["is_flipped"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        lookahead.slow = state["slow"]
        generator.set_state(state["generator"])

    with open(given.log, "a" if step else "w") as log:
        for epoch in range(first_epoch, given.epochs):
            model.whitening.bias.requires_grad = epoch < WHITENING_BIAS_EPOCHS
            order = torch.randperm(len(pixels), generator=generator)
            for begin in range(0, per_epoch * given.batch, given.batch):
                if step == given.steps:
                    return
                wall, processor = time.perf_counter(), time.process_time()
                batch = order[begin : begin + given.batch]
                images = normalized(pixels[batch.numpy()])
                flips = is_flipped[batch] ^ (epoch % 2 == 1)
                images = torch.where(flips.view(-1, 1, 1, 1), images.flip(3), images)
                padded = functional.pad(images, (TRANSLATE,) * 4, "reflect")
                images = moved(images, padded, generator).to(memory_format=layout)
                truth = torch.from_numpy(labels[batch.numpy()])
                rate = rate_at(step, steps)
                for group in optimizer.param_groups:
                    group["lr"] = rate * group["factor"]
                loss = functional.cross_entropy(model(images), truth, label_smoothing=SMOOTHING)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                step += 1
                if step % LOOKAHEAD_EVERY == 0:
                    lookahead.update(LOOKAHEAD_DECAY * (step / steps) ** LOOKAHEAD_POWER)
                elif step == steps:
                    lookahead.update(1.0)
                line = {
                    "step": step - 1,
                    "loss": loss.item(),
                    "learning_rate": rate,
                    "wall_s": time.perf_counter() - wall,
                    "cpu_s": time.process_time() - processor,
                }
                print(json.dumps(line), file=log, flush=True)
            if given.checkpoint:
                state = {
                    "epoch": epoch + 1,
                    "step": step,
                    "is_flipped": is_flipped,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "slow": lookahead.slow,
                    "generator": generator.get_state(),
                }
                save(given.checkpoint, state)
        test, truth = pixels_of(given.test)
        plain, averaged = scores(model, test, truth, layout)
        last = {"accuracy": plain, "accuracy_tta": averaged}
        print(json.dumps(last), file=log, flush=True)


if __name__ == "__main__":
    main()
