#!/usr/bin/env python3
"""One program measured in one fresh process: engines.py JOB.json, started by bench/peers.py.

The job says which engine, model, inputs (.npz), threads, precision, and for how long; the figures go to the file that
it names. Load is the time from the file to a session that can run; the interpreter and the imports of an engine are not
counted.
"""
import json
import pathlib
import sys
import time

import numpy as np


class Skipped(Exception):
    """Nothing to compare: there is no such mode or module; the text says which."""


class Unsupported(Exception):
    """The engine cannot do it; the text says what."""


class OnnxRuntime:
    reads_file = True

    def __init__(self, job):
        import onnxruntime
        if job["precision"] == "bf16":
            raise Skipped("has no bf16 mode for float32 models on x86")
        self.library, self.job = onnxruntime, job
        self.options = onnxruntime.SessionOptions()
        self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        self.options.intra_op_num_threads = job["threads"]
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def load(self):
        self.session = self.library.InferenceSession(self.job["model"], self.options,
                                                     providers=["CPUExecutionProvider"])

    def bind(self, feeds):
        self.feeds, self.binding = feeds, None

    def run(self):
        if self.binding is not None:
            self.session.run_with_iobinding(self.binding)
        else:
            self.results = self.session.run(None, self.feeds)

    def settle(self):
        """After the first run the shapes of the outputs are known: inputs and outputs keep their places from now on."""
        if not all(isinstance(result, np.ndarray) and result.dtype != object for result in self.results):
            return "plain run"
        binding = self.session.io_binding()
        self.held = [(name, self.library.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
                     for name, value in self.feeds.items()]
        for name, value in self.held:
            binding.bind_ortvalue_input(name, value)
        if self.job["fixed_outputs"]:
            self.made = [self.library.OrtValue.ortvalue_from_numpy(np.zeros_like(result)) for result in self.results]
            for entry, value in zip(self.session.get_outputs(), self.made):
                binding.bind_ortvalue_output(entry.name, value)
        else:
            for entry in self.session.get_outputs():
                binding.bind_output(entry.name, "cpu")
        self.binding = binding
        return "IO binding"

    def outputs(self):
        return self.results if self.binding is None else self.binding.copy_outputs_to_cpu()


class OpenVino:
    # Computing in bf16 is this engine's default on CPUs that have it, and so is rounding data to bytes before weights
    # of bytes: the precision is always stated.
    reads_file = True
    HINT = {"f32": "f32", "bf16": "bf16", "int8": "f32"}

    def __init__(self, job):
        import openvino
        self.library, self.job = openvino, job

    def load(self):
        core = self.library.Core()
        model = core.read_model(self.job["model"])
        self.compiled = core.compile_model(
            model, "CPU", {
                "INFERENCE_PRECISION_HINT": self.HINT[self.job["precision"]],
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": self.job["threads"],
                "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
            })
        self.request = self.compiled.create_infer_request()

    def bind(self, feeds):
        self.feeds = [np.ascontiguousarray(feeds[entry.any_name]) for entry in self.compiled.inputs]
        for index, value in enumerate(self.feeds):
            self.request.set_input_tensor(index, self.library.Tensor(value, shared_memory=True))

    def run(self):
        self.request.infer(share_outputs=True)

    def settle(self):
        shapes = "static" if all(entry.partial_shape.is_static for entry in self.compiled.inputs) else "dynamic"
        return f"precision hint {self.compiled.get_property('INFERENCE_PRECISION_HINT').to_string()}, {shapes} shapes"

    def outputs(self):
        return [self.request.get_output_tensor(index).data for index in range(len(self.compiled.outputs))]


class Torch:
    reads_file = False  # the module is built by code, so there is no load time to compare

    def __init__(self, job):
        import torch
        import torch_modules
        if job["precision"] == "int8":
            raise Skipped("the modules compared here have no int8 form")
        self.library, self.job = torch, job
        torch.set_num_threads(job["threads"])
        torch.set_grad_enabled(False)
        made = torch_modules.build(job["name"], job["source"])
        if made is None:
            raise Skipped("torchvision has no module of this architecture")
        self.module = made.eval()

    def load(self):
        torch = self.library
        self.kind = torch.bfloat16 if self.job["precision"] == "bf16" else torch.float32
        self.module = self.module.to(self.kind)
        if any(parameter.dim() == 4 for parameter in self.module.parameters()):
            self.module = self.module.to(memory_format=torch.channels_last)
        if self.job["torch_compile"]:
            self.module = torch.compile(self.module)

    def bind(self, feeds):
        torch = self.library
        self.feeds = [torch.from_numpy(value).to(self.kind) for value in feeds.values()]
        self.feeds = [
            value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value for value in self.feeds
        ]

    def run(self):
        with self.library.inference_mode():
            self.result = self.module(*self.feeds)

    def settle(self):
        return "torch.compile" if self.job["torch_compile"] else "eager"

    def outputs(self):
        return [self.result.float().contiguous().numpy()]


class Mnn:
    reads_file = True

    def __init__(self, job):
        import MNN
        self.library, self.job = MNN, job

    def load(self):
        self.interpreter = self.library.Interpreter(self.job["model"])
        precision = "low" if self.job["precision"] == "bf16" else "high"
        self.session = self.interpreter.createSession(
            {"backend": "CPU", "numThread": self.job["threads"], "precision": precision})

    def bind(self, feeds):
        mnn = self.library
        kinds = {"float32": mnn.Halide_Type_Float, "int32": mnn.Halide_Type_Int}
        given = self.interpreter.getSessionInputAll(self.session)
        if any(tuple(given[name].getShape()) != value.shape for name, value in feeds.items()):
            for name, value in feeds.items():
                self.interpreter.resizeTensor(given[name], value.shape)
            self.interpreter.resizeSession(self.session)
            given = self.interpreter.getSessionInputAll(self.session)
        self.inputs = []
        for name, value in feeds.items():
            value = np.ascontiguousarray(value.astype(np.int32) if value.dtype in (np.int64, np.bool_) else value)
            if value.dtype.name not in kinds:
                raise Unsupported(f"no input of type {value.dtype}")
            self.inputs.append(
                (given[name], mnn.Tensor(value.shape, kinds[value.dtype.name], value, mnn.Tensor_DimensionType_Caffe)))

    def run(self):
        for place, value in self.inputs:  # a run uses the memory of its inputs for other things
            place.copyFrom(value)
        code = self.interpreter.runSession(self.session)
        if code not in (0, None):
            raise Unsupported(f"runSession returns {code}")

    def settle(self):
        return "session, inputs copied at each run"

    def outputs(self):
        mnn, results = self.library, []
        made = self.interpreter.getSessionOutputAll(self.session)
        for name, is_float in zip(self.job["output_names"], self.job["float_outputs"]):
            shape, kind = made[name].getShape(), mnn.Halide_Type_Float if is_float else mnn.Halide_Type_Int
            value = np.zeros(shape, np.float32 if is_float else np.int32)
            host = mnn.Tensor(shape, kind, value, mnn.Tensor_DimensionType_Caffe)
            made[name].copyToHostTensor(host)
            results.append(np.array(host.getNumpyData()).reshape(shape))
        return results


class Ncnn:
    reads_file = True

    def __init__(self, job):
        import ncnn
        self.library, self.job = ncnn, job

    def load(self):
        self.net = self.library.Net()
        self.net.opt.num_threads = self.job["threads"]
        self.net.opt.use_vulkan_compute = False
        self.net.opt.use_fp16_packed = self.net.opt.use_fp16_storage = self.net.opt.use_fp16_arithmetic = False
        self.net.opt.use_bf16_storage = self.job["precision"] == "bf16"
        if self.net.load_param(self.job["model"]) != 0 or self.net.load_model(
                str(pathlib.Path(self.job["model"]).with_suffix(".bin"))) != 0:
            raise Unsupported("cannot load what pnnx made of the model")

    def bind(self, feeds):
        self.arrays = [np.ascontiguousarray(value[0] if value.ndim > 1 else value) for value in feeds.values()]
        self.mats = [self.library.Mat(value) for value in self.arrays]

    def run(self):
        extractor = self.net.create_extractor()
        for index, mat in enumerate(self.mats):
            extractor.input(f"in{index}", mat)
        self.results = []
        for index in range(len(self.job["output_names"])):
            code, mat = extractor.extract(f"out{index}")
            if code != 0:
                raise Unsupported(f"extract returns {code}")
            self.results.append(mat)

    def settle(self):
        return "converted by pnnx"

    def outputs(self):
        return [np.array(mat) for mat in self.results]


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": Torch, "mnn": Mnn, "ncnn": Ncnn}


def memory_bytes(key):
    """VmRSS, now, or VmHWM, the most so far, of this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def measure(job):
    with np.load(job["inputs"]) as file:
        feeds = dict(file)
    engine = ENGINES[job["engine"]](job)
    figures = {"imported_rss_bytes": memory_bytes("VmRSS"), "load_ms": timed(engine.load)}
    if not engine.reads_file:
        figures["load_ms"] = None
    engine.bind(feeds)
    figures["first_ms"] = timed(engine.run)
    figures["how"] = engine.settle()
    for _ in range(job["warmup"]):
        engine.run()
    times, start = [], time.perf_counter()
    while len(times) < job["runs"] or time.perf_counter() - start < job["seconds"]:
        times.append(timed(engine.run))
    figures.update(median_ms=float(np.median(times)), min_ms=min(times), runs=len(times),
                   peak_rss_bytes=memory_bytes("VmHWM"))
    if job["outputs"]:
        np.savez(job["outputs"], *engine.outputs())
    return figures


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    try:
        figures = measure(job)
    except Skipped as reason:
        figures = {"skipped": str(reason)}
    except Unsupported as problem:
        figures = {"failure": str(problem)}
    except Exception as problem:  # whatever a peer throws is the result of its cell
        figures = {"failure": f"{type(problem).__name__}: {problem}"}
    pathlib.Path(job["result"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
