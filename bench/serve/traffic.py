"""Clients that keep a server busy and check each answer: bench/serve/faults.py and soak.py use them.

The repository that is served has models whose versions take turns between two sets of weights, so that the numbers of
an answer say which version computed it. An answer is right if it has the numbers of the version that it names, and if
that version is not older than the one that was current when the request was sent.
"""
import collections
import contextlib
import http.client
import json
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "serve"))
import server as serving  # noqa: E402  pylint: disable=wrong-import-position

try:
    import tritonclient.grpc as triton
    import tritonclient.utils as triton_utils
except ImportError:  # then all clients speak HTTP
    triton = None

PIXELS = 28 * 28
SHAPE = [1, 1, 28, 28]
TOLERANCE = 1e-4
PATIENCE_S = 60 * serving.PATIENCE  # an answer that takes longer is a hang


def image(seed):
    return struct.pack(f"<{PIXELS}f", *(random.Random(seed).uniform(-1, 1) for _ in range(PIXELS)))


def binary_request(data):
    """Header and body of a request over HTTP whose tensors, and those of the answer, are binary."""
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": SHAPE,
                                   "parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return {"Inference-Header-Content-Length": str(len(head))}, head + data


class Repository:
    """Models `net0`, `net1` … of lenet5 and what their versions answer to the images of this module."""
    def __init__(self, folder, program, models=2, config="max_batch_size = 8\n[batching]\nqueue = 1000\n"):
        self.folder, self.names = pathlib.Path(folder), [f"net{i}" for i in range(models)]
        self.images = [image(seed) for seed in range(4)]
        self.files = []
        for seed in (1, 2):
            self.files.append(self.folder.parent / f"weights{seed}.onnx")
            subprocess.run([program, "new", "lenet5", "--seed", str(seed), "-o", self.files[-1]], check=True,
                           stdout=subprocess.DEVNULL, timeout=60 * serving.PATIENCE)
        self.current = {name: 0 for name in self.names}
        for name in self.names:
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / "config.toml").write_text(config)
            self.add_version(name)
            self.current[name] = 1
        self.references = {}

    def add_version(self, name, whole=True):
        """Writes the next version's folder; returns its number."""
        number = self.current[name] + 1
        version = self.folder / name / str(number)
        version.mkdir()
        model = self.files[number % 2]
        if whole:
            shutil.copy(model, version / "model.onnx")
        else:
            (version / "model.onnx").write_bytes(model.read_bytes()[:50000])
        return number

    def remove_version(self, name, number):
        shutil.rmtree(self.folder / name / str(number))

    def learn(self, program):
        """Asks servers of each file alone what the answers are."""
        for parity, file in enumerate(self.files):
            serving.program = program
            with serving.Server(file) as alone:
                connection = http.client.HTTPConnection("127.0.0.1", alone.port, timeout=30 * serving.PATIENCE)
                with contextlib.closing(connection):
                    for i, data in enumerate(self.images):
                        status, _, numbers = ask_http(connection, file.stem, data)
                        assert status == 200, status
                        self.references[parity, i] = numbers

    def is_right(self, version, picture, numbers):
        expected = self.references[version % 2, picture]
        return len(numbers) == len(expected) and all(abs(a - b) <= TOLERANCE for a, b in zip(numbers, expected))


def ask_http(connection, model, data):
    """Status, version, and the numbers or the text of the error."""
    headers, body = binary_request(data)
    connection.request("POST", f"/v2/models/{model}/infer", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        return answer.status, 0, content.decode(errors="replace")
    length = int(answer.headers["Inference-Header-Content-Length"])
    numbers = content[length:]
    return 200, int(json.loads(content[:length])["model_version"]), struct.unpack(f"<{len(numbers) // 4}f", numbers)


class HttpClient:
    def __init__(self, ports):
        self.connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=PATIENCE_S)

    def ask(self, model, data):
        return ask_http(self.connection, model, data)

    def close(self):
        self.connection.close()


class GrpcClient:
    STATUSES = {"StatusCode.UNAVAILABLE": 503, "StatusCode.NOT_FOUND": 404, "StatusCode.DEADLINE_EXCEEDED": 504}

    def __init__(self, ports):
        self.client = triton.InferenceServerClient(
            f"127.0.0.1:{ports['grpc']}", channel_args=[("grpc.use_local_subchannel_pool", 1),
                                                        ("grpc.max_reconnect_backoff_ms", 200)])

    def ask(self, model, data):
        tensor = triton.InferInput("input", SHAPE, "FP32")
        tensor._raw_content = data  # pylint: disable=protected-access  # as set_data_from_numpy does
        try:
            result = self.client.infer(model, [tensor], client_timeout=PATIENCE_S)
        except triton_utils.InferenceServerException as error:
            text = error.message() or ""
            status = self.STATUSES.get(str(error.status()), 500)
            # The client's own word for a connection that is not there, where the server's names the model.
            if status == 503 and ("connect" in text.lower() or "socket" in text.lower() or "reset" in text.lower()):
                raise ConnectionError(text) from error
            if status == 504:
                raise TimeoutError(text) from error
            return status, 0, text
        return 200, int(result.get_response().model_version), tuple(map(float, result.as_numpy("output").ravel()))

    def close(self):
        self.client.close()


class Traffic:
    """Closed loops of clients; each notes what went wrong. `allowed` names what faults may do to a request at a time:
    "reset" (the server was killed), "missing" (the model was unloaded), "full" (the disk is), "paused" (clients and
    server were stopped and went on)."""
    def __init__(self, repository, ports, loops=4, pause_s=0.002, seed=1):
        self.repository, self.ports, self.pause_s = repository, ports, pause_s
        self.lock, self.allowed, self.ended, self.stops = threading.RLock(), {}, {}, threading.Event()
        self.counts, self.wrong, self.slowest_s = collections.Counter(), [], 0.0
        self.successes = [0] * loops
        self.threads = []
        for number in range(loops):
            speaks_grpc = triton is not None and number % 2 == 1
            thread = threading.Thread(target=self.run, args=(number, GrpcClient if speaks_grpc else HttpClient, seed))
            self.threads.append(thread)
            thread.start()

    @contextlib.contextmanager
    def allow(self, what):
        with self.lock:
            self.allowed[what] = self.allowed.get(what, 0) + 1
        try:
            yield
        finally:
            with self.lock:
                self.allowed[what] -= 1
                # A request that was sent while it held may be answered later.
                self.ended[what] = time.monotonic()

    def is_allowed(self, what, sent_s):
        with self.lock:
            return self.allowed.get(what, 0) > 0 or self.ended.get(what, 0) >= sent_s

    def run(self, number, make_client, seed):
        choice, client = random.Random(seed * 1000 + number), None
        while not self.stops.is_set():
            if client is None:
                client = make_client(dict(self.ports))
            name = choice.choice(self.repository.names)
            picture = choice.randrange(len(self.repository.images))
            with self.lock:
                at_least = self.repository.current[name]
            sent_s = time.monotonic()
            try:
                outcome = self.judge(client.ask(name, self.repository.images[picture]), at_least, picture, sent_s)
            except (TimeoutError, socket.timeout) as error:
                self.stops.wait(1)  # so that who was stopped as well has noted it
                outcome = "paused" if self.is_allowed("paused", sent_s) else f"hang: {error}"
                client.close()
                client = None
            except (OSError, http.client.HTTPException) as error:
                self.stops.wait(0.1)
                allowed = [what for what in ("reset", "paused") if self.is_allowed(what, sent_s)]
                outcome = allowed[0] if allowed else f"lost: {type(error).__name__} {error}"
                client.close()
                client = None
            self.note(number, name, outcome, time.monotonic() - sent_s)
            time.sleep(choice.uniform(0, 2 * self.pause_s) if outcome == "right" else 0.02)
        if client is not None:
            client.close()

    def judge(self, answer, at_least, picture, sent_s):
        status, version, content = answer
        if status == 200:
            if version < at_least:
                return f"stale: version {version}, sent when {at_least} was current"
            if not self.repository.is_right(version, picture, content):
                return f"wrong: version {version} does not answer so"
            return "right"
        if status == 503 and "audit log cannot be written" in content and self.is_allowed("full", sent_s):
            return "refused: the disk is full"
        if status == 404 and self.is_allowed("missing", sent_s):
            return "refused: unloaded"
        if status == 503 and "is shutting down" in content and self.is_allowed("reset", sent_s):
            return "refused: draining"
        if status == 503 and "are being loaded" in content and self.is_allowed("reset", sent_s):
            return "refused: it has just been started"
        return f"error: {status} {content[:200]}"

    def note(self, number, name, outcome, seconds):
        with self.lock:
            self.counts[outcome.split(":")[0]] += 1
            if outcome == "right":
                self.successes[number] += 1
                self.slowest_s = max(self.slowest_s, seconds)
            elif outcome.split(":")[0] not in ("reset", "paused", "refused"):
                self.wrong.append(f"client {number}, {name}: {outcome}")

    def wait_for_all(self, patience_s=PATIENCE_S):
        """Until each client has had a right answer to a request that it sent after this call. Returns how long that
        took, or None if it took too long."""
        begin = time.monotonic()
        with self.lock:
            before = list(self.successes)
        # The answer that a client waits for at this moment is not counted.
        while time.monotonic() < begin + patience_s:
            with self.lock:
                if all(now >= then + 2 for now, then in zip(self.successes, before)):
                    return time.monotonic() - begin
            time.sleep(0.005)
        return None

    def end(self):
        self.stops.set()
        for thread in self.threads:
            thread.join(timeout=2 * PATIENCE_S)
        return not any(thread.is_alive() for thread in self.threads)
