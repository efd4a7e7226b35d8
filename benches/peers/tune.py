"""The same searches as this project's, by Optuna 5: the same spaces, budgets and seeds.

    cargo run --release -p updraft-tune --example beside_optuna > own.txt
    python benches/peers/tune.py functions own.txt

compares the best values of 20 seeds on two functions, and the fronts of a problem with a known one.

    python benches/peers/tune.py adult PROGRAM DATA

searches eight keys of configs/adult-tune.toml on 2,000 rows of Adult with `PROGRAM tune` and with
Optuna, whose objective starts `PROGRAM train`: 5 seeds of 20 trials each. DATA has
`adult/adult-train.csv`. Needs optuna==5.0.0.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import optuna
from optuna._hypervolume import compute_hypervolume

optuna.logging.set_verbosity(optuna.logging.ERROR)

WEIGHTS = [1.0, 1.2, 3.0, 3.2]
WIDTHS = [
    [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
    [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
    [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
    [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
]
CENTERS = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
]


def branin(trial):
    x, y = trial.suggest_float("x", -5.0, 10.0), trial.suggest_float("y", 0.0, 15.0)
    hill = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return hill * hill + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def units(trial, count):
    return [trial.suggest_float(f"x{at}", 0.0, 1.0) for at in range(count)]


def hartmann6(trial):
    point = units(trial, 6)
    wells = (
        weight * math.exp(-sum(w * (x - c) ** 2 for w, x, c in zip(widths, point, centers)))
        for weight, widths, centers in zip(WEIGHTS, WIDTHS, CENTERS)
    )
    return -sum(wells)


def zdt1(trial):
    point = units(trial, 4)
    g = 1 + 9 * sum(point[1:]) / (len(point) - 1)
    return point[0], g * (1 - math.sqrt(point[0] / g))


FUNCTIONS = {"branin": branin, "hartmann6": hartmann6, "zdt1": zdt1}
SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "nsga-ii": optuna.samplers.NSGAIISampler,
    "random": optuna.samplers.RandomSampler,
}


def value(problem, sampler, trials, seed):
    """The best value, or the hypervolume of the front up to (1.1, 1.1)."""
    directions = ["minimize"] * (2 if problem == "zdt1" else 1)
    study = optuna.create_study(directions=directions, sampler=SAMPLERS[sampler](seed=seed))
    study.optimize(FUNCTIONS[problem], n_trials=trials)
    if len(directions) == 1:
        return study.best_value
    inside = [trial.values for trial in study.best_trials if max(trial.values) < 1.1]
    return compute_hypervolume(np.array(inside), np.array([1.1, 1.1])) if inside else 0.0


def functions(path):
    print("problem    sampler  trials     ours   Optuna  (median, least and most of all seeds)")
    for line in Path(path).read_text().splitlines():
        own = json.loads(line)
        seeds = range(len(own["values"]))
        theirs = [value(own["problem"], own["sampler"], own["trials"], seed) for seed in seeds]
        medians = [statistics.median(values) for values in (own["values"], theirs)]
        print(
            f"{own['problem']:10} {own['sampler']:8} {own['trials']:6}"
            f" {medians[0]:8.4f} {medians[1]:8.4f}"
            f"  [{min(own['values']):.4f}, {max(own['values']):.4f}]"
            f" [{min(theirs):.4f}, {max(theirs):.4f}]",
            flush=True,
        )


CONFIG = str(Path(__file__).parents[2] / "configs" / "adult-tune.toml")
ROWS, TRIALS, SEEDS, EPOCHS = 2000, 20, 5, 5


def settings(trial):
    """The space of configs/adult-tune.toml."""
    return {
        "train.learning_rate": trial.suggest_float("rate", 3e-4, 1e-2, log=True),
        "train.optimizer.weight_decay": trial.suggest_float("decay", 1e-6, 1e-1, log=True),
        "train.batch": trial.suggest_categorical("batch", [256, 512]),
        "model.kind": trial.suggest_categorical("kind", ["mlp", "residual"]),
        "model.layers": trial.suggest_int("layers", 1, 3),
        "model.hidden": trial.suggest_int("hidden", 32, 192, step=32),
        "model.dropout": trial.suggest_float("dropout", 0.0, 0.5, step=0.05),
        "model.embedding": trial.suggest_int("embedding", 4, 32, log=True),
    }


def adult(program, data):
    program = str(Path(program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "adult").mkdir()
        rows = (Path(data) / "adult" / "adult-train.csv").read_text().splitlines(keepends=True)
        (folder / "adult" / "adult-train.csv").write_text("".join(rows[:ROWS]))
        common = ["--data", str(folder), "--set", f"train.epochs={EPOCHS}"]

        def run(command, *more):
            done = subprocess.run(
                [program, command, CONFIG, *common, *more],
                cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            return json.loads(done.stdout.splitlines()[-1])

        def objective(trial):
            sets = [f"{key}={value}" for key, value in settings(trial).items()]
            found = run("train", *(word for it in sets for word in ("--set", it)))
            return found["test"]["income-auc"]

        ours, theirs = [], []
        for seed in range(SEEDS):
            found = run(
                "tune", "--study", str(folder / f"study-{seed}"), "--trials", str(TRIALS),
                "--set", f"tune.seed={seed}", "--set", 'tune.pruner={kind="median",startup=1000}',
            )
            ours.append(found["front"][0]["objectives"][0])
            study = optuna.create_study(
                direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
            )
            study.optimize(objective, n_trials=TRIALS)
            theirs.append(study.best_value)
            print(f"seed {seed}: best AUC ours {ours[-1]:.4f}, Optuna {theirs[-1]:.4f}", flush=True)
        medians = [statistics.median(values) for values in (ours, theirs)]
        print(f"median: ours {medians[0]:.4f}, Optuna {medians[1]:.4f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["functions", path]:
            functions(path)
        case ["adult", program, data]:
            adult(program, data)
        case _:
            sys.exit(__doc__)
