"""The networks for tables in PyTorch: a worker of `table/training-*` entries."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import formula
import worker


class TableNet(nn.Module):
    """The network of `model.kind = "mlp"` with its defaults."""

    def __init__(
        self, counts, numbers, widths, frequencies=16, hidden=(128, 128), size=8, embedding=16,
        dropout=0.1,
    ):
        super().__init__()
        self.columns = nn.ModuleList()
        for count in counts:
            own = nn.Embedding(count, min(embedding, math.ceil(count / 2)))
            nn.init.normal_(own.weight, std=own.embedding_dim**-0.5)
            self.columns.append(own)
        self.frequencies = nn.Parameter(0.1 * torch.randn(numbers, frequencies))
        self.waves = nn.Linear(2 * frequencies, size)
        inputs = sum(own.embedding_dim for own in self.columns) + numbers * size
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip((inputs, *hidden), hidden))
        self.heads = nn.ModuleList(nn.Linear(hidden[-1], width) for width in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, classes, numbers):
        vectors = [own(classes[:, at]) for at, own in enumerate(self.columns)]
        angles = numbers.unsqueeze(2) * (2 * math.pi * self.frequencies)
        waves = torch.cat([angles.sin(), angles.cos()], 2)
        x = torch.cat([*vectors, torch.relu(self.waves(waves)).flatten(1)], 1)
        for layer in self.layers:
            x = self.dropout(torch.relu(layer(x)))
        return [head(x) for head in self.heads]


class Published(nn.Module):
    """The reference's network, by default at its published sizes, with 6 labels, 4 and 30 classes."""

    def __init__(
        self, counts=(1000, 3000, 1500, 500), size=384, hidden=1280, layers=4, outputs=(6, 4, 30),
        dropout=0.391,
    ):
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(count, size) for count in counts)
        self.attention = nn.TransformerEncoderLayer(size, 8, hidden, dropout, batch_first=True)
        widths = [len(counts) * size] + [hidden] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.dropout = nn.Dropout(dropout)
        pairs = len(counts) * (len(counts) - 1) // 2
        self.heads = nn.ModuleList(nn.Linear(hidden + pairs, width) for width in outputs)
        self.register_buffer("pairs", torch.triu_indices(len(counts), len(counts), 1))

    def forward(self, classes):
        tokens = torch.stack([own(classes[:, at]) for at, own in enumerate(self.columns)], 1)
        products = (tokens @ tokens.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        x = self.attention(tokens).flatten(1)
        for layer in self.layers:
            x = self.dropout(F.gelu(layer(x)))
        x = torch.cat([x, products], 1)
        return [head(x) for head in self.heads]


# Names that differ between PyTorch and our records, longest first.
RECORD_NAMES = [
    ("attention.self_attn.out_proj.", "attention.layers.0.mha.output."),
    ("attention.linear1.", "attention.layers.0.pwff.linear_inner."),
    ("attention.linear2.", "attention.layers.0.pwff.linear_outer."),
    ("columns.", "categories.columns."),
    ("frequencies", "periodic.frequencies"),
    ("waves.", "periodic.linear."),
    ("heads.", "heads.layers."),
]


def path(name):
    """The path of a parameter in a record of ours."""
    for torchs, ours in RECORD_NAMES:
        if name.startswith(torchs):
            return ours + name[len(torchs) :]
    return name


def weight(name, shape):
    return formula.tensor(name, shape, formula.weight_scale(shape[0]))


def set_by_formula(net):
    """Gives the network the weights of benches/src/network.rs; norms keep theirs."""
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.endswith("in_proj_weight"):
                shape = (parameter.shape[1],) * 2
                parts = [f"attention.layers.0.mha.{part}.weight" for part in ("query", "key", "value")]
                parts = [torch.from_numpy(weight(part, shape)).t() for part in parts]
                parameter.copy_(torch.cat(parts))
            elif parameter.dim() == 1:
                if "bias" in name and "norm" not in name:
                    parameter.zero_()
            elif name.startswith("columns.") or name == "frequencies":
                parameter.copy_(torch.from_numpy(weight(path(name), tuple(parameter.shape))))
            else:
                made = weight(path(name), tuple(parameter.shape)[::-1])
                parameter.copy_(torch.from_numpy(made).t())
    return net


def network(problem):
    counts, size, hidden = problem["class_counts"], problem["embedding"], problem["hidden"]
    labels = [problem["labels"]] if problem["labels"] else []
    widths = [*labels, *problem["classes"]]
    if problem["layers"] == "perceptron":
        return TableNet(
            counts, problem["numbers"], widths, hidden=hidden, embedding=size,
            dropout=problem["dropout"],
        )
    return Published(counts, size, hidden[0], len(hidden), widths, problem["dropout"])


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    batch, counts = problem["batch"], problem["class_counts"]
    rows = torch.arange(batch)
    categories = [(rows * 7 + column * 3) % count for column, count in enumerate(counts)]
    inputs = [torch.stack(categories, 1)]
    if problem["numbers"]:
        inputs.append(torch.from_numpy(formula.tensor("numbers", (batch, problem["numbers"]), 1.7)))
    truths = [(rows * 5 % count) for count in problem["classes"]]
    if problem["labels"]:
        values = formula.tensor("labels", (batch, problem["labels"]), 1.0)
        truths.insert(0, torch.from_numpy((values > 0).astype(np.float32)))
    device = worker.device()
    inputs, truths = [x.to(device) for x in inputs], [x.to(device) for x in truths]
    net = set_by_formula(network(problem)).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    run = torch.compile(net) if strategy.endswith("-compiled") else net

    def step():
        loss = 0.0
        for output, truth in zip(run(*inputs), truths):
            of_labels = truth.is_floating_point()
            one = F.binary_cross_entropy_with_logits if of_labels else F.cross_entropy
            loss = loss + one(output, truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    about = f"PyTorch {torch.__version__}, {worker.place(threads)}"
    return step, lambda: {"losses": [step() for _ in range(4)]}, about


if __name__ == "__main__":
    worker.serve(prepare)
