#!/usr/bin/env python3
"""Times Tessera and llama.cpp on the same language model in turn, and prints how many times as fast Tessera is.

    bench/generate.py                            # measures and writes the page
    bench/generate.py --quick                    # one format, one thread, one short round: to see that it works
    bench/generate.py --json figures.json        # writes the figures, and no page
    bench/generate.py --render figures.json      # writes the page of these figures
    TESSERA_ISA=avx2 bench/generate.py --json f  # Tessera with AVX2 alone

Ratio = Tessera's tokens per second / llama.cpp's; above 1 Tessera is faster. In every round both run in fresh
processes, one right after the other, on the same file with the same threads; the median of the rounds' ratios counts.
Beside it stands the ratio of tokens per second of processor time, which other programs on the machine disturb less.

The first run compiles llama.cpp (llama-cpp-python, some 10 minutes) into .venv-generate, unless --peer-python names an
interpreter that has it and gguf, and writes the model's other formats into .models/generate.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import textwrap

from built import ensure_built

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-generate"
TOOLS = ROOT / "bench" / "peer_tools"
MODEL = ROOT / ".models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FORMATS = ["q4_1", "q4_0", "q8_0"]
BARS = {  # by format: pp512, tg128, 16 sequences
    "q4_1": (3.0, 1.5, 2.5),
    "q4_0": (1.3, 1.05, 1.3),
    "q8_0": (1.3, 1.05, None),
}
DEPTH_BAR = 1.1


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return text.split(",")

    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program (default: %(default)s)")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL,
                        help="a GGUF file in format q4_1, from which the others are made (default: %(default)s)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / ".models/generate",
                        help="where the other formats are written (default: %(default)s)")
    parser.add_argument("--peer-python", type=pathlib.Path, metavar="FILE",
                        help="an interpreter with llama-cpp-python and gguf (default: that of .venv-generate, which is "
                        "made when it is missing)")
    parser.add_argument("--formats", type=words, default=FORMATS, metavar="NAME,…",
                        help=f"of {','.join(FORMATS)} (default: all)")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="N,…", help="default: 1,2")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="default: %(default)s")
    parser.add_argument("--answer-tokens", type=int, default=128, metavar="N", help="default: %(default)s")
    parser.add_argument("--depth", type=int, default=2048, metavar="N",
                        help="tokens in the cache for the tests at depth (default: %(default)s)")
    parser.add_argument("--sequences", type=int, default=16, metavar="N",
                        help="that generate at once in the batched test (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one format, one thread, one round with few tokens")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures here, and no page")
    parser.add_argument("--render", type=pathlib.Path, metavar="FILE", nargs="+",
                        help="write the page of these figures, then stop")
    parser.add_argument("--markdown", type=pathlib.Path, default=ROOT / "docs/performance_generate.md", metavar="FILE",
                        help="the page (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.formats if name not in FORMATS]
    if unknown:
        parser.error(f"unknown {', '.join(unknown)}; known: {', '.join(FORMATS)}")
    if arguments.quick:
        arguments.formats, arguments.threads, arguments.rounds = ["q4_1"], [1], 1
        arguments.prompt_tokens, arguments.answer_tokens, arguments.depth, arguments.sequences = 128, 16, 256, 4
    if max(arguments.threads) > len(os.sched_getaffinity(0)):
        parser.error(f"{max(arguments.threads)} threads on {len(os.sched_getaffinity(0))} cores")
    return arguments


def peer_python(arguments):
    """The interpreter that has llama.cpp. A half-made .venv-generate is made anew."""
    if arguments.peer_python:
        return arguments.peer_python
    requirements = ROOT / "bench" / "generate-requirements.txt"
    wanted = f"{requirements.read_text()}\n{sys.version}\n{VENV}"
    marker = VENV / ".complete"
    if not marker.exists() or marker.read_text() != wanted:
        if not (3, 11) <= sys.version_info[:2] <= (3, 13) or platform.machine() != "x86_64":
            sys.exit(f"generate: error: the pinned packages need Python 3.11 to 3.13 on x86-64; found "
                     f"{platform.python_version()} on {platform.machine()}; --peer-python names another environment")
        print(f"generate: making {VENV}; llama.cpp is compiled, which takes some 10 minutes", file=sys.stderr)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([
            VENV / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5",
            "--timeout", "60", "--require-hashes", "--no-deps", "-r", requirements
        ], check=True, env={**os.environ, "CXXFLAGS": f"-include {TOOLS / 'tile_configuration.h'}"})
        marker.write_text(wanted)
    return VENV / "bin/python"


def model_in(name, python, arguments):
    """The model in a format; it is made when it is missing."""
    if name == "q4_1":
        return arguments.model
    path = arguments.folder / f"{arguments.model.stem.removesuffix('.Q4_1')}.{name.upper()}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run([python, TOOLS / "requantise_gguf.py", arguments.model, path, name], "the model cannot be converted")
    return path


def run(command, failure):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"generate: error: {failure}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def tests_of(arguments):
    """[kind, tokens, depth, sequences]"""
    prompt, answer = arguments.prompt_tokens, arguments.answer_tokens
    return [["pp", prompt, 0, 1], ["tg", answer, 0, 1], ["pp", prompt, arguments.depth, 1],
            ["tg", answer, arguments.depth, 1], ["tg", answer, 0, arguments.sequences]]


def time_tessera(arguments, model, threads, tests):
    """Tokens a second, and a second of processor time, of each test. Tests of equal depth share a process."""
    rates = {}
    for depth in sorted({test[2] for test in tests}):
        here = [test for test in tests if test[2] == depth]

        def joined(place, kind, here=here):
            return ",".join(str(value) for value in sorted({test[place] for test in here if test[0] == kind}))

        shown = run([
            arguments.tessera, "bench", model, "--threads", str(threads), "--repetitions", "1", "--json", "--depth",
            str(depth), "--prompt-tokens", joined(1, "pp"), "--answer-tokens", joined(1, "tg"), "--batch",
            joined(3, "tg")
        ], "tessera bench failed")
        for result in json.loads(shown)["tests"]:
            rates[result["test"], result["depth"], result["batch"]] = (result["tokens_per_second"],
                                                                       result["tokens_per_cpu_second"])
    return [rates[f"{kind}{tokens}", depth, sequences] for kind, tokens, depth, sequences in tests]


def time_llama(python, model, threads, tests):
    shown = run([python, TOOLS / "llama_speed.py", model, str(threads), json.dumps(tests)], "llama.cpp failed")
    return [tuple(rates) for rates in json.loads(shown.splitlines()[-1])]


def measure(arguments, python):
    cells = []
    tests = tests_of(arguments)
    for name in arguments.formats:
        model = model_in(name, python, arguments)
        for threads in arguments.threads:
            rounds = []
            for number in range(arguments.rounds):
                ours = time_tessera(arguments, model, threads, tests)
                theirs = time_llama(python, model, threads, tests)
                rounds.append((ours, theirs))
                print(f"generate: {name}, {threads} threads, round {number + 1} of {arguments.rounds}: " + ", ".join(
                    f"{label(test)} {a[0]:.0f}/{b[0]:.0f}" for test, a, b in zip(tests, ours, theirs)),
                      file=sys.stderr, flush=True)
            for i, test in enumerate(tests):
                cells.append({
                    "format": name, "bytes": model.stat().st_size, "threads": threads, "test": test,
                    "tessera": [ours[i] for ours, _ in rounds], "llama": [theirs[i] for _, theirs in rounds]
                })
    return cells


def label(test):
    kind, tokens, depth, sequences = test
    return f"{kind}{tokens}" + (f" at depth {depth}" if depth else "") + (f", {sequences} sequences"
                                                                         if sequences > 1 else "")


def bar_of(name, test):
    kind, _, depth, sequences = test
    if depth:
        return DEPTH_BAR
    return BARS[name][0 if kind == "pp" else 1 if sequences == 1 else 2]


def summary(cell):
    """Medians of both programs' rates, of the ratios and of the ratios of processor time."""
    pairs = list(zip(cell["tessera"], cell["llama"]))
    return {
        "tessera": statistics.median(ours[0] for ours, _ in pairs),
        "llama": statistics.median(theirs[0] for _, theirs in pairs),
        "ratio": statistics.median(ours[0] / theirs[0] for ours, theirs in pairs),
        "cpu_ratio": statistics.median(ours[1] / theirs[1] for ours, theirs in pairs),
    }


def row(cell):
    figures, bar = summary(cell), bar_of(cell["format"], cell["test"])
    return (f"| {cell['format'].upper()} | {cell['threads']} | {label(cell['test'])} | {figures['tessera']:.1f} | "
            f"{figures['llama']:.1f} | {figures['ratio']:.2f} | {figures['cpu_ratio']:.2f} | "
            f"{f'{bar:.2f}' if bar else '–'} |")


HEAD = ("| format | threads | test | Tessera, tokens/s | llama.cpp, tokens/s | ratio | ratio by processor time | "
        "aim |\n|---|---|---|---|---|---|---|---|")


def section(figures):
    load = figures["load_average_at_start"]
    busy = ", so that only the ratio by processor time holds" if load > 0.5 else ""
    facts = (f"{figures['machine']}; {figures['date']}; Tessera {figures['tessera']}, llama-cpp-python "
             f"{figures['llama']}; rounds: {figures['rounds']}; load average at the start {load:.1f}{busy}.")
    return [f"## {figures['instructions']}", "", textwrap.fill(facts, 118, break_on_hyphens=False), "", HEAD,
            *[row(cell) for cell in figures["cells"]], ""]


def page(all_figures):
    lines = [
        "# Language models beside llama.cpp", "",
        "Written by `bench/generate.py`; do not edit. `bench/generate.py --help` says how to measure it again.", "",
        textwrap.fill(
            "SmolLM2 with 135 million parameters, as it is shipped (Q4_1) and rounded to other formats. pp512 reads a "
            "prompt of 512 tokens, tg128 generates 128 tokens. Both programs run in turn in fresh processes; figures "
            "are medians, and ratio is the median of the rounds' ratios: above 1 Tessera is faster. The ratio by "
            "processor time leaves out the time that other programs take from both.", 118), ""
    ]
    for figures in all_figures:
        lines += section(figures)
    return "\n".join(lines)


def describe(arguments, python):
    shown = run([arguments.tessera, "--version"], "tessera does not run").splitlines()
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True,
                            check=False).stdout.strip()
    llama = run([python, "-c", "import importlib.metadata as m; print(m.version('llama-cpp-python'))"],
                f"{python} has no llama-cpp-python")
    isa = os.environ.get("TESSERA_ISA", "")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "machine": shown[1].removeprefix("machine: "),
        "instructions": f"Tessera with TESSERA_ISA={isa}" if isa else "All instruction sets",
        "tessera": f"{shown[0].removeprefix('tessera ')} {commit}".strip(),
        "llama": llama.strip(),
        "rounds": arguments.rounds,
        "load_average_at_start": os.getloadavg()[0],
    }


def main():
    arguments = parse()
    if arguments.render:
        arguments.markdown.write_text(page([json.loads(path.read_text()) for path in arguments.render]))
        return
    if not arguments.model.exists():
        sys.exit(f"generate: error: there is no {arguments.model}; python3 scripts/fetch_models.py smollm2 fetches it")
    ensure_built(arguments.tessera)
    python = peer_python(arguments)
    figures = describe(arguments, python)
    if figures["load_average_at_start"] > 0.5:
        print(f"generate: the machine is not quiet: load average {figures['load_average_at_start']:.2f}",
              file=sys.stderr)
    figures["cells"] = measure(arguments, python)
    print(HEAD)
    for cell in figures["cells"]:
        print(row(cell))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    elif not arguments.quick:
        arguments.markdown.write_text(page([figures]))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
