#!/usr/bin/env python3
"""What two builds of the server take around one small model, in turn: HTTP, gRPC and health, by one client.

  bench/serve/front_builds.py OLD NEW [--rounds 22] [--json FILE]

OLD and NEW are two `tessera` programs, with `tessera-serve` beside each. Both serve lenet5 at once; in each round one
and then the other is asked some hundred times over one connection, in changing order. Prints the median of each and the
median of the rounds' ratios, above 1 where the new one is slower. Needs tritonclient (.venv-serve).
"""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import tritonclient.grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position

MODEL = "lenet5"
WARM_UP_ROUNDS = 2
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Front:
    """A running server and the connections to it."""
    def __init__(self, program, folder):
        serving.program = str(program)
        self.server = serving.Server(folder)
        self.grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.server.ports['grpc']}")
        described = self.grpc.get_model_metadata(MODEL).inputs[0]
        self.data = numpy.zeros([max(size, 1) for size in described.shape], numpy.float32)
        self.input = tritonclient.grpc.InferInput(described.name, list(self.data.shape), "FP32")
        self.input.set_data_from_numpy(self.data)
        self.socket = socket.create_connection(("127.0.0.1", self.server.ports["http"]))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = json.dumps({"inputs": [{"name": described.name, "shape": self.data.shape, "datatype": "FP32",
                                       "parameters": {"binary_data_size": self.data.nbytes}}],
                           "parameters": {"binary_data_output": True}}).encode()
        body = head + self.data.tobytes()
        self.request = (f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: localhost\r\n"
                        f"Inference-Header-Content-Length: {len(head)}\r\nContent-Length: {len(body)}\r\n\r\n"
                        ).encode() + body

    def ask(self, request):
        self.socket.sendall(request)
        answer = self.socket.recv(65536)  # whole: some hundred bytes
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"unexpected answer: {answer[:200]}")

    def calls(self):
        return {"http": lambda: self.ask(self.request), "health": lambda: self.ask(HEALTH),
                "grpc": lambda: self.grpc.infer(MODEL, [self.input])}


def median_us(call, count=250):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=22)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        version = pathlib.Path(folder) / MODEL / "1"
        version.mkdir(parents=True)
        subprocess.run([options.old, "new", MODEL, "-o", version / "model.onnx"], check=True,
                       stdout=subprocess.DEVNULL)
        fronts = [Front(program, folder) for program in (options.old, options.new)]
        found = {kind: ([], []) for kind in fronts[0].calls()}
        for number in range(WARM_UP_ROUNDS + options.rounds):
            for kind, times in found.items():
                for which in ((0, 1) if number % 2 else (1, 0)):
                    time_us = median_us(fronts[which].calls()[kind])
                    if number >= WARM_UP_ROUNDS:
                        times[which].append(time_us)
        for front in fronts:
            front.server.__exit__(None)
    figures = {kind: {"old_us": statistics.median(old), "new_us": statistics.median(new),
                      "ratio": statistics.median(b / a for a, b in zip(old, new))}
               for kind, (old, new) in found.items()}
    for kind, figure in figures.items():
        print(f"{kind:8} {figure['old_us']:8.1f} {figure['new_us']:8.1f} us, new/old {figure['ratio']:.3f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
