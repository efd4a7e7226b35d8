"""The quality of wines by scikit-learn, as a class and as a number.

    python wine.py --data DIR --seeds 1 2 3

DIR is the folder that `cargo xtask train configs/wine.toml --data DIR` takes. A fifth of the rows of
both files is held out, stratified by quality, with other rows for each seed and other rows than
those of configs/wine.toml. Prints means over the seeds: of classes the accuracy and the mean distance
in classes, of numbers R² and the mean absolute error. `perceptron` has the hidden layers of
configs/wine.toml, without ordered classes, dropout or periodic features.
"""

import argparse
import warnings

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer


def read(folder):
    """Features, with one that is 1 for white wine, and the quality."""
    colors = []
    for is_white, name in enumerate(("winequality-red.csv", "winequality-white.csv")):
        rows = np.loadtxt(f"{folder}/{name}", delimiter=",")
        colors.append(np.insert(rows, 0, is_white, axis=1))
    rows = np.concatenate(colors)
    return rows[:, :-1], rows[:, -1].astype(int)


def perceptron(kind, seed):
    scale = QuantileTransformer(output_distribution="normal", random_state=seed)
    network = kind(
        hidden_layer_sizes=(64, 64), batch_size=64, max_iter=40, learning_rate_init=0.002,
        alpha=0.01, random_state=seed,
    )
    return make_pipeline(scale, network)


MODELS = {
    "histogram boosting": (
        lambda seed: HistGradientBoostingClassifier(random_state=seed),
        lambda seed: HistGradientBoostingRegressor(random_state=seed),
    ),
    "random forest": (
        lambda seed: RandomForestClassifier(random_state=seed),
        lambda seed: RandomForestRegressor(random_state=seed),
    ),
    "perceptron": (
        lambda seed: perceptron(MLPClassifier, seed),
        lambda seed: perceptron(MLPRegressor, seed),
    ),
}


def scores(classifier, regressor, features, quality, seed):
    train, test, known, truth = train_test_split(
        features, quality, test_size=0.2, stratify=quality, random_state=seed
    )
    classes = classifier(seed).fit(train, known).predict(test)
    numbers = regressor(seed).fit(train, known).predict(test)
    return (
        accuracy_score(truth, classes),
        mean_absolute_error(truth, classes),
        r2_score(truth, numbers),
        mean_absolute_error(truth, numbers),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="the folder of both files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    # The perceptron has a fixed number of epochs.
    warnings.simplefilter("ignore", ConvergenceWarning)
    features, quality = read(given.data)
    for name, (classifier, regressor) in MODELS.items():
        each = [scores(classifier, regressor, features, quality, seed) for seed in given.seeds]
        accuracy, distance, r_squared, error = np.mean(each, axis=0)
        print(
            f"{name}: classes {accuracy:.1%} accuracy, {distance:.3f} mean distance; "
            f"number R² {r_squared:.3f}, {error:.3f} mean absolute error",
            flush=True,
        )


if __name__ == "__main__":
    main()
