#!/usr/bin/env python3
"""Does the simulator say what this machine does? Records two models, runs them beside each other for real, and
simulates the same trace.

  bench/share/reproduce.py [--policies fill,fair,fifo] [--realtime NET] [--background NET] [--load 0.3] [--seconds 8]
                           [--rounds 3] [--json]

`tessera share record` measures the steps of both nets on the quiet machine. A trace makes one of them a realtime job
with Poisson arrivals at --load of what it could answer and the other a background job that always has work; there is as
much of it as the realtime job is expected to leave time for. The trace is run for real (bench_run_trace) and in virtual
time (tessera share simulate), with the same arrivals, --rounds times in turn. Compared are the medians of the realtime
job's p50 and p99 and of the background's throughput; the target is 15%. What is missing in build/release is
built. Figures of a machine that does other work beside say little."""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from built import ensure_built  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESSERA = ROOT / "build/release/apps/tessera/tessera"
RUN_TRACE = ROOT / "build/release/bench/bench_run_trace"


def output_of(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True, text=True).stdout


def recorded(model, name, priority, runs):
    """A job's table of a trace, with the median time of each step, and the milliseconds of a run."""
    text = output_of(TESSERA, "share", "record", model, "--name", name, "--class", priority, "--runs", runs)
    steps = re.search(r"steps_us = \[(.*?)\]", text).group(1)
    return text, 1e-3 * sum(float(step) for step in steps.split(","))


def with_arrivals(text, **keys):
    """The table with these keys in place of its own."""
    lines = [line for line in text.splitlines() if line.split(" = ")[0] not in ("arrivals", "requests", "rate", *keys)]
    return "\n".join(lines + [f"{key} = {json.dumps(value)}" for key, value in keys.items()]) + "\n"


def figures(jobs):
    by_name = {job["name"]: job for job in jobs}
    background = by_name["background"]
    return {"p50_ms": by_name["realtime"]["p50_ms"], "p99_ms": by_name["realtime"]["p99_ms"],
            "throughput": 1e3 * background["runs"] / background["completion_ms"]}


def compare(policy, models, options, folder):
    real, simulated = [], []
    for number in range(options.rounds):
        realtime, realtime_ms = recorded(models["realtime"], "realtime", "realtime", 100)
        background, background_ms = recorded(models["background"], "background", "background", 30)
        rate = 1e3 * options.load / realtime_ms
        left_ms = 1e3 * options.seconds * (1 - options.load)
        trace = folder / f"{policy}{number}.toml"
        trace.write_text(
            f"seed = {11 + number}\n"
            + with_arrivals(realtime, goal_ms=2 * realtime_ms, arrivals="poisson", rate=rate,
                            requests=int(rate * options.seconds) + 1)
            + with_arrivals(background, arrivals="closed", requests=max(1, int(0.9 * left_ms / background_ms))))
        jobs = [word for name, model in models.items() for word in ("--job", f"{name}={model}")]
        real.append(figures(json.loads(output_of(RUN_TRACE, trace, "--policy", policy, *jobs))["jobs"]))
        simulate = ("share", "simulate", trace, "--device", options.device, "--policy", policy, "--json")
        answer = json.loads(output_of(TESSERA, *simulate))
        simulated.append(figures(answer["policies"][0]["jobs"]))
    result = {}
    for key in real[0]:
        measured, said = (statistics.median(each[key] for each in runs) for runs in (real, simulated))
        ratio = statistics.median(said_of[key] / of[key] for said_of, of in zip(simulated, real))
        result[key] = {"real": measured, "simulated": said, "ratio": ratio}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default="fill,fair,fifo")
    parser.add_argument("--realtime", default="mobilenet_v3_small", help="a net of `tessera new` or a file")
    parser.add_argument("--background", default="resnet18_cifar", help="a net of `tessera new` or a file")
    parser.add_argument("--device", default="cpu", help="that is simulated: any profile of a CPU")
    parser.add_argument("--load", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, default=8, help="of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ensure_built(TESSERA, RUN_TRACE)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {"realtime": options.realtime, "background": options.background}
        for job, net in models.items():
            if "." not in net:
                models[job] = folder / f"{net}.onnx"
                output_of(TESSERA, "new", net, "--dim", "batch=1", "-o", models[job])
        results = {policy: compare(policy, models, options, folder) for policy in options.policies.split(",")}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'policy':<12}{'figure':<14}{'real':>10}{'simulated':>12}{'ratio':>8}")
    for policy, figures_of in results.items():
        for key, each in figures_of.items():
            print(f"{policy:<12}{key:<14}{each['real']:>10.2f}{each['simulated']:>12.2f}{each['ratio']:>8.2f}")


if __name__ == "__main__":
    main()
