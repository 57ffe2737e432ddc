#!/usr/bin/env python3
"""Dynamic batching against fixed batches: what part of the best fixed batch's rows a second does a server reach?

  bench/serve/batching.py [MODEL…] [--rounds 3] [--seconds 1] [--connections 64] [--json FILE]

The fixed batches are runs of `tessera bench MODEL --dim batch=N` in a process of their own, for N of 1 to 32. The
server has the same model with dynamic batching (at most 32 rows), and as many clients as there are connections send
requests of one row and wait for their answers (bench/serve/load.cpp). They send the row in the request ("binary") and
in shared memory ("shared"), so that what it costs to carry large inputs through sockets can be told from what batching
costs. To tell both from what a server and its clients cost at all, the same clients also send batches of the best fixed
size ("whole"), which the server computes as they come.

Server, clients and fixed batches have the same cores, so that whatever clients take is missing to the server. All is
measured in turn, and medians over the rounds count. MODEL is a name of `tessera new` or an .onnx file whose first
dimension is called batch.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

from programs import add_program_options, prepare

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position

MODELS = ["resnet18_cifar", "lenet5", "mobilenet_v3_small"]
SIZES = [1, 2, 4, 8, 16, 32]
WAYS = ["binary", "shared", "whole"]


def run_json(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


class Row:
    """A row of made-up numbers for a model's only input, and the requests that carry copies of it."""
    def __init__(self, name, sizes, region):
        self.name, self.sizes, self.region = name, sizes, region
        self.elements = 1
        for size in sizes:
            self.elements *= size
        self.data = struct.pack(f"<{self.elements}f", *(i % 17 / 17 for i in range(self.elements)))

    def request(self, folder, way, rows=1):
        """Writes the body of a request; its file and the length of the JSON at its beginning."""
        data = self.data * rows
        parameters = {"binary_data_size": len(data)}
        if way == "shared":
            parameters = {"shared_memory_region": self.region, "shared_memory_byte_size": len(data)}
        head = json.dumps({"inputs": [{"name": self.name, "datatype": "FP32", "shape": [rows, *self.sizes],
                                       "parameters": parameters}],
                           "parameters": {"binary_data_output": True}}).encode()
        path = folder / f"{way}{rows}"
        path.write_bytes(head + (b"" if way == "shared" else data))
        return path, len(head)


class Subject:
    """One model: its fixed batches, and servers of it."""
    def __init__(self, options, name, folder):
        self.options, self.folder = options, folder
        version = folder / "models" / "net" / "1"
        version.mkdir(parents=True)
        self.file = version / "model.onnx"
        if name.endswith(".onnx"):
            shutil.copy(name, self.file)
        else:
            subprocess.run([options.program, "new", name, "-o", self.file], check=True, stdout=subprocess.DEVNULL)
        (version.parent / "config.toml").write_text(
            f"max_batch_size = {options.most}\n[batching]\ndelay_us = {options.delay_us}\nqueue = 10000\n")
        self.fixed, self.served, self.details = {}, {}, {}

    def measure_fixed(self):
        for size in (size for size in SIZES if size <= self.options.most):
            found = run_json(self.options.program, "bench", self.file, "--dim", f"batch={size}", "--seconds",
                             str(self.options.seconds), "--runs", "3", "--json")
            self.fixed.setdefault(size, []).append(1000 * size / found["median_ms"])

    def best(self):
        rates = {size: statistics.median(found) for size, found in self.fixed.items()}
        size = max(rates, key=rates.get)
        return size, rates[size]

    def measure_served(self, server, row):
        for way in WAYS:
            rows = self.best()[0] if way == "whole" else 1
            path, json_bytes = row.request(self.folder, "shared" if way == "whole" else way, rows)
            before, clients_s = self.counters(server), cpu_of_children_s()
            found = run_json(self.options.load, "127.0.0.1", str(server.port), "/v2/models/net/infer", path,
                             "--json-bytes", str(json_bytes), "--loops",
                             str(max(2, self.options.connections // rows)), "--seconds", str(self.options.seconds))
            clients_s = cpu_of_children_s() - clients_s
            if set(found["statuses"]) != {"200"}:
                raise SystemExit(f"error: the server answered {found['statuses']}, expected 200 alone")
            after = self.counters(server)
            spent = {key: after[key] - before[key] for key in after}
            self.served.setdefault(way, []).append(rows * found["per_second"])
            runs, seconds = max(spent["runs"], 1), found["statuses"]["200"] / found["per_second"]
            self.details.setdefault(way, []).append({
                "rows_per_run": spent["rows"] / runs, "run_ms": spent["infer_ns"] / runs * 1e-6,
                "gather_ms": spent["input_ns"] / runs * 1e-6,
                "part_of_time_in_runs": spent["infer_ns"] * 1e-9 / seconds,
                "server_cores": spent["cpu_s"] / seconds, "client_cores": clients_s / seconds,
                "p50_ms": found["p50_us"] / 1000})

    @staticmethod
    def counters(server):
        one = server.json("GET", "/v2/models/net/stats")["model_stats"][0]
        sizes = one["batch_stats"]
        fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return {"rows": one["inference_count"], "runs": one["execution_count"],
                "infer_ns": sum(size["compute_infer"]["ns"] for size in sizes),
                "input_ns": sum(size["compute_input"]["ns"] for size in sizes),
                "cpu_s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")}

    def report(self, name):
        size, rate = self.best()
        ways = {}
        for way, rates in self.served.items():
            details = {key: statistics.median(one[key] for one in self.details[way]) for key in self.details[way][0]}
            ways[way] = {"rows_per_second": statistics.median(rates), "ratio": statistics.median(rates) / rate,
                         **details}
        return {"model": name, "fixed_rows_per_second": {size: statistics.median(found)
                                                         for size, found in self.fixed.items()},
                "best_batch": size, "best_rows_per_second": rate, "served": ways}


def cpu_of_children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def shared_region(server, name, data):
    """Shared memory with these bytes, registered under this name."""
    path = pathlib.Path("/dev/shm") / f"tessera_{name}_{os.getpid()}"
    path.write_bytes(data)
    try:
        server.json("POST", f"/v2/systemsharedmemory/region/{name}/register",
                    {"key": "/" + path.name, "offset": 0, "byte_size": len(data)})
        yield
    finally:
        path.unlink()


def measure(options, name):
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(options, name, pathlib.Path(folder))
        with serving.Server(subject.folder / "models") as server:
            tensors = server.json("GET", "/v2/models/net")["inputs"]
            if len(tensors) != 1 or tensors[0]["datatype"] != "FP32" or min(tensors[0]["shape"][1:]) < 0:
                raise SystemExit(f"error: {name} has the inputs {tensors}, expected one of FP32 and of known sizes")
            row = Row(tensors[0]["name"], tensors[0]["shape"][1:], "rows")
            with shared_region(server, row.region, row.data * options.most):
                for _ in range(options.rounds):
                    subject.measure_fixed()
                    subject.measure_served(server, row)
        return subject.report(name)


def print_report(report):
    fixed = ", ".join(f"{size}: {rate:.0f}" for size, rate in report["fixed_rows_per_second"].items())
    print(f"{report['model']}: rows a second in fixed batches of {fixed}")
    for way, one in report["served"].items():
        print(f"  {way:6} {one['rows_per_second']:7.0f} rows a second, {one['ratio']:.2f} of the best; "
              f"{one['rows_per_run']:.1f} rows a run of {one['run_ms']:.2f} ms, gathered in {one['gather_ms']:.2f} ms; "
              f"runs take {100 * one['part_of_time_in_runs']:.0f}% of the time; cores of server "
              f"{one['server_cores']:.2f}, of clients {one['client_cores']:.2f}; p50 {one['p50_ms']:.1f} ms")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--connections", type=int, default=64, help="clients with one request each in flight")
    parser.add_argument("--most", type=int, default=32, help="rows of a batch, for the server and fixed batches")
    parser.add_argument("--delay-us", type=int, default=0, help="that a request may wait for others")
    parser.add_argument("--least", type=float, default=0, help="ends with 1 where a model's best ratio is below it")
    add_program_options(parser)
    options = parser.parse_args()
    prepare(options)
    serving.program = options.program
    reports = []
    for name in options.models:
        reports.append(measure(options, name))
        print_report(reports[-1])
    if options.json:
        options.json.write_text(json.dumps(reports))
    short = [one["model"] for one in reports
             if max(way["ratio"] for key, way in one["served"].items() if key != "whole") < options.least]
    if short:
        sys.exit(f"batching: below {options.least} of the best fixed batch: {', '.join(short)}")


if __name__ == "__main__":
    main()
