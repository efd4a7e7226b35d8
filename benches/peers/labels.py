"""Macro F1 of several labels a row: scikit-learn's one-vs-rest beside configs/tables-labels.toml.

    python labels.py --seeds 1 2 3

For each seed, the rows that configs/tables-labels.toml trains and tests on are written as CSV by
our generator (`cargo run -p updraft-data --example labels`), and both are trained on them, run from
the root of the repository. Prints for each the mean macro F1 and that of each seed, all computed by
scikit-learn. `thresholds` are found as Updraft finds them: for each label the one of the highest F1
on a tenth of the training rows, which are not learned from; without them it is 0.5. `products` adds
all products of two columns. `rules` has the label that each rule gives without its noise: close to
the most that any model can reach.
--write and --updraft are the commands that write rows and that train, by default those of cargo.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import tempfile

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

CONFIG = "configs/tables-labels.toml"
LABELS = ["sum", "shifted", "product", "ring", "rare", "either", "both"]
NUMBERS = [f"x{at}" for at in range(1, 7)]
SITES = {"north": -600, "east": -200, "south": 200, "west": 600}


def read(path):
    """Columns, with a site as four numbers, its name, and a 0 or 1 for each label."""
    table = pd.read_csv(path, keep_default_na=False)
    sites = np.stack([table.site == site for site in SITES], axis=1)
    features = np.concatenate([table[NUMBERS].to_numpy(), sites], axis=1).astype(float)
    found = table.labels.str.split("|")
    labels = np.array([[label in row for label in LABELS] for row in found], dtype=int)
    return features, table.site, labels


def rules(features, sites):
    """The labels of the rules, which updraft_data::label_csv states."""
    x1, x2, x3, x4, x5, x6 = np.round(features[:, :6].T * 1000).astype(int)
    sum_, shifted = x1 + x2 > 0, x3 > sites.map(SITES).to_numpy()
    product, ring, rare = x1 * x3 > 0, np.abs(x4) > 600, x5 + x6 > 1200
    labels = [sum_, shifted, product, ring, rare, sum_ | shifted, product & ring]
    return np.stack(labels, axis=1).astype(int)


def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def with_products():
    return make_pipeline(PolynomialFeatures(2, include_bias=False), logistic())


def best_threshold(truth, probability):
    """The threshold of the highest F1, among the probabilities themselves."""
    candidates = np.unique(probability)
    return max(candidates, key=lambda least: f1_score(truth, probability >= least))


def score(model, train, test, finds_thresholds, seed):
    features, _, labels = train
    thresholds = np.full(len(LABELS), 0.5)
    order = np.random.default_rng(seed).permutation(len(labels))
    held_out = order[: len(labels) // 10] if finds_thresholds else order[:0]
    learned = np.setdiff1d(order, held_out)
    model = OneVsRestClassifier(model).fit(features[learned], labels[learned])
    if finds_thresholds:
        probabilities = model.predict_proba(features[held_out])
        pairs = zip(labels[held_out].T, probabilities.T)
        thresholds = np.array([best_threshold(*pair) for pair in pairs])
    predicted = model.predict_proba(test[0]) >= thresholds
    return f1_score(test[2], predicted, average="macro")


def updraft(command, seed, folder, truth):
    """The macro F1 of a run's predictions for test.csv."""
    runs = pathlib.Path(folder, str(seed))
    arguments = ["train", CONFIG, "--set", f"seed={seed}", "--runs", str(runs)]
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)
    (run,) = runs.iterdir()
    predict = [*command, "predict", str(run), f"{folder}/test.csv"]
    lines = subprocess.run(predict, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [line.split("  ")[2].split(", ") for line in lines]
    predicted = np.array([[label in row for label in LABELS] for row in found], dtype=int)
    score = f1_score(truth, predicted, average="macro")
    # The rows that the run itself tested on are those of the file.
    own = json.loads((run / "summary.json").read_text())["test"]["labels-macro-f1"]
    assert abs(own - score) < 1e-6, (own, score)
    return score


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    write = "cargo run -q -p updraft-data --example labels --"
    parser.add_argument("--write", type=shlex.split, default=shlex.split(write))
    parser.add_argument("--updraft", type=shlex.split, default=["cargo", "xtask"])
    arguments = parser.parse_args()
    models = {
        "logistic regression": (logistic, False),
        "logistic regression, thresholds": (logistic, True),
        "logistic regression on products, thresholds": (with_products, True),
        "histogram boosting, thresholds": (
            lambda: HistGradientBoostingClassifier(random_state=0), True,
        ),
    }
    scores = {name: [] for name in ["Updraft", *models, "rules"]}
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            write = [*arguments.write, folder, str(seed)]
            subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
            train, test = (read(f"{folder}/{name}.csv") for name in ("train", "test"))
            scores["Updraft"].append(updraft(arguments.updraft, seed, folder, test[2]))
            for name, (model, finds_thresholds) in models.items():
                found = score(model(), train, test, finds_thresholds, seed)
                scores[name].append(found)
            truth = f1_score(test[2], rules(*test[:2]), average="macro")
            scores["rules"].append(truth)
    for name, values in scores.items():
        each = " ".join(f"{value:.4f}" for value in values)
        print(f"{name:44} {np.mean(values):.4f}  ({each})")


if __name__ == "__main__":
    main()
