#!/usr/bin/env python3
"""What a call from Python costs beyond the session itself, beside onnxruntime, and whether memory stays flat.

    PYTHONPATH=build/release/python python bench/python_overhead.py TESSERA [--runs N] [--sessions N] [--threads N]

TESSERA is the program, whose `bench` times the same run from C++. The measurements are interleaved in rounds and the
best of each counts. Needs onnx, onnxruntime and numpy (.venv). Exit code 1 when a call costs more than 5 µs, or when
memory grows.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy
import onnx
import onnxruntime
import tessera
import tessera.ort
from onnx import helper


def tiny():
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "tiny", info[:2], info[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model.SerializeToString()


def seconds_a_call(call, batches=300, calls=20):
    """Of the quickest short batch: others on the machine disturb long ones."""
    best = float("inf")
    for _ in range(batches):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / calls


def in_cpp(program, path):
    done = subprocess.run([program, "bench", path, "--json", "--runs", "20000"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)["min_ms"] / 1000


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def overhead(program):
    data, x = tiny(), numpy.ones((1, 4), numpy.float32)
    feeds = {"x": x, "y": x}
    session, drop_in = tessera.Session(data), tessera.ort.InferenceSession(data)
    peer = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    out = tessera.ort.OrtValue.ortvalue_from_shape_and_type([1, 4], numpy.float32)
    calls = {
        "tessera.Session.run": lambda: session.run(feeds),
        "tessera.ort run": lambda: drop_in.run(None, feeds),
        "onnxruntime run": lambda: peer.run(None, feeds),
    }
    for name, made in (("tessera.ort", drop_in), ("onnxruntime", peer)):
        binding = made.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_cpu_input("y", x)
        if name == "tessera.ort":
            binding.bind_ortvalue_output("z", out)
        else:
            binding.bind_output("z")
        calls[f"{name} IO binding"] = lambda made=made, binding=binding: made.run_with_iobinding(binding)
    best = dict.fromkeys(["C++ session", *calls], float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiny.onnx")
        with open(path, "wb") as file:
            file.write(data)
        for _ in range(7):
            best["C++ session"] = min(best["C++ session"], in_cpp(program, path))
            for name, call in calls.items():
                best[name] = min(best[name], seconds_a_call(call))
    for name, seconds in best.items():
        print(f"{name:<26} {seconds * 1e6:7.2f} µs")
    beyond = (best["tessera.Session.run"] - best["C++ session"]) * 1e6
    print(f"Python costs {beyond:.2f} µs beyond the C++ session")
    return beyond <= 5


def memory(runs, sessions):
    data, x = tiny(), numpy.ones((1, 4), numpy.float32)
    session = tessera.Session(data)

    def work(runs, sessions):
        for _ in range(runs):
            session.run(x, x)
        for _ in range(sessions):
            tessera.Session(data).run(x, x)

    work(runs // 10, sessions // 10)
    before = resident_bytes()
    work(runs, sessions)
    grown = resident_bytes() - before
    print(f"{runs} runs and {sessions} sessions: resident memory grew by {grown / 1024:.0f} KiB")
    return grown < 8 << 20


def threads(count):
    """Work of many threads against that of one that uses all cores."""
    size = 512
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size, size]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "y"], ["z"])], "product", info[:2], info[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    session, x = tessera.Session(model.SerializeToString()), numpy.ones((size, size), numpy.float32)

    def work(runs):
        for _ in range(runs):
            session.run(x, x)

    ratios = []
    for _ in range(5):
        begin = time.perf_counter()
        work(240)
        one = time.perf_counter() - begin
        workers = [threading.Thread(target=work, args=(240 // count,)) for _ in range(count)]
        begin = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        ratios.append(one / (time.perf_counter() - begin))
    print(f"{count} threads do {sorted(ratios)[2]:.2f} times the work of one thread that uses all cores")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    quick = overhead(options.tessera)
    flat = memory(options.runs, options.sessions)
    threads(options.threads)
    return 0 if quick and flat else 1


if __name__ == "__main__":
    sys.exit(main())
