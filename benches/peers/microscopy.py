"""PyTorch twins of the microscopy tasks: trains with MONAI's networks, prints Pearson or Dice.

    python microscopy.py label-free --data PACK --seeds 0 1 2
    python microscopy.py generated-cells-3d --data FOLDER

FOLDER is what `cargo run -p updraft-data --example cells -- FOLDER 32,128,128 10 3 7` writes.
Patches are drawn at random places of the training volumes, without augmentation. The score is that
of volumes never trained on, through MONAI's `sliding_window_inference`. What needs no network
stands beside: Otsu's threshold, all background, the mask of the cells.
"""

import argparse
import math
import time
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from monai.inferers import sliding_window_inference

import microscopy_data as data
import unet


@dataclass
class Recipe:
    """How a task is trained. `output` is the network's number of channels."""

    read: object
    output: int
    is_mask: bool
    patch: tuple
    batch: int
    steps: int
    networks: dict
    notes: object = field(default=lambda train, test: [])


def page(dims, width, levels):
    filters = [width << level for level in range(levels)]
    return lambda channels: unet.PlainUNet(dims, filters, channels)


def dynunet(dims, filters):
    return lambda channels: unet.dynunet(dims, filters, channels)


RECIPES = {
    "label-free": Recipe(
        data.label_free, 1, False, (128, 128), 4, 300,
        {"page": page(2, 8, 4), "dynunet": dynunet(2, [16, 32, 64])}, data.label_free_floors,
    ),
    "cells": Recipe(
        data.cells, 1, True, (128, 128), 4, 200,
        {"page": page(2, 8, 4), "dynunet": dynunet(2, [16, 32, 64])}, data.mask_floors,
    ),
    "nuclei-3d": Recipe(
        data.nuclei, 1, True, (32, 64, 64), 2, 200,
        {"page": page(3, 6, 3), "dynunet": dynunet(3, [8, 16, 32])}, data.mask_floors,
    ),
    "generated-label-free": Recipe(
        data.generated("label-free.csv"), 2, False, (128, 128), 4, 200,
        {"page": page(2, 8, 4), "dynunet": dynunet(2, [16, 32, 64])}, data.generated_floors,
    ),
    "generated-cells": Recipe(
        data.generated("segmentation.csv"), 3, True, (128, 128), 4, 150,
        {"page": page(2, 8, 4), "dynunet": dynunet(2, [16, 32, 64])}, data.mask_floors,
    ),
    "generated-label-free-3d": Recipe(
        data.generated("label-free.csv"), 2, False, (16, 64, 64), 2, 150,
        {"page": page(3, 6, 3), "dynunet": dynunet(3, [8, 16, 32])}, data.generated_floors,
    ),
    "generated-cells-3d": Recipe(
        data.generated("segmentation.csv"), 3, True, (16, 64, 64), 2, 150,
        {"page": page(3, 6, 3), "dynunet": dynunet(3, [8, 16, 32])}, data.mask_floors,
    ),
}


def patches(train, recipe, foreground, random):
    """A batch of patches: a volume, then a place, all alike or around the foreground."""
    inputs, targets = [], []
    for _ in range(recipe.batch):
        volume = train[random.integers(len(train))]
        sides = volume.input.shape[1:]
        if foreground > 0.0:
            wanted = random.random() < foreground
            places = volume.foreground if wanted else volume.background
            center = np.unravel_index(places[random.integers(len(places))], sides)
            start = [
                min(max(at - side // 2, 0), whole - side)
                for at, side, whole in zip(center, recipe.patch, sides)
            ]
        else:
            start = [random.integers(w - side + 1) for w, side in zip(sides, recipe.patch)]
        place = tuple(slice(at, at + side) for at, side in zip(start, recipe.patch))
        inputs.append(volume.input[(slice(None), *place)])
        targets.append(volume.target[(slice(None), *place)])
    return torch.from_numpy(np.stack(inputs)), torch.from_numpy(np.stack(targets))


def mask_loss(logits, labels):
    """Cross-entropy plus one minus the soft Dice of the whole batch, with 1 above and below."""
    if logits.shape[1] == 1:
        labels = labels.float()
        entropy = F.binary_cross_entropy_with_logits(logits, labels)
        found, wanted = torch.sigmoid(logits), labels
    else:
        labels = labels[:, 0].long()
        entropy = F.cross_entropy(logits, labels)
        classes = range(1, logits.shape[1])
        found = torch.softmax(logits, 1)[:, 1:]
        wanted = torch.stack([(labels == of).float() for of in classes], 1)
    axes = [0, *range(2, found.dim())]
    both, sums = (found * wanted).sum(axes), found.sum(axes) + wanted.sum(axes)
    return entropy + 1.0 - ((2.0 * both + 1.0) / (sums + 1.0)).mean()


def train_network(recipe, model, train, options, random):
    """The losses of all steps, and the processor time they took in seconds."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    decay = None
    if options.schedule == "cosine":
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps)
    model.train()
    losses, started = [], time.process_time()
    for _ in range(recipe.steps):
        x, target = patches(train, recipe, options.foreground, random)
        optimizer.zero_grad(set_to_none=True)
        y = model(x)
        loss = mask_loss(y, target) if recipe.is_mask else F.mse_loss(y, target)
        loss.backward()
        optimizer.step()
        if decay:
            decay.step()
        losses.append(loss.item())
    return losses, time.process_time() - started


def predict(recipe, model, volume, overlap=0.25, mode="gaussian"):
    model.eval()
    with torch.inference_mode():
        x = torch.from_numpy(volume.input[None])
        y = sliding_window_inference(
            x, recipe.patch, recipe.batch, model, overlap=overlap, mode=mode, sigma_scale=0.125
        )
    return y[0].numpy()


def classes_of(logits):
    return logits.argmax(0) if len(logits) > 1 else (logits[0] > 0.0).astype(np.int64)


def score(recipe, predictions, test):
    """Pearson by channel or Dice by class, over all voxels of all volumes."""
    if recipe.is_mask:
        found = np.concatenate([classes_of(y).ravel() for y in predictions])
        wanted = np.concatenate([volume.target[0].ravel() for volume in test])
        return [data.dice(found == of, wanted == of) for of in range(1, max(recipe.output, 2))]
    return [
        data.pearson(
            np.concatenate([y[channel].ravel() for y in predictions]),
            np.concatenate([volume.target[channel].ravel() for volume in test]),
        )
        for channel in range(recipe.output)
    ]


def by_volume(recipe, predictions, test):
    """The mean over volumes of each one's own Pearson, and that of frames 0 and 5 where there are
    ten, as the reference numbers were taken."""
    if recipe.is_mask:
        return ""
    own = np.array([score(recipe, [y], [volume]) for y, volume in zip(predictions, test)])
    text = " ".join(f"{value:.4f}" for value in own.mean(0))
    frames = f", of frames 0 and 5 {own[[0, 5]].mean():.4f}" if len(own) == 10 else ""
    return f" (by volume {text}{frames})"


def seams(recipe, model, volume):
    """Mean and largest difference of blended windows to one pass over the whole picture."""
    with torch.inference_mode():
        whole = model(torch.from_numpy(volume.input[None]))[0].numpy()
    print(f"  one pass: deviation of the output {whole.std():.4f}")
    for overlap, mode in ((0.0, "constant"), (0.25, "constant"), (0.25, "gaussian"), (0.5, "gaussian")):
        away = np.abs(predict(recipe, model, volume, overlap, mode) - whole)
        print(f"  seams, {mode} {overlap}: mean {away.mean():.5f}, largest {away.max():.3f}")


def run(options):
    recipe = RECIPES[options.task]
    recipe.steps = options.steps or recipe.steps
    train, test = recipe.read(options)
    shapes = [volume.input.shape for volume in (train[0], test[0])]
    print(f"{options.task}: {len(train)} volumes {shapes[0]} to train, {len(test)} {shapes[1]} to test")
    name = "Dice" if recipe.is_mask else "Pearson"
    for note, values in recipe.notes(train, test):
        print(f"  {name} of {note}: {' '.join(f'{value:.4f}' for value in values)}")
    for network in options.networks or recipe.networks:
        scores = []
        for seed in options.seeds:
            torch.manual_seed(seed)
            model = recipe.networks[network]((train[0].input.shape[0], recipe.output))
            random = np.random.default_rng(seed)
            losses, seconds = train_network(recipe, model, train, options, random)
            started = time.process_time()
            predictions = [predict(recipe, model, volume) for volume in test]
            predicting = time.process_time() - started
            scores.append(score(recipe, predictions, test))
            last = np.mean(losses[-25:])
            values = " ".join(f"{value:.4f}" for value in scores[-1])
            values += by_volume(recipe, predictions, test)
            print(
                f"  {network} ({unet.parameter_count(model)} parameters) seed {seed}, "
                f"{recipe.steps} steps, {options.schedule}: {name} {values}, loss {last:.4f}, "
                f"processor {seconds:.1f} s to train, {predicting:.1f} s to predict",
                flush=True,
            )
        by_seed = np.array(scores)
        mean = " ".join(f"{value:.4f}" for value in by_seed.mean(0))
        spread = by_seed.std(0, ddof=1) if len(scores) > 1 else np.full(by_seed.shape[1], math.nan)
        print(f"  {network}: mean {mean}, deviation", " ".join(f"{v:.4f}" for v in spread), flush=True)
        if options.seams:
            seams(recipe, model, test[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=RECIPES)
    parser.add_argument("--data", required=True, help="the microscopy pack or generated cells")
    parser.add_argument("--networks", nargs="*", help="page, dynunet; both without it")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="constant")
    parser.add_argument("--foreground", type=float, default=0.0, help="share of such patches")
    parser.add_argument("--scale", choices=("volume", "frame"), default="volume", help="z-score of")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seams", action="store_true", help="of the last seed's network")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    run(options)
