#!/usr/bin/env python3
"""Times Tessera and other programs on the same models in turn, and prints how many times as long as Tessera each takes.

    bench/peers.py --setup                       # once: .venv-peers with the pinned programs (5 GB, most of it torch's)
    bench/peers.py --json figures.json           # measures; a table while it runs
    bench/peers.py --render figures.json         # writes docs/performance.md from the figures
    bench/peers.py --render figures.json --readme  # replaces the table in README.md instead
    bench/peers.py --train                       # training steps beside torch's: bench/train_speed.py and its options

Ratio = the peer's median time / Tessera's; above 1 Tessera is faster. For every peer and round both run in fresh
processes, one right after the other, on the same cores with the same threads and inputs; the median of the rounds'
ratios counts, so a drift of the machine's speed does not. Wants a quiet machine, a release build, and
scripts/fetch_models.py for the real models.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from built import ensure_built

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-peers"
PEERS = ["onnxruntime", "openvino", "torch", "mnn", "ncnn"]
QUICK_MODELS = ["mobilenet_v2", "bert_mini", "gemm_35x700x2048", "conv_128x14x14_256_3x3"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text):
        return [int(word) for word in text.split(",")]

    def words(text):
        return text.split(",")

    parser.add_argument("--setup", action="store_true",
                        help="make .venv-peers from bench/peers-requirements.txt, then stop")
    parser.add_argument("--render", type=pathlib.Path, metavar="FILE",
                        help="write the page of these figures to --markdown, then stop")
    parser.add_argument("--readme", action="store_true",
                        help="with --render: replace the table of README.md, instead of writing the page")
    parser.add_argument("--list", action="store_true", help="list the models, then stop")
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--models", type=words, default=[], metavar="NAME,…",
                        help="names of --list, or .onnx files (default: all of --list)")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N",
                        help="size of a free dimension of .onnx files given by --models")
    parser.add_argument("--peers", type=words, default=PEERS, metavar="NAME,…",
                        help=f"of {','.join(PEERS)} (default: all)")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="N,…", help="default: 1,2")
    parser.add_argument("--batch", type=numbers, default=[1, 8], metavar="N,…",
                        help="default: 1,8; some models have one batch only")
    parser.add_argument("--precision", type=words, default=["f32"], metavar="NAME,…",
                        help="of f32, bf16, int8 (default: f32)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1,
                        help="of timed runs a process, at least three runs (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=300,
                        help="most seconds for one process or conversion (default: %(default)s)")
    parser.add_argument("--torch-compile", action="store_true",
                        help="torch.compile instead of eager torch (needs a C++ compiler)")
    parser.add_argument("--quick", action="store_true",
                        help="a few models, batch 1, one thread, one short round: to see that it works")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write the figures; after every cell, so that what is measured is kept")
    parser.add_argument("--resume", action="store_true",
                        help="keep what --json FILE has from the same versions and settings, and measure the rest")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE",
                        help="write the page (with --render: docs/performance.md if not given)")
    arguments = parser.parse_args()
    arguments.tessera = arguments.tessera.resolve()
    arguments.roof = ROOT / "build/release/bench/bench_roof"
    for given, known in [(arguments.peers, PEERS), (arguments.precision, ["f32", "bf16", "int8"])]:
        unknown = [word for word in given if word not in known]
        if unknown:
            parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
    if arguments.quick:
        arguments.models = arguments.models or QUICK_MODELS
        arguments.batch, arguments.threads, arguments.rounds, arguments.seconds = [1], [1], 1, 0.3
    if arguments.resume and not arguments.json:
        parser.error("--resume goes on with the file of --json: name it")
    if max(arguments.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"{max(arguments.threads)} threads on {len(os.sched_getaffinity(0))} cores")
    return arguments


def set_up():
    """The marker is written last: a half-made .venv-peers is made anew."""
    requirements = ROOT / "bench" / "peers-requirements.txt"
    wanted = f"{requirements.read_text()}\n{sys.version}\n{VENV}"
    marker = VENV / ".complete"
    if marker.exists() and marker.read_text() == wanted:
        print(f"{VENV} is up to date")
        return
    if not (3, 11) <= sys.version_info[:2] <= (3, 13) or platform.machine() != "x86_64":
        sys.exit(
            f"peers: error: the pinned wheels need Python 3.11 to 3.13 on x86-64; found {platform.python_version()} "
            f"on {platform.machine()}"
        )
    print(f"making {VENV} from {requirements}", file=sys.stderr)
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([
        VENV / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5",
        "--timeout", "60", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", requirements
    ], check=True)
    marker.write_text(wanted)


def enter_venv():
    """Runs this program again with the interpreter of .venv-peers, which has what the models are made with."""
    if pathlib.Path(sys.prefix) != VENV:
        if not (VENV / ".complete").exists():
            sys.exit("peers: error: there is no complete .venv-peers: run bench/peers.py --setup")
        os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
    sys.path.insert(0, str(ROOT / "bench" / "peer_tools"))


def chosen_models(arguments):
    import models
    known = [
        *models.tessera_models(arguments.tessera), *models.real_models(ROOT / ".models"), *models.deep_bench_models()
    ]
    if arguments.list or not arguments.models:
        return known
    dims = {name: int(size) for name, size in (entry.split("=") for entry in arguments.dim)}
    by_name = {model.name: model for model in known}
    unknown = [name for name in arguments.models if name not in by_name and not name.endswith(".onnx")]
    if unknown:
        sys.exit(f"peers: error: unknown model {', '.join(unknown)}; see --list")
    return [by_name[name] if name in by_name else models.file_model(name, dims) for name in arguments.models]


def describe(arguments):
    from importlib import metadata
    names = {"onnxruntime": "onnxruntime", "openvino": "openvino", "torch": "torch", "mnn": "mnn", "ncnn": "ncnn"}
    shown = subprocess.run([arguments.tessera, "--version"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                            text=True).stdout.strip()
    memory = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                  if line.startswith("MemTotal"))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "machine": shown[1].removeprefix("machine: "),
        "memory_gib": round(int(memory.split()[1]) / 2**20, 1),
        "system": platform.platform(),
        "load_average_at_start": os.getloadavg()[0],
        "versions": {
            "tessera": f"{shown[0].removeprefix('tessera ')} {commit}".strip(),
            **{peer: metadata.version(names[peer]) for peer in arguments.peers}
        },
        "settings": {
            "rounds": arguments.rounds, "seconds": arguments.seconds,
            "torch": "torch.compile" if arguments.torch_compile else "eager"
        },
        "cells": [],
    }


def earlier(new, old):
    """The figures to go on with; they must be of the same programs, machine and settings."""
    for key in ("versions", "settings", "machine"):
        if new[key] != old[key]:
            sys.exit(f"peers: error: cannot resume: {key} then {old[key]}, now {new[key]}")
    return old


def replace_readme_table(lines):
    """What stands in README.md between the lines '<!-- ratios: begin … -->' and '<!-- ratios: end -->' becomes these
    lines."""
    path = ROOT / "README.md"
    before, begin, rest = path.read_text().partition("<!-- ratios: begin")
    head, end, after = rest.partition("<!-- ratios: end -->")
    if not begin or not end:
        sys.exit(
            "peers: error: README.md has no '<!-- ratios: begin … -->' and '<!-- ratios: end -->' to put the table "
            "between"
        )
    text = before + begin + head.splitlines()[0] + "\n" + "\n".join(lines) + "\n" + end + after
    path.write_text(text)


def main():
    if "--train" in sys.argv:
        rest = [word for word in sys.argv[1:] if word != "--train"]
        os.execv(sys.executable, [sys.executable, str(ROOT / "bench/train_speed.py"), *rest])
    arguments = parse()
    if arguments.setup:
        set_up()
        return 0
    sys.path.insert(0, str(ROOT / "bench" / "peer_tools"))
    import report
    page = arguments.markdown or ROOT / "docs" / "performance.md"
    if arguments.render and arguments.readme:
        replace_readme_table(report.readme_table(json.loads(arguments.render.read_text())))
        return 0
    if arguments.render:
        page.write_text(report.markdown(json.loads(arguments.render.read_text())))
        return 0
    enter_venv()
    if arguments.list:
        print("\n".join(model.name for model in chosen_models(arguments)))
        return 0
    ensure_built(arguments.tessera)
    import measure
    figures = describe(arguments)
    if figures["load_average_at_start"] > 0.3:
        print(
            f"peers: the machine is not quiet: load average {figures['load_average_at_start']:.2f}; times will not "
            f"hold",
            file=sys.stderr)
    print(report.terminal_head(arguments.peers), flush=True)
    if arguments.resume and arguments.json.exists():
        figures = earlier(figures, json.loads(arguments.json.read_text()))
    done = {(cell["model"], cell["batch"], cell["precision"], cell["threads"]) for cell in figures["cells"]}
    for cell in measure.cells(chosen_models(arguments), arguments, done):
        figures["cells"].append(cell)
        print(report.terminal_row(cell, arguments.peers), flush=True)
        if arguments.json:
            partial = arguments.json.with_name(arguments.json.name + ".part")
            partial.write_text(json.dumps(figures, indent=1) + "\n")
            partial.replace(arguments.json)
    print(report.terminal_summary(figures["cells"], arguments.peers))
    if arguments.markdown:
        page.write_text(report.markdown(figures))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
