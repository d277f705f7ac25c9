"""Computes and times cases with PyTorch or TensorFlow for scripts/compare-peers, in a process of its
own: the same requests and answers, a JSON object a line, as tests/peers/timing_server.cc.

usage: worker.py torch|tensorflow THREADS
"""
import importlib
import json
import os
import statistics
import sys
import time

import numpy

import cases

LIBRARIES = {"torch": "torch_ways", "tensorflow": "tensorflow_ways"}


def time_runs(run, seconds):
    """Milliseconds of single runs, at least one."""
    stop = time.perf_counter() + seconds
    times = []
    while not times or time.perf_counter() < stop:
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def prepare(library, request):
    """The best right way, or why there is none."""
    case = cases.Case(*request["case"])
    first, second = (library.tensor(numpy.load(request[name]), case.dtype)
                     for name in ("first", "second"))
    expected = numpy.load(request["expected"])
    best, refusal = None, "no way to compute it"
    for name, run in library.ways(case, first, second):
        try:
            result = library.stored(run(), case.dtype)
        except Exception as error:  # a library refuses in many ways
            refusal = f"{name}: {str(error).splitlines()[0][:120]}"
            continue
        difference = cases.difference(result, expected, case.dtype)
        if not difference <= cases.ALLOWED[case.dtype]:
            refusal = f"{name}: the result differs by {difference:.1e}"
            continue
        ms = statistics.median(time_runs(run, 0.01))
        if best is None or ms < best[0]:
            best = ms, name, run
    return best, refusal


def main(library_name, threads):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print is no answer
    library = importlib.import_module(LIBRARIES[library_name])
    library.prepare(int(threads))

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    answer({"name": library.NAME})
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        if "case" not in request:
            answer({"ms": time_runs(run, request["seconds"])})
            continue
        best, refusal = prepare(library, request)
        run = best and best[2]
        answer({"how": best[1]} if best else {"refused": refusal})


if __name__ == "__main__":
    main(*sys.argv[1:])
