"""A worker of the benchmark runner: answers the requests of benches/src/protocol.rs."""

import json
import os
import resource
import sys
import time

import numpy as np


def serve(prepare):
    """Answers until the runner closes the pipe.

    `prepare(problem, strategy, folder, threads)` returns what computes, as (once, outputs, about):
    a function that computes once to the last byte, a function that returns the results by name,
    and a text that names the program.
    """
    # Libraries print; only answers may reach the runner.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    running = folder = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["ask"] == "prepare":
                folder = request["folder"]
                once, outputs, about = prepare(
                    request["problem"], request["strategy"], folder, request["threads"]
                )
                running = (once, outputs)
                answer = {"answer": "prepared", "about": about}
            elif request["ask"] == "prove":
                results = running[1]()
                for name, values in results.items():
                    np.asarray(values, dtype="<f8").tofile(os.path.join(folder, name + ".f64"))
                answer = {"answer": "proved", "outputs": sorted(results)}
            else:
                answer = repeat(running[0], request["times"])
        except Exception as error:  # any failure of a peer is an answer
            answer = {"answer": "failed", "reason": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def repeat(once, times):
    wall, cpu = time.monotonic_ns(), time.process_time_ns()
    for _ in range(times):
        once()
    wall, cpu = time.monotonic_ns() - wall, time.process_time_ns() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"answer": "repeated", "wall_ns": wall, "cpu_ns": cpu, "peak_bytes": peak}
