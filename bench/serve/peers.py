#!/usr/bin/env python3
"""Tessera's server beside Triton's core and MLServer: the same machine, models and client.

  bench/serve/peers.py --setup                # once: .venv-serve-peers with the pinned programs (0.7 GB)
  bench/serve/peers.py [--json FILE]          # measures, and prints a table
  bench/serve/peers.py --render FILE          # prints the table of such a file

Triton is the program `tritonserver` of the wheel nvidia-pytriton, on a plain model repository whose model.py runs
onnxruntime; MLServer runs a custom model with onnxruntime, which has as many threads as there are cores in both.
Tessera and Triton may compute 8 rows at once and wait for none. The client is bench/serve/load.cpp; what is missing in
build/release is built. It runs closed loops of 1 and of 8 connections, and an open loop with half of the requests a
second that the slowest server answered to 8 connections, where latency counts from the moment at which a request was
due. Requests have one row: binary tensors, and JSON, as MLServer reads nothing else over HTTP. Before
anything is measured the servers must give equal answers. They run at the same time and are asked in turn, `--rounds`
times; the medians of the rounds count. Wants a quiet machine, on which client and server share the cores.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile

import peer_servers
from peer_servers import MlServer, Tessera, Triton, ask
from programs import add_program_options, prepare

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-serve-peers"
MODELS = {"lenet5": [1, 28, 28], "mobilenet_v3_small": [3, 224, 224], "resnet18_cifar": [3, 32, 32]}


def set_up():
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin" / "pip", "install", "-q", "--require-hashes", "--no-deps", "-r",
                    pathlib.Path(__file__).with_name("peers-requirements.txt")], check=True)


def make_models(program, folder, names):
    """Files of the zoo's models, and their inputs and outputs as Tessera's server describes them."""
    models = []
    for name in names:
        file = folder / f"{name}.onnx"
        subprocess.run([program, "new", name, "-o", file], check=True, stdout=subprocess.DEVNULL)
        peer_servers.serving.program = program
        with peer_servers.serving.Server(file) as server:
            described = server.json("GET", f"/v2/models/{name}")
        models.append({"name": name, "file": file, "sizes": MODELS[name], "input": described["inputs"][0]["name"],
                       "output": described["outputs"][0]["name"],
                       "output_sizes": described["outputs"][0]["shape"][1:]})
    return models


def bodies(model, folder):
    """Files with one request each, as JSON and binary, and how many bytes of the latter are JSON."""
    count = 1
    for size in model["sizes"]:
        count *= size
    values = [round(random.Random(1).uniform(-1, 1), 4) for _ in range(count)]
    tensor = {"name": model["input"], "datatype": "FP32", "shape": [1, *model["sizes"]]}
    text = json.dumps({"inputs": [{**tensor, "data": values}]}).encode()
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 4 * count}}],
                       "parameters": {"binary_data_output": True}}).encode()
    paths = {"json": folder / f"{model['name']}.json", "binary": folder / f"{model['name']}.bin"}
    paths["json"].write_bytes(text)
    paths["binary"].write_bytes(head + struct.pack(f"<{count}f", *values))
    return paths, len(head)


def check_equal(servers, model, request):
    found = {}
    for server in servers:
        answer = ask(server.port, "POST", f"/v2/models/{model['name']}/infer", request.read_bytes())
        found[server.name] = answer["outputs"][0]["data"]
    first = next(iter(found.values()))
    scale = max(map(abs, first))
    for name, values in found.items():
        if len(values) != len(first) or any(abs(a - b) > 1e-3 * scale for a, b in zip(values, first)):
            raise SystemExit(f"{name} gives other numbers for {model['name']} than {next(iter(found))}")


def measure(options, server, model, paths, head_bytes, encoding, arguments):
    command = [options.load, "127.0.0.1", str(server.port), f"/v2/models/{model['name']}/infer", paths[encoding],
               "--seconds", str(options.seconds), *arguments]
    if encoding == "binary":
        command += ["--json-bytes", str(head_bytes)]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    if set(result["statuses"]) - {"200"}:
        raise SystemExit(f"{server.name}, {model['name']}: {result['statuses']}")
    return {key: result[key] for key in ("per_second", "p50_us", "p99_us")}


def middle(rounds):
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def measure_in_turn(options, servers, arguments, what):
    rounds = {server.name: [] for server in servers}
    for _ in range(options.rounds):
        for server in servers:
            rounds[server.name].append(measure(options, server, *what, arguments))
    return {name: middle(found) for name, found in rounds.items()}


def proportional_bytes(process):
    """Memory of a process and its descendants; what they share counts once."""
    total = 0
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += proportional_bytes(child)
    return total


def measure_all(options, servers, models, folder):
    results = []
    for model in models:
        paths, head_bytes = bodies(model, folder)
        check_equal(servers, model, paths["json"])
        for encoding in ("binary", "json"):
            taking = [server for server in servers if encoding == "json" or server.takes_binary]
            what = (model, paths, head_bytes, encoding)
            slowest = 0
            for load in ("1 connection", "8 connections", "open loop"):
                arguments = ["--loops", load[0]]
                if load == "open loop":
                    arguments = ["--rate", f"{slowest / 2:.1f}"]
                found = measure_in_turn(options, taking, arguments, what)
                slowest = min(one["per_second"] for one in found.values())
                results.append({"model": model["name"], "request": encoding, "load": load, "servers": found})
                print(line_of(results[-1]), file=sys.stderr)
    return results


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def line_of(result):
    cells = []
    for name in ("Tessera", "Triton", "MLServer"):
        one = result["servers"].get(name)
        cells.append(f"{number(one['p50_us'] / 1000)}, {number(one['p99_us'] / 1000)}, {number(one['per_second'])}"
                     if one else "")
    return f"| {result['model']}, {result['request']}, {result['load']} | " + " | ".join(cells) + " |"


def table(report):
    memory = " | ".join(f"{report['memory_mib'][name]}" for name in ("Tessera", "Triton", "MLServer"))
    return "\n".join(["| p50 ms, p99 ms, requests a second | Tessera | Triton | MLServer |", "|---|---|---|---|",
                      *map(line_of, report["results"]), f"| memory after it, MiB | {memory} |"])


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--render", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement (default: %(default)s)")
    add_program_options(parser)
    options = parser.parse_args()
    if options.setup:
        return set_up()
    if options.render:
        return print(table(json.loads(options.render.read_text())))
    names = options.models.split(",")
    if set(names) - set(MODELS):
        parser.error(f"--models: expected some of {','.join(MODELS)}")
    if not list(VENV.glob("lib/*/site-packages/pytriton/tritonserver")):
        sys.exit("peers: the other servers are not here; bench/serve/peers.py --setup installs them")
    prepare(options)
    servers = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = make_models(options.program, folder, names)
        for kind in (Tessera, Triton, MlServer):
            (folder / kind.name).mkdir()
        try:
            servers.append(Tessera(options.program, folder / "Tessera", models))
            servers.append(Triton(VENV, folder / "Triton", models))
            servers.append(MlServer(VENV, folder / "MLServer", models))
            report = {"machine": machine(), "results": measure_all(options, servers, models, folder)}
            report["memory_mib"] = {server.name: proportional_bytes(server.process.pid) >> 20 for server in servers}
        finally:
            for server in servers:
                server.stop()
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    print(table(report))
    return None


if __name__ == "__main__":
    main()
