"""Compares single operators with onnxruntime: many cases become the nodes of one model, which runs through both
programs.

A test file makes a list of `Case`s and hands it to `main`. Every model runs on device "reference" with the shapes
written in the model, and on device "cpu" with free dimensions. What Tessera's writer makes of a model runs through
onnxruntime again.
"""

import argparse
import collections
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

RELATIVE, ABSOLUTE = 1e-3, 1e-4
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NODES_A_MODEL = 60
# Types that .npz files hold; values of other types are initializers, and leave through a Cast.
NUMPY_TYPES = {
    np.dtype(name) for name in
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
}


@dataclasses.dataclass
class Constant:
    """An input that is an initializer of the model: an array, or a TensorProto for what arrays cannot say."""
    value: object


@dataclasses.dataclass
class Case:
    """One node. `inputs`: arrays, `Constant`s, or None where absent; `outputs`: the element type of each, or None where
    not asked for.

    Floats agree within `relative` and `absolute`, other values exactly. `steps` > 0 is for quantised outputs: both
    programs round a float32 intermediate that was computed in another order, so that where it lies at a tie the results
    may be `steps` apart. This may happen to at most `share` of the elements of a case, but always to one.
    """
    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: list = dataclasses.field(default_factory=lambda: [np.float32])
    label: str = ""
    relative: float = RELATIVE
    absolute: float = ABSOLUTE
    steps: int = 0
    share: float = 0.02

    def __str__(self):
        shapes = ", ".join("-" if value is None else f"{dtype_of(value)}{list(shape_of(value))}"
                           for value in self.inputs)
        return f"{self.op}({shapes}) {self.attributes}" + (f" [{self.label}]" if self.label else "")


class Problem(Exception):
    pass


def array_of(value):
    value = value.value if isinstance(value, Constant) else value
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def shape_of(value):
    return array_of(value).shape


def dtype_of(value):
    return array_of(value).dtype


def element_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def through_file(dtype):
    """The type that carries values of this one out of a program, exactly."""
    dtype = np.dtype(dtype)
    if dtype in NUMPY_TYPES:
        return dtype
    return np.dtype(np.int8 if "int" in dtype.name else np.float32)


def build(cases, free_dims, opset=21):
    """One model with a node a case, and its feed. Values are named by case: in<case>_<i>, out<case>_<i>."""
    nodes, inputs, outputs, initializers, feed = [], [], [], [], {}
    for index, case in enumerate(cases):
        domain, _, op = case.op.rpartition("::")
        given, made = [], []
        for i, value in enumerate(case.inputs):
            name = "" if value is None else f"in{index}_{i}"
            given.append(name)
            if value is None:
                continue
            if isinstance(value, Constant) or dtype_of(value) not in NUMPY_TYPES:
                raw = value.value if isinstance(value, Constant) else value
                proto = onnx.TensorProto.FromString(raw.SerializeToString()) if isinstance(
                    raw, onnx.TensorProto) else numpy_helper.from_array(np.asarray(raw))
                proto.name = name
                initializers.append(proto)
            else:
                feed[name] = np.asarray(value)
                shape = [f"{name}_{axis}" for axis in range(feed[name].ndim)] if free_dims else feed[name].shape
                inputs.append(helper.make_tensor_value_info(name, element_type(feed[name].dtype), shape))
        for i, dtype in enumerate(case.outputs):
            name = "" if dtype is None else f"out{index}_{i}"
            if dtype is None:
                made.append("")
                continue
            file_type = through_file(dtype)
            outputs.append(helper.make_tensor_value_info(name, element_type(file_type), None))
            made.append(name if file_type == np.dtype(dtype) else f"raw{index}_{i}")
            if made[-1] != name:
                nodes.append(helper.make_node("Cast", [made[-1]], [name], to=element_type(file_type)))
        while given and not given[-1]:
            given.pop()
        nodes.append(helper.make_node(op, given, made, name=f"case{index}", domain=domain, **case.attributes))
    nodes.sort(key=lambda node: node.op_type == "Cast" and not node.name)  # a node stands before those that read it
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feed


def run_onnxruntime(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # The operator itself is the oracle, not what a fusion makes of it.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def run_tessera(tessera, model, feed, device, folder):
    path, given, made = folder / "model.onnx", folder / "in.npz", folder / "out.npz"
    onnx.save(model, path)
    np.savez(given, **feed)
    made.unlink(missing_ok=True)
    command = [tessera, "run", path, "--inputs", given, "--outputs", made, "--device", device, "--threads", "2"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Problem(f"{device}: exit status {done.returncode}: {lines[0][:400]}")
    with np.load(made) as archive:
        return {name: archive[name] for name in archive.files}


def run_rewritten(rewrite, model, feed, folder):
    """What onnxruntime computes from the model that Tessera read and wrote."""
    path, written = folder / "model.onnx", folder / "written.onnx"
    onnx.save(model, path)
    done = subprocess.run([str(rewrite), str(path), str(written)], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Problem(f"writer: {done.stderr.strip()[:400]}")
    try:
        return run_onnxruntime(onnx.load(written), feed)
    except Exception as error:  # onnxruntime has an exception type a kind of fault
        raise Problem(f"onnxruntime refuses what was written: {str(error)[:400]}") from None


def compare(case, index, expected, actual):
    """How many values lie a step apart; raises Problem for anything worse."""
    apart = 0
    for i, dtype in enumerate(case.outputs):
        if dtype is None:
            continue
        want, have = expected[f"out{index}_{i}"], actual[f"out{index}_{i}"]
        if have.dtype != want.dtype or have.shape != want.shape:
            raise Problem(f"output {i}: {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}")
        if want.size == 0:
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.where((have == want) | ((have != have) & (want != want)), 0,
                                  np.abs(have.astype(np.float64) - want.astype(np.float64)))
            limit = case.absolute + case.relative * np.abs(want.astype(np.float64)) if np.issubdtype(
                want.dtype, np.floating) else np.full(want.shape, float(case.steps))
        if case.steps and not np.issubdtype(want.dtype, np.floating):
            apart += np.count_nonzero(difference)
            if np.count_nonzero(difference) > max(1, case.share * want.size):
                raise Problem(
                    f"output {i}: {np.count_nonzero(difference)} of {want.size} values differ, by up to "
                    f"{difference.max():g}"
                )
        wrong = ~(difference <= limit)
        if wrong.any():
            place = tuple(int(axis) for axis in np.argwhere(wrong)[0])
            raise Problem(
                f"output {i}: {np.count_nonzero(wrong)} of {want.size} values differ; at {list(place)} "
                f"{have[place]!r}, expected {want[place]!r}"
            )
    return apart


def check(tessera, rewrite, cases, folder, failures):
    """Appends (case, reason) to failures; returns how many quantised values lie a step apart. A model that does not run
    is run a case at a time."""
    runs = {
        device: lambda free_dims=free_dims, device=device: run_tessera(tessera, *build(
            cases, free_dims), device, folder) for device, free_dims in [("reference", False), ("cpu", True)]
    }
    if rewrite:
        runs["written"] = lambda: run_rewritten(rewrite, *build(cases, False), folder)
    try:
        expected = run_onnxruntime(*build(cases, False))
    except Exception as error:  # onnxruntime has an exception type a kind of fault
        if len(cases) > 1:
            return sum(check(tessera, rewrite, [case], folder, failures) for case in cases)
        failures.append((cases[0], f"onnxruntime: {str(error)[:400]}"))
        return 0
    apart = 0
    for device, run in runs.items():
        try:
            actual = run()
        except Problem as problem:
            if len(cases) > 1:
                return sum(check(tessera, rewrite, [case], folder, failures) for case in cases)
            failures.append((cases[0], str(problem)))
            continue
        for index, case in enumerate(cases):
            try:
                apart += compare(case, index, expected, actual)
            except Problem as problem:
                failures.append((case, f"{device}: {problem}"))
    return apart


def check_all(tessera, rewrite, cases):
    """Prints a row an operator and every failure; returns the number of failures."""
    groups = collections.defaultdict(list)
    for case in cases:
        groups[case.op].append(case)
    failures = []
    with tempfile.TemporaryDirectory(prefix="tessera-peers-") as name:
        for op, members in groups.items():
            before = len(failures)
            batches = [members[i:i + NODES_A_MODEL] for i in range(0, len(members), NODES_A_MODEL)]
            apart = sum(check(tessera, rewrite, batch, pathlib.Path(name), failures) for batch in batches)
            note = f"; {apart} quantised values a step apart" if apart else ""
            print(f"{op:44} {len(members):5} cases, {len(failures) - before} differ{note}", flush=True)
    for case, reason in failures:
        print(f"FAILED {case}: {reason}")
    print(f"{len(cases)} cases compared with onnxruntime {onnxruntime.__version__}: {len(failures)} differ")
    return len(failures)


def main(make_cases, description):
    """`make_cases(generator)` gives the cases; the seed is fixed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build/release/apps/tessera/tessera",
                        help="the program")
    parser.add_argument("--rewrite", type=pathlib.Path, help="the program that reads and writes a model")
    parser.add_argument("--only", default="", help="only operators whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cases = [case for case in make_cases(np.random.default_rng(arguments.seed)) if arguments.only in case.op]
    if not cases:
        parser.error(f"no operator has '{arguments.only}' in its name")
    sys.exit(1 if check_all(arguments.tessera, arguments.rewrite, cases) else 0)
