"""onnxruntime and PyTorch for bench/share/colocate.py --peers: the commands of bench_colocate, a line of JSON each.

  peer_worker.py serve MODEL.onnx [--dim NAME=N]… | train"""
import json
import random
import resource
import statistics
import sys
import threading
import time


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Service:
    def __init__(self, path, dims):
        import numpy
        import onnxruntime
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
        generator = numpy.random.default_rng(1)
        self.inputs = {}
        for value in self.session.get_inputs():
            shape = [dims.get(size, 1) if isinstance(size, str) else size for size in value.shape]
            self.inputs[value.name] = (generator.random(shape) * 2).astype(types[value.type])

    def run(self):
        self.session.run(None, self.inputs)

    def time(self):
        times = []
        for number in range(60):
            begin = time.perf_counter()
            self.run()
            if number >= 10:
                times.append(1e3 * (time.perf_counter() - begin))
        return {"run_ms": statistics.median(times)}

    def serve(self, count, rate, seed):
        arrivals, latencies, due = random.Random(seed), [], 0.0
        processor, begin = processor_seconds(), time.perf_counter()
        for _ in range(count):
            due += arrivals.expovariate(rate)
            time.sleep(max(0.0, begin + due - time.perf_counter()))
            self.run()
            latencies.append(1e3 * (time.perf_counter() - begin - due))
        return {"latencies_ms": latencies, "seconds": time.perf_counter() - begin,
                "processor_s": processor_seconds() - processor}


class Training:
    """resnet18 with a first convolution of 3x3 on pictures of 32x32, batches of 32, SGD."""
    def __init__(self):
        import torch
        import torchvision
        self.torch = torch
        self.net = torchvision.models.resnet18(num_classes=10)
        self.net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.net.maxpool = torch.nn.Identity()
        self.net = self.net.to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=1e-4)
        self.x = torch.rand(32, 3, 32, 32).to(memory_format=torch.channels_last)
        self.y = torch.randint(10, (32,))
        self.steps, self.goes = 0, threading.Event()
        self.goes.set()
        threading.Thread(target=self.train, daemon=True).start()
        while self.steps < 1:
            time.sleep(0.001)
        self.goes.clear()

    def train(self):
        while True:
            self.goes.wait()
            self.optimiser.zero_grad()
            self.torch.nn.functional.cross_entropy(self.net(self.x), self.y).backward()
            self.optimiser.step()
            self.steps += 1

    def answer(self, command):
        if command == "go":
            self.goes.set()
        if command == "pause":
            self.goes.clear()
        return {"steps": self.steps}


def main():
    role, rest = sys.argv[1], sys.argv[2:]
    if role == "train":
        training = Training()
        answer = training.answer
    else:
        pairs = [rest[i + 1].split("=") for i in range(len(rest)) if rest[i] == "--dim"]
        service = Service(rest[0], {name: int(size) for name, size in pairs})

        def answer(line):
            words = line.split()
            if words == ["time"]:
                return service.time()
            if words[:2] != ["serve", "poisson"]:
                sys.exit(f"peer_worker: no command for this process: '{line.strip()}'")
            return service.serve(int(words[2]), float(words[3]), int(words[4]))

    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)


if __name__ == "__main__":
    main()
