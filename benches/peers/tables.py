"""Prepares a table with pandas and with polars: a worker of `table/prepare-*` entries.

Both read a file whose kinds of columns they infer, standardize numbers, mark missing ones, and give
each word that is frequent enough a class in alphabetical order: what benches/src/problem/prepare_table.rs
does with this project's crates.
"""

import os
import warnings

import numpy as np

from worker import serve

# Words that are too rare have no category, on purpose.
warnings.filterwarnings("ignore", message="Constructing a Categorical")

# Texts that stand for a missing value.
MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null"]


def with_pandas(path, least):
    import pandas

    table = pandas.read_csv(path, na_values=MISSING, keep_default_na=False)
    prepared = {}
    for name in table.columns:
        column = table[name]
        is_missing = column.isna()
        if column.dtype.kind in "if":
            scaled = (column - column.mean()) / column.std(ddof=0)
            prepared[name] = scaled.fillna(0.0).to_numpy(np.float32)
            if is_missing.any():
                prepared[f"{name}-missing"] = is_missing.to_numpy(np.float32)
            continue
        counts = column.value_counts()
        if set(counts.index) == {"yes", "no"}:
            prepared[name] = np.where(column == "yes", np.float32(1), np.float32(-1))
            continue
        kept = counts.index[counts >= least].sort_values()
        codes = pandas.Categorical(column, categories=kept).codes.astype(np.int32) + 1
        if is_missing.sum() >= least:
            codes[is_missing.to_numpy()] = len(kept) + 1
        prepared[name] = codes
    return prepared


def with_polars(path, least):
    import polars

    table = polars.read_csv(path, null_values=MISSING)
    prepared = {}
    for column in table:
        name, missing = column.name, column.null_count()
        if column.dtype.is_numeric():
            scaled = (column - column.mean()) / column.std(ddof=0)
            prepared[name] = scaled.fill_null(0.0).cast(polars.Float32).to_numpy()
            if missing:
                prepared[f"{name}-missing"] = column.is_null().cast(polars.Float32).to_numpy()
            continue
        counts = column.drop_nulls().value_counts(name="rows")
        if set(counts[name]) == {"yes", "no"}:
            prepared[name] = ((column == "yes").cast(polars.Float32) * 2 - 1).to_numpy()
            continue
        kept = counts.filter(polars.col("rows") >= least)[name].sort()
        codes = column.cast(polars.Enum(kept), strict=False).to_physical().cast(polars.Int32) + 1
        codes = codes.fill_null(0)
        if missing >= least:
            codes = codes.set(column.is_null(), len(kept) + 1)
        prepared[name] = codes.to_numpy()
    return prepared


PREPARE = {"pandas": with_pandas, "polars": with_polars}


def prepare(problem, strategy, folder, threads):
    # polars reads it when it is imported; pandas computes on one thread.
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    path, least = os.path.join(folder, "rows.csv"), problem["least"]
    own = PREPARE[strategy]

    def once():
        return own(path, least)

    module = __import__(strategy)
    own_threads = threads if strategy == "polars" else 1
    about = f"{strategy} {module.__version__}, {own_threads} threads"
    return once, once, about


if __name__ == "__main__":
    serve(prepare)
