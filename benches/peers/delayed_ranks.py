"""Training on ranks behind a latency that the kernel cannot add, because it has no netem.

    python delayed_ranks.py --updraft PROGRAM --ranks 2 --latency 10 --rate 100

PROGRAM is `updraft`, built with the cargo feature `mpi`. Every rank has a network namespace with a
TUN device, and this program passes the packets on: those of a rank leave at RATE Mbit/s, one after
another, and arrive LATENCY ms later. So MPI and TCP wait as on a slow network, other than with
`train.distributed.added_latency_us`, which adds the latencies of the cost model. It prints the
exchange and the step of the quickstart with a batch of 128, beside `scale-estimate`. It needs root.
"""

import argparse
import fcntl
import heapq
import json
import os
import select
import statistics
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SUBNET = "10.214.0"
BATCH = "train.batch=128"
MTU = 9000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
RANK = 'names=$1; shift; exec ip netns exec "$names-$((OMPI_COMM_WORLD_RANK + 1))" "$@"'


def run(*words):
    subprocess.run(words, check=True)


class Network:
    """Namespaces with addresses 1 (of the launcher) to `places`, joined by this process."""

    def __init__(self, places, latency_s, bytes_per_s):
        self.names = f"updraft-tun-{os.getpid()}"
        self.places, self.latency_s, self.bytes_per_s = places, latency_s, bytes_per_s
        self.files, self.is_open = [], True

    def __enter__(self):
        for place in range(self.places):
            tun, device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK), f"updraft{place}"
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
            self.files.append(tun)
            name = f"{self.names}-{place}"
            run("ip", "netns", "add", name)
            run("ip", "link", "set", device, "netns", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "addr", "add", f"{SUBNET}.{place + 1}/24", "dev", device)
            run("ip", "-n", name, "link", "set", device, "mtu", str(MTU), "up")
        self.thread = threading.Thread(target=self.forward)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_open = False
        self.thread.join()
        for place in range(len(self.files)):
            os.close(self.files[place])
            subprocess.run(["ip", "netns", "del", f"{self.names}-{place}"], check=False)

    def forward(self):
        free, waiting, number = [0.0] * self.places, [], 0
        while self.is_open:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, place, packet = heapq.heappop(waiting)
                os.write(self.files[place], packet)
            until = min(waiting[0][0] - now, 0.1) if waiting else 0.1
            for tun in select.select(self.files, [], [], max(until, 0.0))[0]:
                source = self.files.index(tun)
                packet = os.read(tun, 65536)
                # Of IPv4, the last byte of the address.
                place = packet[19] - 1 if packet[0] >> 4 == 4 else -1
                if not 0 <= place < self.places:
                    continue
                free[source] = max(free[source], time.monotonic()) + len(packet) / self.bytes_per_s
                number += 1
                heapq.heappush(waiting, (free[source] + self.latency_s, number, place, packet))


def trained(program, ranks, network, keys):
    """Milliseconds of the steps and of their exchanges, with what rank 0 waits."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["ip", "netns", "exec", f"{network.names}-0", "mpirun", "-n", str(ranks)]
        command += ["--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self"]
        command += ["--mca", "btl_tcp_if_include", f"{SUBNET}.0/24", "sh", "-c", RANK, "sh"]
        command += [network.names, program, "train", "--runs", folder, *keys]
        environment = os.environ | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            # Large messages in both directions at once.
            "OMPI_MCA_btl_tcp_flags": "1",
            "PMIX_MCA_ptl_base_remote_connections": "1",
            "PMIX_MCA_ptl_base_if_include": f"{SUBNET}.0/24",
            "RAYON_NUM_THREADS": "1",
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        record = next(Path(folder).glob("*/metrics.jsonl")).read_text().splitlines()
    steps = [event for event in map(json.loads, record) if event["event"] == "step"]
    exchange = [1e-3 * (step["exchange_us"] + step["rank_wait_us"]) for step in steps]
    return [1e-3 * step["step_us"] for step in steps], exchange


def estimated(program, ranks, latency_ms, rate, keys):
    words = ["--ranks", ranks, "--bandwidth", 1e-3 * rate, "--latency", 20 + 1e3 * latency_ms]
    words += ["--ranks-per-core", max(1.0, ranks / len(os.sched_getaffinity(0)))]
    command = [program, "scale-estimate", *keys, "--json", *map(str, words)]
    environment = os.environ | {"RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return 1e3 * found["step_s"], 1e3 * (found["network_s"] + found["packing_s"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--updraft", required=True, metavar="PROGRAM")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--latency", type=float, default=10.0, metavar="MS")
    parser.add_argument("--rate", type=float, default=1000.0, metavar="MBIT")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the config")
    options = parser.parse_args()
    keys = [word for key in [BATCH, *options.set] for word in ("--set", key)]
    with Network(options.ranks + 1, 1e-3 * options.latency, options.rate * 1e6 / 8) as network:
        found = trained(options.updraft, options.ranks, network, keys)
    estimates = estimated(options.updraft, options.ranks, options.latency, options.rate, keys)
    print(f"{options.ranks} ranks, {options.latency:g} ms, {options.rate:g} Mbit/s, {len(found[0])} steps")
    for name, times, estimate in zip(["step", "exchange"], found, estimates):
        tenth, median = statistics.quantiles(times, n=10)[0], statistics.median(times)
        print(f"{name:9}{median:8.2f} ms in the median, {tenth:.2f} ms at the 10th percentile, {estimate:.2f} ms estimated")
