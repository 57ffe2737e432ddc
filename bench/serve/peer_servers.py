"""The servers that bench/serve/peers.py compares, each with the same models: Tessera, Triton and MLServer."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position

MODELS = pathlib.Path(__file__).resolve().parent / "peer_models"
SITE = "lib/python3.11/site-packages"
THREADS = len(os.sched_getaffinity(0))
BATCH = 8  # rows that a server may compute at once
CONFIG = """
max_batch_size: {batch}
input {{ name: "{input}" data_type: TYPE_FP32 dims: {sizes} }}
output {{ name: "{output}" data_type: TYPE_FP32 dims: {output_sizes} }}
dynamic_batching {{ }}
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text) if text else None


def configuration(model):
    """A model's config.pbtxt for Triton and for Tessera, without the backend's name."""
    return CONFIG.format(batch=BATCH, input=model["input"], output=model["output"], sizes=model["sizes"],
                         output_sizes=model["output_sizes"])


class Tessera:
    name, takes_binary = "Tessera", True

    def __init__(self, program, folder, models):
        for model in models:
            version = folder / model["name"] / "1"
            version.mkdir(parents=True)
            shutil.copy(model["file"], version / "model.onnx")
            (version.parent / "config.pbtxt").write_text(configuration(model))
        serving.program = program
        self.server = serving.Server(folder)
        self.port, self.process = self.server.port, self.server.process

    def stop(self):
        self.server.__exit__(None)


class Peer:
    """A program that answers at `port` once /v2/health/ready and all models do."""
    def start(self, command, environment, folder, models):
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT,
                                        env={**os.environ, **environment, "PEERS_THREADS": str(THREADS)})
        until = time.monotonic() + 120
        paths = ["/v2/health/ready", *(f"/v2/models/{model['name']}/ready" for model in models)]
        while paths:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                with contextlib.closing(connection):
                    connection.request("GET", paths[0])
                    if connection.getresponse().status == 200:
                        paths.pop(0)
                        continue
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise SystemExit(f"{self.name} does not start:\n" + pathlib.Path(self.log.name).read_text()[-3000:])
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Triton(Peer):
    name, takes_binary = "Triton", True

    def __init__(self, environment, folder, models):
        home = environment / SITE / "pytriton" / "tritonserver"
        # The wheel keeps a stub for each version of Python apart; Triton wants it beside the backend, as a program.
        backends = folder / "backends"
        shutil.copytree(home / "backends", backends)
        stub = backends / "python" / "triton_python_backend_stub"
        shutil.copy(home / "python_backend_stubs" / "3.11" / stub.name, stub)
        stub.chmod(0o755)
        (home / "bin" / "tritonserver").chmod(0o755)
        for model in models:
            version = folder / "models" / model["name"] / "1"
            version.mkdir(parents=True)
            shutil.copy(model["file"], version / "model.onnx")
            shutil.copy(MODELS / "triton_model.py", version / "model.py")
            (version.parent / "config.pbtxt").write_text(
                'backend: "python"\ninstance_group { kind: KIND_CPU count: 1 }' + configuration(model))
        self.port = free_port()
        libraries = f"{environment / SITE / 'nvidia_pytriton.libs'}"
        self.start([home / "bin" / "tritonserver", f"--model-repository={folder / 'models'}",
                    f"--backend-directory={backends}", "--http-address=127.0.0.1", f"--http-port={self.port}",
                    f"--grpc-port={free_port()}", f"--metrics-port={free_port()}"],
                   {"PEERS_PATH": f"{MODELS}:{environment / SITE}",
                    # The stub's own search path ends where the wheel put it.
                    "LD_LIBRARY_PATH": libraries}, folder, models)


class MlServer(Peer):
    name, takes_binary = "MLServer", False

    def __init__(self, environment, folder, models):
        self.port = free_port()
        for model in models:
            (folder / model["name"]).mkdir(parents=True)
            settings = {"name": model["name"], "implementation": "mlserver_model.OnnxModel",
                        "parameters": {"uri": str(model["file"]), "version": "1"}}
            (folder / model["name"] / "model-settings.json").write_text(json.dumps(settings))
        # Without workers, each of which is a process of its own: on few cores this is the faster way.
        (folder / "settings.json").write_text(json.dumps(
            {"host": "127.0.0.1", "http_port": self.port, "grpc_port": free_port(), "metrics_port": free_port(),
             "parallel_workers": 0, "debug": False}))
        self.start([environment / "bin" / "mlserver", "start", folder], {"PYTHONPATH": str(MODELS)}, folder, models)
