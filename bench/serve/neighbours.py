"""Programs that share the machine with a server under test: a trainer and a worker under `tessera share daemon`."""
import random
import shutil
import struct
import subprocess
import zipfile

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
TRAINING = """
output = "{folder}/run"
[model]
builder = "cnn_digits"
[data]
train = "{folder}/train.npz"
hold_out = 0.2
batch = 32
[loss]
name = "cross_entropy"
[optimiser]
name = "sgd"
learning_rate = 0.01
[train]
steps = 100000000
evaluate_every = 1000000
checkpoint_every = 1000000
"""


def write_samples(path, count=128):
    """A file of NumPy with random pictures of 8 x 8 and labels, as `tessera train` reads it."""
    def array(kind, shape, data):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        head += " " * (-(len(head) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data

    choice = random.Random(1)
    with zipfile.ZipFile(path, "w") as file:
        pixels = [choice.random() for _ in range(count * 64)]
        file.writestr("x.npy", array("<f4", (count, 1, 8, 8), struct.pack(f"<{len(pixels)}f", *pixels)))
        file.writestr("y.npy", array("<i8", (count,), struct.pack(f"<{count}q", *(i % 10 for i in range(count)))))


class Neighbours:
    """A daemon of `tessera share`, and a trainer and a worker under it."""
    def __init__(self, program, folder):
        self.program, self.socket = program, folder / "share.sock"
        subprocess.run([program, "new", "lenet5", "-o", folder / "work.onnx"], check=True, **QUIET)
        write_samples(folder / "train.npz")
        (folder / "train.toml").write_text(TRAINING.format(folder=folder))
        self.commands = {"trainer": [program, "train", folder / "train.toml"],
                         "worker": [program, "bench", folder / "work.onnx", "--seconds", "100000"]}
        self.folder, self.processes, self.runs = folder, {}, 0
        # Of a further process that is to take part.
        self.environment = {"TESSERA_SHARE_SOCKET": str(self.socket), "TESSERA_SHARE_CLASS": "realtime"}
        self.start_daemon()
        for name in self.commands:
            self.start(name)

    def start_daemon(self):
        self.daemon = subprocess.Popen([self.program, "share", "daemon", "--socket", self.socket], **QUIET)

    def start(self, name):
        if name == "trainer":
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.runs += 1
        command = [self.program, "share", "run", "-q", "--socket", self.socket, "--class", "background", "--name",
                   f"{name} {self.runs}", "--", *self.commands[name]]
        self.processes[name] = subprocess.Popen(command, **QUIET)

    def dead(self):
        """Names of those that ended by themselves."""
        return [name for name, process in [("daemon", self.daemon), *self.processes.items()]
                if process.poll() is not None]

    def end(self):
        for process in [self.daemon, *self.processes.values()]:
            process.kill()
            process.wait()
