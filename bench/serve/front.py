"""What the server's fronts add to a model: the p50 of perf_analyzer at concurrency 1, less the p50 in the process.

  front.py ROOT MODEL.onnx [--tessera PROGRAM] [--other PROGRAM] [--rounds 5]

ROOT is a Debian trixie root with perf_analyzer in it (bench/serve/perf_analyzer.sh makes one). All measurements are
taken in turn, many short runs each, and the least median counts, since whatever else the machine does can only add to
it. With --other the same is measured for a second program.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position


def perf_analyzer(root, protocol, port, model):
    """The p50 of one short run, in microseconds."""
    command = ["chroot", root, "/pa/perf_analyzer/bin/perf_analyzer", "-m", model, "-u", f"127.0.0.1:{port}",
               "-i", protocol, "--concurrency-range", "1", "-p", "700", "-r", "5", "-s", "999", "--percentile", "50"]
    for _ in range(5):  # on a busy machine it gives up at times
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        found = re.search(r"p50 latency: (\d+) usec", done.stdout)
        if found:
            return int(found[1])
    raise SystemExit(f"perf_analyzer says no p50:\n{done.stdout}{done.stderr}")


def in_process(program, model):
    done = subprocess.run([program, "bench", model, "--seconds", "1", "--runs", "50", "--json", "--dim", "batch=1"],
                          capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)["median_ms"] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("root")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tessera", default="build/release/apps/tessera/tessera")
    parser.add_argument("--other")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    name = options.model.stem
    programs = [options.tessera] + ([options.other] if options.other else [])
    servers, found = {}, {}
    for program in programs:
        serving.program = program
        servers[program] = serving.Server(options.model)
    for _ in range(options.rounds):
        for program in programs:
            found.setdefault((program, "in process"), []).append(in_process(program, options.model))
            for protocol in ("http", "grpc"):
                port = servers[program].ports[protocol]
                found.setdefault((program, protocol), []).append(perf_analyzer(options.root, protocol, port, name))
    for program in programs:
        servers[program].stop()
        alone = min(found[program, "in process"])
        print(f"{program}: {name} in process {alone:.0f} us")
        for protocol in ("http", "grpc"):
            values = found[program, protocol]
            print(f"  {protocol}: {min(values)} us, of it the front {min(values) - alone:.0f} us  {values}")


if __name__ == "__main__":
    main()
