"""Measures cells: one model at one batch, precision and number of threads, Tessera against each peer."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import models
import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
LEAST_RUNS, WARM_UP = 3, 2
# Outputs may differ from Tessera's by this part of their norm. int8: both round, at times to either side of a tie,
# layer after layer.
MOST_DIFFERENCE = {"f32": 1e-3, "bf16": 5e-2, "int8": 5e-2}
# The loop of bench_roof that shows what the machine's arithmetic can do at most.
PEAKS = {"f32": "float32 multiply-add", "bf16": "bf16 dot", "int8": "int8 dot"}
# What claims to compute in bf16 but is closer than this to float32 did not.
LEAST_BF16_DIFFERENCE = 2e-4
FIGURES = ["median_ms", "min_ms", "load_ms", "first_ms", "peak_rss_bytes", "imported_rss_bytes"]


class Failure(Exception):
    """A side cannot run a cell; the text goes into the cell."""
    kind = "failure"


class Skipped(Failure):
    """There is nothing to run: the side has no such mode, or this program no way to give it the model."""
    kind = "skipped"


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def last_line(text):
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def run_on(cores, command, limit, folder):
    """The output of a command pinned to these cores; Failure with its last line. Peers' tools may reach no package
    index."""
    environment = {
        **os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PIP_NO_INDEX": "1",
        "PIP_REQUIRE_VIRTUALENV": "1"
    }
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                              timeout=limit, env=environment, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Failure(f"not done after {limit:.0f} s") from None
    finally:
        os.sched_setaffinity(0, before)
    if done.returncode != 0:
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else last_line(done.stderr or done.stdout)
        raise Failure(how)
    return done.stdout


class Case:
    """One model at one batch and precision: its files in a folder of its own, and Tessera's outputs to compare with."""

    def __init__(self, model, batch, precision, arguments, folder):
        self.model, self.batch, self.precision, self.arguments, self.folder = model, batch, precision, arguments, folder
        self.source, self.onnx, self.inputs = folder / "f32.onnx", folder / f"{precision}.onnx", folder / "inputs.npz"
        model.write(self.source, batch)
        feeds = model.feeds(self.source, batch)
        np.savez(self.inputs, **feeds)
        self.feeds = feeds
        if precision == "int8" and not model.quantised:
            models.quantise(self.source, self.onnx, lambda: model.feeds(self.source, batch))
        else:
            self.onnx = self.source
        graph = onnx.load(self.onnx, load_external_data=False).graph
        self.output_names = [value.name for value in graph.output]
        self.float_outputs = [value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for value in graph.output]
        self.fixed_outputs = not any(node.op_type in ("NonMaxSuppression", "NonZero", "Unique", "Loop", "If")
                                     for node in graph.node)
        self.converted = {}
        self.reference, self.reference_failure = None, None

    def cores(self, threads):
        return set(sorted(os.sched_getaffinity(0))[:threads])

    def tessera_precision(self):
        """bf16 is asked for by an option, where this Tessera has it."""
        if self.precision != "bf16":
            return []
        if "--precision" not in run_on(self.cores(1), [self.arguments.tessera, "bench", "--help"], self.arguments.limit,
                                       self.folder):
            raise Skipped("this Tessera has no bf16 mode")
        return ["--precision", "bf16"]

    def find_reference(self):
        """Tessera's outputs, in float32 where the model itself is."""
        target = self.folder / "tessera.npz"
        try:
            run_on(os.sched_getaffinity(0),
                   [self.arguments.tessera, "run", self.onnx, "--inputs", self.inputs, "--outputs", target],
                   self.arguments.limit, self.folder)
            with np.load(target) as file:
                self.reference = [file[name] for name in self.output_names]
        except (Failure, KeyError) as problem:
            self.reference_failure = str(problem)

    def measure_tessera(self, threads):
        command = [
            self.arguments.tessera, "bench", self.onnx, "--inputs", self.inputs, "--threads", threads, "--runs",
            LEAST_RUNS, "--warmup", WARM_UP, "--seconds", self.arguments.seconds, "--json", *self.tessera_precision()
        ]
        return json.loads(run_on(self.cores(threads), command, self.arguments.limit, self.folder))

    def measure_peak(self, threads):
        """Operations a second of multiply-adds alone, at this moment; None for models, and where there is no
        bench_roof."""
        if not self.model.operations or not self.arguments.roof.exists():
            return None
        try:
            roof = json.loads(
                run_on(self.cores(threads), [self.arguments.roof, "--compute", "--json"], self.arguments.limit,
                       self.folder))
        except Failure as failure:
            say(f"no share of the peak: {self.arguments.roof.name}: {failure}")
            return None
        found = [
            row["giga_operations_per_second"] for row in roof["compute"]
            if row["what"] == PEAKS[self.precision] and row["threads"] == threads
        ]
        return max(found, default=0) * 1e9 or None

    def model_for(self, peer):
        """The file that the peer reads; what its own converter says goes into the cell."""
        if peer in self.converted:
            if isinstance(self.converted[peer], Failure):
                raise self.converted[peer]
            return self.converted[peer]
        try:
            self.converted[peer] = {"mnn": self.convert_for_mnn,
                                    "ncnn": self.convert_for_ncnn}.get(peer, lambda: self.onnx)()
        except Failure as failure:
            self.converted[peer] = failure
            raise
        return self.converted[peer]

    def convert_for_mnn(self):
        # The converter itself: its wrapper mnnconvert installs packages by pip and sends what it did to its makers.
        target = self.folder / "model.mnn"
        words = [
            "MNNConvert", "-f", "ONNX", "--modelFile",
            str(self.onnx), "--MNNModel",
            str(target), "--bizCode", "bench"
        ]
        said = run_on(os.sched_getaffinity(0), [sys.executable, "-c", f"import _tools; _tools.mnnconvert({words!r})"],
                      self.arguments.limit, self.folder)
        if not target.exists():
            raise Failure(f"cannot convert the model: {last_line(said)}")
        return target

    def convert_for_ncnn(self):
        if self.precision == "int8":
            raise Skipped("pnnx reads no quantised models")
        if any(value.dtype != np.float32 or value.ndim < 2 or value.shape[0] != 1 for value in self.feeds.values()):
            raise Skipped("run on float32 inputs of batch 1 only")
        target = self.folder / "f32.ncnn.param"
        said = run_on(os.sched_getaffinity(0), ["pnnx", self.onnx, "fp16=0"], self.arguments.limit, self.folder)
        if not target.exists():
            raise Failure(f"cannot convert the model: {last_line(said)}")
        return target

    def measure_peer(self, peer, threads, outputs):
        job, result = self.folder / "job.json", self.folder / "result.json"
        result.unlink(missing_ok=True)
        job.write_text(
            json.dumps({
                "engine": peer, "name": self.model.name, "source": str(self.source), "model": str(self.model_for(peer)),
                "inputs": str(self.inputs), "output_names": self.output_names, "float_outputs": self.float_outputs,
                "fixed_outputs": self.fixed_outputs, "threads": threads, "precision": self.precision,
                "runs": LEAST_RUNS, "warmup": WARM_UP, "seconds": self.arguments.seconds,
                "torch_compile": self.arguments.torch_compile, "outputs": str(outputs) if outputs else "",
                "result": str(result)
            }))
        run_on(self.cores(threads), [sys.executable, HERE / "engines.py", job], self.arguments.limit, self.folder)
        figures = json.loads(result.read_text())
        for kind in (Failure, Skipped):
            if kind.kind in figures:
                raise kind(last_line(figures[kind.kind]))
        return figures

    def difference(self, peer, path):
        """(relative norm of the difference to Tessera's outputs or None, a remark or None)."""
        if self.reference is None:
            return None, f"outputs not compared: Tessera: {self.reference_failure}"
        with np.load(path) as file:
            theirs = [file[name] for name in file.files]
        ours = self.reference[:1] if peer == "torch" else self.reference
        if [value.size for value in theirs] != [value.size for value in ours]:
            shapes = [[value.shape for value in values] for values in (theirs, ours)]
            return None, f"outputs have shapes {shapes[0]}, Tessera's {shapes[1]}"
        worst = max(relative_norm(a, b) for a, b in zip(theirs, ours))
        if not worst <= MOST_DIFFERENCE[self.precision]:
            return worst, f"outputs differ by {worst:.1e}"
        if self.precision == "bf16" and worst < LEAST_BF16_DIFFERENCE:
            return worst, f"outputs are as in float32 ({worst:.1e}): no bf16 was used"
        return worst, None


def relative_norm(found, wanted):
    found, wanted = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    size = np.linalg.norm(wanted)
    return float(np.linalg.norm(found - wanted) / size) if size > 0 else float(np.linalg.norm(found))


def runs(side):
    return "failure" not in side and "skipped" not in side


def medians(rounds):
    """Medians over processes of what each of them measured."""
    kept = {key: [figures[key] for figures in rounds if figures.get(key) is not None] for key in FIGURES}
    return {key: statistics.median(values) for key, values in kept.items() if values}


def measure_cell(case, threads):
    arguments, ours, shares, failed = case.arguments, [], [], None
    theirs = {peer: [] for peer in arguments.peers}
    ratios = {peer: [] for peer in arguments.peers}
    peers = {peer: {} for peer in arguments.peers}
    for turn in range(arguments.rounds):
        for peer in arguments.peers:
            if not runs(peers[peer]):
                continue
            say(f"{case.model.name}, batch {case.batch}, {case.precision}, {threads} threads: round {turn + 1} of "
                f"{arguments.rounds}, {peer}"
                )
            mine = None
            if failed is None:
                try:
                    mine = case.measure_tessera(threads)
                    ours.append(mine)
                    if peak := case.measure_peak(threads):
                        shares.append(case.model.operations * case.batch / (mine["median_ms"] * 1e-3) / peak)
                except Failure as failure:
                    failed = {failure.kind: str(failure)}
            outputs = case.folder / f"{peer}.npz" if turn == 0 else None
            try:
                figures = case.measure_peer(peer, threads, outputs)
                theirs[peer].append(figures)
                if mine is not None:
                    ratios[peer].append(figures["median_ms"] / mine["median_ms"])
                if turn == 0:
                    difference, remark = case.difference(peer, outputs)
                    peers[peer].update(relative_difference=difference, remark=remark, how=figures["how"])
            except Failure as failure:
                peers[peer] = {failure.kind: str(failure)}
    for peer, cell in peers.items():
        if runs(cell):
            cell.update(medians(theirs[peer]), ratios=ratios[peer],
                        ratio=statistics.median(ratios[peer]) if ratios[peer] else None)
    if failed is None and not ours:  # every peer failed: Tessera's own time still counts
        try:
            ours.append(case.measure_tessera(threads))
        except Failure as failure:
            failed = {failure.kind: str(failure)}
    cell = {"model": case.model.name, "batch": case.batch, "precision": case.precision, "threads": threads,
            "tessera": failed if failed is not None else medians(ours), "peers": peers}
    if shares:
        cell["share_of_peak"] = statistics.median(shares)
    return cell


def cells(chosen, arguments, done=frozenset()):
    """Yields the cells of all models but those of `done`, (model, batch, precision, threads); one that cannot be made
    is a cell with the reason."""
    for model in chosen:
        for precision in arguments.precision:
            if model.quantised != (precision == "int8") and model.quantised:
                continue
            for batch in model.batches or arguments.batch:
                threads_left = [
                    threads for threads in arguments.threads if (model.name, batch, precision, threads) not in done
                ]
                if not threads_left:
                    continue
                with tempfile.TemporaryDirectory(prefix="tessera-peers-") as folder:
                    try:
                        case = Case(model, batch, precision, arguments, pathlib.Path(folder))
                        case.find_reference()
                    except Exception as problem:  # also what the quantiser throws
                        yield {
                            "model": model.name, "batch": batch, "precision": precision, "threads": None, "peers": {},
                            "tessera": {"failure": f"the model cannot be made: {last_line(str(problem))}"}
                        }
                        continue
                    for threads in threads_left:
                        yield measure_cell(case, threads)
