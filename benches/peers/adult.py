"""Adult by scikit-learn's histogram boosting and by the network of configs/adult.toml in PyTorch.

    python adult.py scores --data DIR --seeds 1 2 3
    python adult.py several --data DIR --seeds 1 2 3
    python adult.py speed --data DIR --threads 1
    python adult.py published --threads 2
    python adult.py table --data DIR

DIR is the folder that `cargo xtask train configs/adult.toml --data DIR` takes, with a folder
`adult`; `table` writes into it.

`scores` and `several` train on the official training file, without any choice on test rows, and
print accuracy, AUC and calibration error on the official test file: of income alone, and with hours
per week and occupation as further targets. `speed` prints rows a second of PyTorch's training at
batch 256, by the clock and by processor time, with tensors in memory and with a DataLoader, each
eager and compiled and with each implementation of AdamW, and the largest memory of the process
until then; with several threads, processor time includes their waiting. `published` times steps
of the reference's network of 10.8 million parameters at batch 64; `--modes eager` leaves out what is
compiled. `table` writes random rows
for configs/tables-large.toml.
"""

import argparse
import math
import random
import resource
import time

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score

from table_networks import Published, TableNet

NAMES = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
).split()
# The implementations of AdamW on a CPU.
ADAMW = {
    "single-tensor": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
# Compiling takes memory, so it comes last.
MODES = ["eager", "compiled"]
NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]


def read(folder):
    """Training and test rows; labels of the test file lose their period."""
    tables = []
    for name in ("adult-train.csv", "adult-test.csv"):
        table = pd.read_csv(f"{folder}/adult/{name}", names=NAMES, skipinitialspace=True, na_values="?")
        table["income"] = (table["income"].str.rstrip(".") == ">50K").astype(int)
        tables.append(table)
    return tables


def encode(train, test, targets):
    """Classes from 1 (0 is unknown) and rank-normal numbers, fitted on the training rows."""
    features = [name for name in NAMES if name not in targets]
    classes, numbers, counts = ([], []), ([], []), []
    for name in features:
        if name in NUMBERS:
            ordered = np.sort(train[name].to_numpy(float))
            knots = np.unique(ordered)
            low = np.searchsorted(ordered, knots, "left")
            high = np.searchsorted(ordered, knots, "right")
            scores = norm.ppf((low + high) / (2 * len(ordered)))
            for into, table in zip(numbers, (train, test)):
                into.append(np.interp(table[name], knots, scores))
        else:
            words = sorted(train[name].dropna().unique())
            place = {word: at + 1 for at, word in enumerate(words)}
            missing = len(words) + 1 if train[name].isna().any() else 0
            counts.append(len(words) + 1 + (missing > 0))
            for into, table in zip(classes, (train, test)):
                into.append([place.get(w, 0) if isinstance(w, str) else missing for w in table[name]])
    sides = []
    for own, values in zip(classes, numbers):
        sides.append((torch.tensor(np.array(own).T), torch.tensor(np.array(values).T).float()))
    return sides, counts, len(numbers[0])


def targets_of(train, test, several):
    """The kind of each target with its values; -1 is a missing class."""
    each = [("classes", *(torch.tensor(t["income"].to_numpy()) for t in (train, test)))]
    if several:
        mean, std = train["hours-per-week"].mean(), train["hours-per-week"].std(ddof=0)
        hours = [torch.tensor(((t["hours-per-week"] - mean) / std).to_numpy()) for t in (train, test)]
        each.append(("number", *(one.float().unsqueeze(1) for one in hours)))
        words = {w: at for at, w in enumerate(sorted(train["occupation"].dropna().unique()))}
        codes = [torch.tensor([words.get(w, -1) for w in t["occupation"]]) for t in (train, test)]
        each.append(("classes", *codes))
    return each


def loss_of(outputs, truths, kinds):
    total = 0.0
    for output, truth, kind in zip(outputs, truths, kinds):
        if kind == "number":
            total = total + F.mse_loss(output, truth)
        else:
            total = total + F.cross_entropy(output, truth, ignore_index=-1)
    return total


def schedule(step, steps):
    """5 % of linear warm-up, then a cosine down to 0."""
    warm = max(1, round(0.05 * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def fit(net, inputs, truths, kinds, epochs=15, batch=256):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002, weight_decay=1e-4)
    rows = len(inputs[0])
    steps = epochs * (rows // batch)
    rule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule(step, steps))
    net.train()
    for _ in range(epochs):
        order = torch.randperm(rows)
        for at in range(rows // batch):
            own = order[at * batch : (at + 1) * batch]
            classes = inputs[0][own]
            # 1 % of the categories become unknown.
            classes = classes.masked_fill(torch.rand(classes.shape) < 0.01, 0)
            loss = loss_of(net(classes, inputs[1][own]), [one[own] for one in truths], kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rule.step()


def calibration_error(truth, chance, bins=15):
    """Of the predicted class, in bins of equal width."""
    confidence, right = np.maximum(chance, 1 - chance), (chance >= 0.5) == truth
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(right[which == at].sum() - confidence[which == at].sum()) for at in range(bins)]
    return sum(gaps) / len(truth)


def show(name, truth, chances):
    rows = []
    for chance in chances:
        accuracy = accuracy_score(truth, chance >= 0.5)
        rows.append((accuracy, roc_auc_score(truth, chance), calibration_error(truth, chance)))
    mean = np.mean(rows, axis=0)
    print(f"{name}: accuracy {mean[0]:.2%}, AUC {mean[1]:.4f}, calibration error {mean[2]:.2%}")


def boost(train, test, dropped, seed):
    features = [name for name in NAMES if name not in dropped]
    joined = train[features].copy()
    other = test[features].copy()
    for name in features:
        if name not in NUMBERS:
            kinds = pd.CategoricalDtype(sorted(train[name].dropna().unique()))
            joined[name], other[name] = joined[name].astype(kinds), other[name].astype(kinds)
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype", learning_rate=0.05, max_iter=300, early_stopping=False,
        random_state=seed,
    )
    model.fit(joined, train["income"])
    return model.predict_proba(other)[:, 1]


def scores(folder, seeds, several):
    train, test = read(folder)
    dropped = ["income", "hours-per-week", "occupation"] if several else ["income"]
    truth = test["income"].to_numpy()
    show("histogram boosting", truth, [boost(train, test, dropped, seed) for seed in seeds])
    (inputs, tests), counts, numbers = encode(train, test, dropped)
    each = targets_of(train, test, several)
    widths = [1 if kind == "number" else int(own.max()) + 1 for kind, own, _ in each]
    chances = []
    for seed in seeds:
        torch.manual_seed(seed)
        net = TableNet(counts, numbers, widths)
        fit(net, inputs, [own for _, own, _ in each], [kind for kind, _, _ in each])
        net.eval()
        with torch.no_grad():
            chances.append(net(*tests)[0].softmax(1)[:, 1].double().numpy())
    show("PyTorch", truth, chances)


def timed(step, batches, seconds=8.0):
    """Rows a second, and a second of processor time, over about so many seconds, after a warm-up."""
    feed = batches()
    for _ in range(20):
        step(*next(feed))
    began, processor, rows = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        own = next(feed)
        step(*own)
        rows += len(own[0])
    return rows / (time.perf_counter() - began), rows / (time.process_time() - processor)


def speed(folder, modes):
    train, test = read(folder)
    ((classes, numbers), _), counts, width = encode(train, test, ["income"])
    truth = torch.tensor(train["income"].to_numpy())
    rows = torch.utils.data.TensorDataset(classes, numbers, truth)

    def loader():
        while True:
            yield from torch.utils.data.DataLoader(rows, 256, shuffle=True, drop_last=True)

    def memory():
        while True:
            order = torch.randperm(len(truth))
            for at in range(len(truth) // 256):
                own = order[at * 256 : (at + 1) * 256]
                yield classes[own], numbers[own], truth[own]

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    print(f"after the imports and the data: {peak():.0f} MiB", flush=True)
    for mode in modes:
        for feed in (memory, loader):
            for kind in ADAMW:
                torch.manual_seed(0)
                net = TableNet(counts, width, [2])
                optimizer = torch.optim.AdamW(
                    net.parameters(), lr=0.002, weight_decay=1e-4, **ADAMW[kind]
                )
                run = net if mode == "eager" else torch.compile(net)

                def step(classes, numbers, truth):
                    loss = F.cross_entropy(run(classes, numbers)[0], truth)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

                rate, of_processor = timed(step, feed)
                print(
                    f"{mode}, {feed.__name__}, {kind} AdamW: {rate:.0f} rows/s, "
                    f"{of_processor:.0f} rows per processor second, {peak():.0f} MiB so far",
                    flush=True,
                )


def published(modes):
    counts = torch.tensor([1000, 3000, 1500, 500])

    def feed():
        while True:
            classes = (torch.rand(64, 4) * counts).long()
            yield classes, (torch.rand(64, 6) > 0.5).float(), classes[:, 0] % 4, classes[:, 1] % 30

    for mode in modes:
        for kind in ADAMW:
            torch.manual_seed(0)
            net = Published()
            optimizer = torch.optim.AdamW(
                net.parameters(), lr=6e-5, weight_decay=4e-5, **ADAMW[kind]
            )
            run = net if mode == "eager" else torch.compile(net)

            def step(classes, labels, direction, kind):
                a, b, c = run(classes)
                loss = F.binary_cross_entropy_with_logits(a, labels)
                loss = loss + F.cross_entropy(b, direction) + F.cross_entropy(c, kind)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            rate, _ = timed(step, feed)
            count = sum(own.numel() for own in net.parameters())
            print(f"{count} parameters, {mode}, {kind} AdamW: {64e3 / rate:.1f} ms a step")


def table(folder):
    """Random rows with the reference's numbers of words, labels and classes."""
    draw = random.Random(1)
    counts = (1000, 3000, 1500, 500)
    with open(f"{folder}/published.csv", "w") as file:
        file.write("drug,variant,gene,allele,outcome,direction,type\n")
        for row in range(6400):
            words = [f"w{row % c if row < c else draw.randrange(c)}" for c in counts]
            labels = "|".join(f"l{at}" for at in range(6) if draw.random() < 0.5) or "l0"
            file.write(f"{','.join(words)},{labels},d{row % 4},t{row % 30}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["scores", "several", "speed", "published", "table"])
    parser.add_argument("--data", help="the folder of the files of Adult")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    given = parser.parse_args()
    if given.data is None and given.what != "published":
        parser.error(f"{given.what} needs --data DIR")
    torch.set_num_threads(given.threads)
    if given.what == "speed":
        speed(given.data, given.modes)
    elif given.what == "published":
        published(given.modes)
    elif given.what == "table":
        table(given.data)
    else:
        scores(given.data, given.seeds, given.what == "several")


if __name__ == "__main__":
    main()
