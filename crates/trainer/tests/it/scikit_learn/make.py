"""Writes metrics.json: `python make.py > metrics.json` with scikit-learn 1.9.1 and numpy 2.4.6."""

import json
import warnings

import numpy as np
from sklearn import metrics

random = np.random.default_rng(1)


def rounded(values, digits):
    return [float(f"{value:.{digits}f}") for value in np.ravel(values)]


def classes(samples, count):
    truth = random.integers(0, count, samples)
    # So many digits that no two probabilities are equal in one precision alone.
    logits = np.round(random.normal(size=(samples, count)) + 1.2 * np.eye(count)[truth], 4)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    predicted = p.argmax(1)
    one_hot = np.eye(count)[truth]
    ranked = (one_hot[:, 1], p[:, 1]) if count == 2 else (one_hot, p)
    bins = np.clip(np.ceil(p.max(1) * 15), 1, 15)
    error = sum(
        abs(p.max(1)[bins == b].sum() - (predicted == truth)[bins == b].sum()) for b in range(1, 16)
    )
    return {
        "logits": rounded(logits, 4),
        "truth": truth.tolist(),
        "values": [
            metrics.accuracy_score(truth, predicted),
            metrics.balanced_accuracy_score(truth, predicted),
            metrics.f1_score(truth, predicted, average="macro"),
            metrics.f1_score(truth, predicted, average="weighted"),
            metrics.roc_auc_score(*ranked, average="macro"),
            metrics.average_precision_score(*ranked, average="macro"),
            metrics.log_loss(truth, p),
            error / samples,
        ],
    }


def labels(samples, count):
    truth = (random.random((samples, count)) < 0.3).astype(int)
    logits = np.round(random.normal(size=(samples, count)) + 1.5 * truth - 0.5, 1)
    p = 1 / (1 + np.exp(-logits))
    thresholds = np.array([0.5, 0.3, 0.62, 0.41])[:count]
    predicted = (p >= thresholds).astype(int)
    return {
        "logits": rounded(logits, 1),
        "truth": truth.ravel().tolist(),
        "thresholds": thresholds.tolist(),
        "values": [
            metrics.hamming_loss(truth, predicted),
            metrics.f1_score(truth, predicted, average="macro"),
            metrics.roc_auc_score(truth, p, average="macro"),
            metrics.average_precision_score(truth, p, average="macro"),
        ],
    }


def numbers(samples):
    truth = np.round(random.normal(50, 4, samples), 2)
    predicted = np.round(truth + random.normal(0, 2, samples), 2)
    return {
        "predicted": rounded(predicted, 2),
        "truth": rounded(truth, 2),
        "values": [
            metrics.r2_score(truth, predicted),
            metrics.mean_absolute_error(truth, predicted),
            metrics.root_mean_squared_error(truth, predicted),
        ],
    }


warnings.simplefilter("error")
print(json.dumps({
    "binary": classes(60, 2),
    "many": classes(80, 4),
    "labels": labels(50, 4),
    "numbers": numbers(40),
}))
