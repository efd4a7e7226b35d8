"""The masked autoencoder of examples/masked_autoencoder_twin.rs in PyTorch, from the same weights.

It trains on the batches and masks that the example wrote, compares every loss, and prints the largest
relative difference of the curves, smoothed over ten steps:

    python masked_autoencoder.py OUT/self-attention
"""

import argparse
import json
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HEADS, PATCH, EPSILON = 4, 8, 1e-6
RATE, WARMUP, BETAS, DECAY = 1e-3, 50, (0.9, 0.95), 0.05


def heads_of(tokens):
    """`[batch, tokens, embedding]` as `[batch, heads, tokens, head_dim]`."""
    return tokens.unflatten(2, (HEADS, -1)).transpose(1, 2)


def attention(queries, keys, values):
    q, k, v = heads_of(queries), heads_of(keys), heads_of(values)
    attended = functional.scaled_dot_product_attention(q, k, v)
    return attended.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, width, crosses):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, EPSILON)
        self.query = nn.Linear(width, width) if crosses else None
        self.joined = nn.Linear(width, (2 if crosses else 3) * width)
        self.output = nn.Linear(width, width)
        self.perceptron_norm = nn.LayerNorm(width, EPSILON)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, others=None):
        normed = self.attention_norm(x)
        if self.query is None:
            parts = self.joined(normed).chunk(3, -1)
        else:
            parts = (self.query(normed), *self.joined(others).chunk(2, -1))
        x = x + self.output(attention(*parts))
        return x + self.perceptron(self.perceptron_norm(x))


def token_and_rows(table, ids):
    """The first row of a table, then for every sample those of its ids."""
    first = table[:1].expand(len(ids), 1, -1)
    return torch.cat([first, table[1:][ids]], 1)


class MaskedAutoencoder(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.crosses = read.exists("decoder.cross_blocks.0.attention.query.weight")
        width, narrow = read("decoder.projection.weight").shape
        count = lambda name: sum(
            read.exists(f"{name}.{at}.attention.joined.weight") for at in range(99)
        )
        decoder = "decoder.cross_blocks" if self.crosses else "decoder.blocks"
        self.embed = read.linear("encoder.patches")
        self.class_token = nn.Parameter(read("encoder.class_token"))
        self.register_buffer("places", read("encoder.positions"))
        self.encoder = nn.ModuleList(
            read.block(Block(width, False), f"encoder.blocks.{at}")
            for at in range(count("encoder.blocks"))
        )
        self.encoder_norm = read.norm("encoder.norm")
        self.project = read.linear("decoder.projection")
        self.project_norm = read.norm("decoder.projection_norm")
        self.mask_token = nn.Parameter(read("decoder.mask_token"))
        self.register_buffer("decoder_places", read("decoder.positions"))
        self.decoder = nn.ModuleList(
            read.block(Block(narrow, self.crosses), f"{decoder}.{at}")
            for at in range(count(decoder))
        )
        self.decoder_norm = read.norm("decoder.norm")
        self.head = read.linear("decoder.head")

    def forward(self, visible, visible_ids, masked_ids):
        batch, masked = masked_ids.shape
        token = self.class_token.expand(batch, 1, -1)
        x = torch.cat([token, self.embed(visible)], 1) + token_and_rows(self.places, visible_ids)
        for block in self.encoder:
            x = block(x)
        y = self.project_norm(self.project(self.encoder_norm(x)))
        y = y + token_and_rows(self.decoder_places, visible_ids)
        x = self.mask_token.expand(batch, masked, -1) + self.decoder_places[1:][masked_ids]
        if not self.crosses:
            x = torch.cat([y, x], 1)
        for block in self.decoder:
            x = block(x, y) if self.crosses else block(x)
        return self.head(self.decoder_norm(x[:, -masked:]))


class Reader:
    """The parameters that the example wrote."""

    def __init__(self, folder):
        self.folder = folder

    def exists(self, name):
        return os.path.exists(os.path.join(self.folder, f"{name}.npy"))

    def __call__(self, name):
        return torch.from_numpy(np.load(os.path.join(self.folder, f"{name}.npy")))

    def fill(self, layer, name):
        layer.weight.data, layer.bias.data = self(f"{name}.weight").T.contiguous(), self(f"{name}.bias")
        return layer

    def linear(self, name):
        return self.fill(nn.Linear(*self(f"{name}.weight").shape), name)

    def norm(self, name):
        layer = nn.LayerNorm(len(self(f"{name}.gamma")), EPSILON)
        layer.weight.data, layer.bias.data = self(f"{name}.gamma"), self(f"{name}.beta")
        return layer

    def block(self, block, name):
        block.attention_norm = self.norm(f"{name}.attention_norm")
        block.perceptron_norm = self.norm(f"{name}.perceptron_norm")
        if block.query is not None:
            self.fill(block.query, f"{name}.attention.query")
        self.fill(block.joined, f"{name}.attention.joined")
        self.fill(block.output, f"{name}.attention.output")
        self.fill(block.perceptron[0], f"{name}.perceptron.hidden")
        self.fill(block.perceptron[2], f"{name}.perceptron.output")
        return block


def patches_of(images):
    """`[batch, patches, channels · pixels]`, channel by channel."""
    return functional.unfold(images, PATCH, stride=PATCH).transpose(1, 2)


def rows(patches, ids):
    return torch.gather(patches, 1, ids[..., None].expand(-1, -1, patches.shape[2]))


def smoothed(values):
    return np.convolve(values, np.ones(10) / 10, "valid")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compiled", action="store_true", help="train through torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    read = Reader(options.folder)
    net = MaskedAutoencoder(read)
    if options.compiled:
        net = torch.compile(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, betas=BETAS, weight_decay=DECAY)
    images, orders, own = read("images"), read("orders").long(), read("losses").numpy()
    visible = round(0.25 * orders.shape[2])
    losses, times = [], []
    for step, (batch, order) in enumerate(zip(images, orders)):
        begun = time.perf_counter()
        patches, seen, hidden = patches_of(batch), order[:, :visible], order[:, visible:]
        predicted = net(rows(patches, seen), seen, hidden)
        loss = (predicted - rows(patches, hidden)).square().mean()
        optimizer.param_groups[0]["lr"] = RATE * min((step + 1) / WARMUP, 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append((time.perf_counter() - begun) * 1e3)
    losses = np.array(losses)
    difference = np.abs(smoothed(own) / smoothed(losses) - 1)
    at = [0, 9, 49, 99, 149, 199]
    print(
        json.dumps(
            {
                "steps": len(losses),
                "ours": [round(float(own[step]), 5) for step in at if step < len(own)],
                "pytorch": [round(float(losses[step]), 5) for step in at if step < len(losses)],
                "largest_difference": float(difference.max()),
                "median_step_ms": round(float(np.median(times)), 1),
                "first_step_difference": float(abs(own[0] / losses[0] - 1)),
            }
        )
    )


main()
