"""Training steps on several ranks, beside PyTorch's DistributedDataParallel (gloo).

    python ranks.py step --updraft PROGRAM
    python ranks.py table --updraft PROGRAM
    python ranks.py loss --updraft PROGRAM
    python ranks.py accuracy --updraft PROGRAM --seeds 10

PROGRAM is `updraft`, built with the cargo feature `mpi`. `step` times the dual-pathway network with
16 channels on images of 32 x 32 at a global batch of 128, in turns: one process with two threads,
and two ranks of one thread each, ours and PyTorch's in both layouts. It prints the median of a step
and the share of it that the exchange takes: ours as recorded, PyTorch's as what a step takes longer
than one within `no_sync`. `table` prints our steps by network, ranks and wire; with more ranks than
cores they share these. `loss` prints the loss of the fiftieth step of a network without batch norms
and of the quickstart with synchronized ones, less that of one rank; and, as a measure of how much each
amplifies rounding, that of one rank whose learning rate is 1e-5 larger. `accuracy` trains
the quickstart to its end, with batch norms of a rank's own part and of the whole batch, by seed.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import dual_pathway

BATCH = 128
WARM_UP = 8
NETWORK = {"channels": 16, "stem_stride": 2, "classes": 16, "side": 32}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}


def torch_steps(rank, ranks, threads, layout, steps, results):
    torch.set_num_threads(threads)
    model = dual_pathway.by_formula(NETWORK).to(memory_format=LAYOUTS[layout])
    if ranks > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29531")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        model = DistributedDataParallel(model)
    model.train()
    side = NETWORK["side"]
    images = torch.randn(BATCH // ranks, 3, side, side).contiguous(memory_format=LAYOUTS[layout])
    labels = torch.arange(BATCH // ranks) % NETWORK["classes"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def timed():
        begun = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - begun)

    for _ in range(WARM_UP):
        step()
    with_exchange, without = [], []
    for _ in range(steps):
        with_exchange.append(timed())
        if ranks > 1:
            with model.no_sync():
                without.append(timed())
    if rank == 0:
        results.put((with_exchange, without))
    if ranks > 1:
        dist.destroy_process_group()


def torchs(ranks, threads, layout, steps):
    """Milliseconds of steps, and of steps without an exchange."""
    results = mp.get_context("spawn").SimpleQueue()
    arguments = (ranks, threads, layout, steps, results)
    context = mp.spawn(torch_steps, arguments, nprocs=ranks, join=False)
    found = results.get()
    while not context.join():
        pass
    return found


def images(channels):
    """The keys of the dual-pathway network, for so many updates."""
    return lambda updates: {
        "model.channels": channels,
        "model.stem_stride": NETWORK["stem_stride"],
        "data.height": NETWORK["side"],
        "data.width": NETWORK["side"],
        "data.train_images": BATCH * updates,
        "data.test_images": 32,
        "train.batch": BATCH,
        "train.epochs": 1,
    }


def rows(updates):
    """The keys of a perceptron with 528,000 parameters on generated rows."""
    return {
        "task": "tables",
        "data.source": "formula",
        "data.train_rows": 1024 * updates,
        "data.test_rows": 32,
        "model.kind": "mlp",
        "model.hidden": [512, 512, 512],
        "train.batch": 1024,
        "train.epochs": 1,
    }


NETWORKS = {"16 channels": images(16), "32 channels": images(32), "table": rows}


def recorded(program, ranks, threads, keys):
    """The events of a run."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        launch += ["--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
        command = (launch if ranks > 1 else []) + [program, "train", *settings, "--runs", folder]
        environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        record = next(Path(folder).glob("*/metrics.jsonl")).read_text().splitlines()
    return [json.loads(line) for line in record]


def ours(program, ranks, threads, steps, wire="f32", network="16 channels"):
    """Milliseconds of steps and of their exchanges, from the record of a run."""
    keys = NETWORKS[network](steps + WARM_UP)
    if ranks > 1:
        keys["train.distributed.wire"] = wire
    events = recorded(program, ranks, threads, keys)
    timed = [event for event in events if event["event"] == "step"][WARM_UP:]
    exchange = [1e-3 * (it["exchange_us"] + it["rank_wait_us"]) for it in timed]
    return [1e-3 * it["step_us"] for it in timed], exchange


def step(program, rounds, steps):
    one, two, torch_one, torch_two = [], ([], []), {}, {}
    for _ in range(rounds):
        one += ours(program, 1, 2, steps)[0]
        for all_of, found in zip(two, ours(program, 2, 1, steps)):
            all_of.extend(found)
        for layout in LAYOUTS:
            torch_one.setdefault(layout, []).extend(torchs(1, 2, layout, steps)[0])
            both = torch_two.setdefault(layout, ([], []))
            for all_of, found in zip(both, torchs(2, 1, layout, steps)):
                all_of.extend(found)
    median = statistics.median
    print(f"{'':32}{'1 x 2 threads':>15}{'2 x 1 thread':>14}{'ratio':>7}{'exchange':>10}")

    def row(name, single, pair, share):
        print(f"{name:32}{single:12.2f} ms{pair:11.2f} ms{pair / single:7.2f}{share:9.1%}")

    share = median(x / s for s, x in zip(*two))
    row("updraft", median(one), median(two[0]), share)
    for layout in LAYOUTS:
        pair, without = (median(times) for times in torch_two[layout])
        row(f"PyTorch, {layout}", median(torch_one[layout]), pair, max(0.0, 1 - without / pair))


def table(program, rounds, steps):
    print(f"{'network':12}{'ranks':>6}{'threads':>9}  {'wire':6}{'step':>10}{'exchange':>12}{'share':>8}")
    cases = [(1, 2, "-"), (2, 1, "f32"), (2, 1, "bf16"), (4, 1, "f32"), (4, 1, "bf16")]
    for network in NETWORKS:
        found = {case: ([], []) for case in cases}
        for _ in range(rounds):
            for case in cases:
                for all_of, own in zip(found[case], ours(program, *case[:2], steps, case[2], network)):
                    all_of.extend(own)
        for (ranks, threads, wire), (steps_ms, exchange) in found.items():
            own, sent = statistics.median(steps_ms), statistics.median(exchange)
            share = statistics.median(x / s for s, x in zip(steps_ms, exchange))
            print(f"{network:12}{ranks:6}{threads:9}  {wire:6}{own:7.2f} ms{sent:9.2f} ms{share:8.1%}")


LOSSES = {
    "table": {"task": "tables", "data.source": "formula", "data.train_rows": 6400, "model.kind": "mlp",
              "model.dropout": 0, "train.batch": 64, "train.learning_rate": 0.01},
    "quickstart": {"data.train_images": 1600, "train.batch": 32, "train.learning_rate": 0.01,
                   "train.distributed.batch_norm": "synchronized"},
}


def loss(program, seeds):
    ranks = (2, 3, 4)
    print(f"{'network':12}{'seed':>5}{'loss':>10}" + "".join(f"{f'{of} ranks':>10}" for of in ranks) + f"{'rate':>10}")
    for network, keys in LOSSES.items():
        for seed in range(1, seeds + 1):
            def fiftieth(of, rate):
                own = keys | {"seed": seed, "train.epochs": 1, "train.learning_rate": rate}
                return [event["loss"] for event in recorded(program, of, 1, own) if event["event"] == "step"][49]
            rate = keys["train.learning_rate"]
            one = fiftieth(1, rate)
            others = [fiftieth(of, rate) for of in ranks] + [fiftieth(1, rate * (1 + 1e-5))]
            print(f"{network:12}{seed:5}{one:10.5f}" + "".join(f"{abs(other - one):10.0e}" for other in others))


def accuracy(program, seeds):
    cases = [(1, "local"), (2, "local"), (4, "local"), (2, "synchronized"), (4, "synchronized")]
    print(f"{'ranks':>5}  {'batch norms':14}{'loss':>9}{'accuracy':>11} ± of the mean  of each seed")
    for ranks, kind in cases:
        found = []
        for seed in range(1, seeds + 1):
            keys = {"seed": seed, "train.distributed.batch_norm": kind} if ranks > 1 else {"seed": seed}
            epochs = [event for event in recorded(program, ranks, 1, keys) if event["event"] == "epoch"]
            found.append([epochs[-1]["test"][name] for name in ("loss", "accuracy")])
        loss, right = ([of_seed[at] for of_seed in found] for at in (0, 1))
        error = statistics.stdev(right) / seeds**0.5 if seeds > 1 else float("nan")
        own = " ".join(f"{100 * value:.1f}" for value in right)
        print(f"{ranks:5}  {kind:14}{statistics.mean(loss):9.4f}{statistics.mean(right):11.4f} ± {error:.4f}  {own}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["step", "table", "loss", "accuracy"])
    parser.add_argument("--updraft", required=True, metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of each round")
    arguments = parser.parse_args()
    if arguments.what in ("loss", "accuracy"):
        {"loss": loss, "accuracy": accuracy}[arguments.what](arguments.updraft, arguments.seeds)
    else:
        measure = {"step": step, "table": table}[arguments.what]
        measure(arguments.updraft, arguments.rounds, arguments.steps)
