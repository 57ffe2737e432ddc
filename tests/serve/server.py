"""A server under test. Standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

program = ""  # tessera; set by main
# How many times longer everything may take, and more memory, than with an optimised build: scripts/sanitize.sh sets it.
PATIENCE = float(os.environ.get("TESSERA_PATIENCE", "1"))


class Server:
    """`tessera serve` on free ports or the given ones; leaves with SIGTERM, and must then end with 0."""
    def __init__(self, repository, *arguments, config=None, ports=None, before_start=None):
        self.folder = tempfile.TemporaryDirectory()
        command = [program, "serve", str(repository), "--json", *map(str, arguments)]
        for front in ("http", "grpc", "metrics"):
            command += [f"--{front}", f"127.0.0.1:{(ports or {}).get(front, 0)}"]
        if config is not None:
            path = pathlib.Path(self.folder.name) / "server.toml"
            path.write_text(config)
            command += ["--config", str(path)]
        self.log = open(pathlib.Path(self.folder.name) / "log", "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=before_start)
        line = ""
        if select.select([self.process.stdout], [], [], 60 * PATIENCE)[0]:
            line = self.process.stdout.readline()
        if not line:
            self.process.kill()
            raise AssertionError("the server did not start: " + self.log_text())
        self.ports = json.loads(line)
        self.port = self.ports["http"]

    def log_text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def ask(self, method, path, body=None, headers=None, port=None):
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30 * PATIENCE)
        with contextlib.closing(connection):
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.ask(method, path, body, headers)
        if status != 200:
            raise AssertionError(f"{method} {path}: {status} {text[:500]}")
        return json.loads(text) if text else None

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60 * PATIENCE)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        code = self.stop()
        if kind is None and code != 0:
            raise AssertionError(f"the server ended with {code}: {self.log_text()}")
        self.log.close()
        self.folder.cleanup()


def make_repository(folder):
    """A repository with the net `lenet` of the zoo, a model of pictures and an ensemble of both."""
    folder = pathlib.Path(folder)
    (folder / "lenet" / "1").mkdir(parents=True)
    made = subprocess.run([program, "new", "lenet5", "-o", folder / "lenet" / "1" / "model.onnx"],
                          capture_output=True, text=True, timeout=60 * PATIENCE)
    assert made.returncode == 0, made.stderr
    (folder / "picture").mkdir()
    (folder / "picture" / "config.pbtxt").write_text(
        'backend: "tessera_picture"\n' + "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
                                                 for key, value in [("width", 28), ("height", 28), ("channels", 1)]))
    (folder / "reader").mkdir()
    (folder / "reader" / "config.pbtxt").write_text("""
platform: "ensemble"
input { name: "image" data_type: TYPE_UINT8 dims: [-1] }
output { name: "label" data_type: TYPE_STRING dims: [1, 3] label_filename: "labels.txt" }
ensemble_scheduling {
  step { model_name: "lenet" input_map { key: "input" value: "pixels" } output_map { key: "output" value: "label" } }
  step { model_name: "picture" input_map { key: "image" value: "image" } output_map { key: "tensor" value: "pixels" } }
}""")
    labels = "zero one two three four five six seven eight nine".split()
    (folder / "reader" / "labels.txt").write_text("\n".join(labels))
    return folder


def png(width, height, compressed_rows):
    """A PNG file of grey values (https://www.w3.org/TR/png-3/)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", compressed_rows) + chunk(b"IEND", b"")


def grey_png(width, height):
    """A PNG file with a ramp of grey."""
    rows = b"".join(b"\0" + bytes(x * 255 // width for x in range(width)) for _ in range(height))
    return png(width, height, zlib.compress(rows))


def flat_png(width, height, rows=None):
    """A black PNG file, of which only the first `rows` are there."""
    packer = zlib.compressobj(1)
    row = bytes(1 + min(width, 1 << 20))
    packed = b"".join(packer.compress(row) for _ in range(height if rows is None else rows))
    return png(width, height, packed + packer.flush())


def lenet_request(value=0.5, rows=1, **more):
    count = rows * 28 * 28
    return {"inputs": [{"name": "input", "datatype": "FP32", "shape": [rows, 1, 28, 28], "data": [value] * count}],
            **more}


def make_certificate(folder, name, authority=None, days="1"):
    """A key and a certificate for 127.0.0.1, signed by the authority or itself."""
    key, request, certificate = (folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))

    def run(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-subj",
           f"/CN={name}"]
    if authority is None:
        run(*new, "-x509", "-days", days, "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate)
    else:
        run(*new, "-out", request)
        run("x509", "-req", "-in", request, "-CA", folder / f"{authority}.pem", "-CAkey", folder / f"{authority}.key",
            "-CAcreateserial", "-days", days, "-out", certificate)


class WithServer(unittest.TestCase):
    """Tests that share a repository and a server."""
    arguments, config = (), None

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = make_repository(pathlib.Path(cls.holder.name) / "models")
        cls.server = Server(cls.folder, *cls.arguments, config=cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None)
        cls.holder.cleanup()

    def refused(self, status, text, method, path, body=None, headers=None):
        found, answer_headers, answer = self.server.ask(method, path, body, headers)
        self.assertEqual(found, status, answer[:500])
        self.assertIn(text, json.loads(answer)["error"])
        return answer_headers


def main():
    """Runs the tests of the calling file; the first argument is the program."""
    global program
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
