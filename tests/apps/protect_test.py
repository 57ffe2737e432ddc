#!/usr/bin/env python3
"""`tessera protect`, and protected models with the other verbs. Standard library only.

    protect_test.py TESSERA
    protect_test.py TESSERA --all [MODEL…]   # protects and runs every net of `tessera new`, on cpu and reference:
                                             # encrypted, and obfuscated at the default degree
"""
import array
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import zipfile

import obfuscate_test
import program
import training_data
from program import INVALID, NOT_FOUND, WRONG_CALL, run

def floats_in(path, name):
    """The float32 array of an .npz file, flat."""
    with zipfile.ZipFile(path) as archive:
        data = archive.read(f"{name}.npy")
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])


WITHOUT_KEYS = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}


class Protect(program.WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = cls.folder / "keys"
        assert run("protect", "--new-key", cls.keys).returncode == 0
        cls.key, cls.safe = cls.keys / "model.key", cls.folder / "safe.tsr"
        done = run("protect", cls.model, "-o", cls.safe, "--key-file", cls.key, "--sign", cls.keys / "publisher.key",
                   "--dim", "batch=1", "--json")
        assert done.returncode == 0, done.stderr
        cls.report = json.loads(done.stdout)

    def succeeds(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_reports_what_it_wrote(self):
        self.assertEqual(self.report["bytes"], self.safe.stat().st_size)
        self.assertTrue(self.report["signed"])
        self.assertRegex(self.report["recipients"][0], "^symmetric key [0-9a-f]{8}…$")

    def test_every_verb_reads_it(self):
        calls = [["run", self.safe], ["info", self.safe], ["explain", self.safe], ["diff", self.safe, self.safe],
                 ["bench", self.safe, "--seconds", "0.05", "--warmup", "0"], ["check", self.safe],
                 ["optimize", self.safe, "-o", self.folder / "again.tsr"]]
        for call in calls:
            self.succeeds(*call, "--key-file", self.key)
            self.fails(WRONG_CALL, "the model is protected, and no key is given", *call)
        # The result is protected for the same keys.
        self.fails(WRONG_CALL, "no key is given", "run", self.folder / "again.tsr")
        self.succeeds("run", self.folder / "again.tsr", "--key-file", self.key)

    def test_gives_the_outputs_of_the_plain_model(self):
        plain = self.folder / "plain.tsr"
        self.succeeds("optimize", self.model, "-o", plain, "--dim", "batch=1")
        first, second = self.folder / "first.npz", self.folder / "second.npz"
        self.succeeds("run", plain, "--outputs", first)
        self.succeeds("run", self.safe, "--outputs", second, "--key-file", self.key)
        self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_takes_keys_from_the_environment_and_from_commands(self):
        for name, value in [("TESSERA_KEY_FILE", self.key), ("TESSERA_KEY_COMMAND", f"cat '{self.key}'")]:
            self.succeeds("run", self.safe, env={**WITHOUT_KEYS, name: str(value)})
        self.succeeds("run", self.safe, "--key-command", f"cat '{self.key}'")
        both = {**WITHOUT_KEYS, "TESSERA_KEY_FILE": "a", "TESSERA_KEY_COMMAND": "b"}
        done = run("run", self.safe, env=both)
        self.assertEqual(done.returncode, WRONG_CALL)
        self.assertIn("2 of TESSERA_KEY_FILE, TESSERA_KEY_COMMAND and TESSERA_PASSWORD_FILE are set", done.stderr)

    def test_passwords(self):
        password, out = self.folder / "password", self.folder / "by_password.tsr"
        password.write_text("a long sentence\n", encoding="ascii")
        self.succeeds("protect", self.model, "-o", out, "--password-file", password)
        self.succeeds("info", out, "--password-file", password)
        password.write_text("another\n", encoding="ascii")
        self.fails(WRONG_CALL, "not protected for this password", "info", out, "--password-file", password)

    def test_one_error_for_a_wrong_key_or_a_changed_file(self):
        other = self.folder / "other"
        self.succeeds("protect", "--new-key", other)
        self.fails(WRONG_CALL, "the file is not protected for this key", "run", self.safe, "--key-file",
                   other / "model.key")
        self.fails(NOT_FOUND, "does not exist", "run", self.safe, "--key-file", self.folder / "nothing.key")
        changed = self.folder / "changed.tsr"
        data = bytearray(self.safe.read_bytes())
        data[len(data) // 2] ^= 1
        changed.write_bytes(data)
        self.fails(INVALID, "", "check", changed, "--key-file", self.key)
        changed.write_bytes(self.safe.read_bytes()[:-100])
        self.fails(INVALID, "cut off", "run", changed, "--key-file", self.key)

    def test_signatures(self):
        publisher = self.keys / "publisher.pub"
        self.assertIn("signature is right", self.succeeds("check", self.safe, "--require-signature", publisher))
        self.assertIn("all contents are authentic",
                      self.succeeds("check", self.safe, "--require-signature", publisher, "--key-file", self.key))
        unsigned = self.folder / "unsigned.tsr"
        self.succeeds("protect", self.model, "-o", unsigned, "--key-file", self.key)
        self.fails(INVALID, "no valid signature of this publisher", "check", unsigned, "--require-signature", publisher)

    def test_rotates_keys(self):
        new, out = self.folder / "new", self.folder / "rotated.tsr"
        self.succeeds("protect", "--new-key", new)
        self.succeeds("protect", self.safe, "-o", out, "--rewrap", "--current-key-file", self.key, "--recipient",
                      new / "recipient.pub")
        self.succeeds("run", out, "--key-file", new / "recipient.key")
        self.fails(WRONG_CALL, "the file is not protected for this key", "run", out, "--key-file", self.key)
        self.fails(WRONG_CALL, "--rewrap needs the key that opens the file", "protect", self.safe, "-o", out,
                   "--rewrap", "--key-file", new / "model.key")

    def test_leaves_no_plain_copy(self):
        """Nothing else is written, and no other form of a protected model is."""
        folder = self.folder / "alone"
        folder.mkdir()
        self.succeeds("protect", self.model, "-o", folder / "m.tsr", "--key-file", self.key,
                      env={**WITHOUT_KEYS, "TMPDIR": str(folder)})
        self.assertEqual([each.name for each in folder.iterdir()], ["m.tsr"])
        for verb in (["optimize"], ["prune", "--sparsity", "0.5"]):
            self.fails(WRONG_CALL, "", verb[0], self.safe, "-o", folder / "stolen.onnx", *verb[1:], "--key-file",
                       self.key)
        self.assertEqual([each.name for each in folder.iterdir()], ["m.tsr"])

    def test_watermarks(self):
        marked, safe, secret = self.folder / "marked.onnx", self.folder / "marked.tsr", ["--watermark-key", self.key]
        done = run("protect", self.model, "-o", marked, "--watermark", "customer-7", *secret)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "watermark 'customer-7': 6[0-9]+ weights changed by [0-9.]+%, score 1[56]")
        self.assertIn("'customer-7': found", self.succeeds("protect", marked, "--find-watermark", "customer-7",
                                                           *secret))
        both = json.loads(self.succeeds("protect", marked, "--find-watermark", "customer-8", "--find-watermark",
                                        "customer-7", *secret, "--json"))["watermarks"]
        self.assertEqual([each["found"] for each in both], [False, True])
        none = run("protect", self.model, "--find-watermark", "customer-7", *secret)
        self.assertEqual((none.returncode, "not found" in none.stdout), (1, True))
        self.succeeds("protect", self.model, "-o", safe, "--watermark", "customer-7", *secret, "--key-file", self.key)
        self.succeeds("protect", safe, "--find-watermark", "customer-7", *secret, "--current-key-file", self.key)
        self.fails(WRONG_CALL, "--watermark requires --watermark-key", "protect", self.model, "-o", marked,
                   "--watermark", "customer-7")
        package = self.folder / "package.tsr"
        self.succeeds("optimize", self.model, "-o", package)
        self.fails(WRONG_CALL, "the weights of a package are packed", "protect", package, "-o", marked, "--watermark",
                   "customer-7", *secret)

    def test_computes_on_shares(self):
        """Two processes, each with its half, and the outputs of the plain model within the error of fixed point."""
        folder = self.folder / "shares"
        folder.mkdir()
        path = {name: folder / f"{name}.npz" for name in ("in", "in_a", "in_b", "out_a", "out_b", "out", "plain")}
        x, _ = training_data.pictures(1)
        training_data.write_npz(path["in"], x, [0], names=("input", "ignored"))
        with zipfile.ZipFile(path["in"]) as both, zipfile.ZipFile(folder / "one.npz", "w") as one:
            one.writestr("input.npy", both.read("input.npy"))
        self.succeeds("protect", folder / "one.npz", "--secret-shares", path["in_a"], path["in_b"])
        self.succeeds("protect", self.model, "--dim", "batch=1", "--runs", "2", "--secret-shares", folder / "a",
                      folder / "b")
        self.succeeds("run", self.model, "--inputs", folder / "one.npz", "--outputs", path["plain"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            peer = f"127.0.0.1:{free.getsockname()[1]}"
        calls = [[program.path, "run", str(folder / side), "--secret-shared", peer, "--inputs", str(path[f"in_{side}"]),
                  "--outputs", str(path[f"out_{side}"]), "--json"] for side in "ab"]
        parties = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for call in calls]
        for party in parties:
            out, error = party.communicate(timeout=60 * program.PATIENCE)
            self.assertEqual(party.returncode, 0, error)
            self.assertEqual(json.loads(out)["runs_left"], 1)
        self.succeeds("protect", path["out_a"], "--combine-shares", path["out_b"], "-o", path["out"])
        for got, expected in zip(floats_in(path["out"], "output"), floats_in(path["plain"], "output"), strict=True):
            self.assertAlmostEqual(got, expected, delta=0.005)
        with subprocess.Popen([*calls[0], "--peer-timeout", "60"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as waiting:
            limits, end = pathlib.Path(f"/proc/{waiting.pid}/limits"), time.monotonic() + 30 * program.PATIENCE
            try:  # it writes no core dumps, since keys and shares are in its memory
                while not re.search("Max core file size +1 +1 ", limits.read_text("ascii")):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.05)
            finally:
                waiting.kill()
        alone = [*calls[1][1:], "--peer-timeout", "0.2"]
        self.fails(9, "no peer answers at", *alone)
        self.fails(WRONG_CALL, "--secret-shared needs --inputs", "run", folder / "a", "--secret-shared", peer)
        self.fails(INVALID, "this is no share of a model", "run", self.model, *alone[2:])
        self.fails(WRONG_CALL, "fix the dimensions", "protect", self.model, "--secret-shares", folder / "c",
                   folder / "d")

    def test_tells_wrong_calls(self):
        self.fails(WRONG_CALL, "needs a MODEL and -o OUT.tsr", "protect")
        self.fails(WRONG_CALL, "there is no key to protect the model for", "protect", self.model, "-o", self.folder /
                   "x.tsr")
        self.fails(WRONG_CALL, "give '", "protect", self.model, "-o", self.folder / "x.onnx", "--key-file", self.key)
        self.fails(WRONG_CALL, "protected already", "protect", self.safe, "-o", self.folder / "x.tsr", "--key-file",
                   self.key)


def protect_all(names):
    """Every net: the outputs of the encrypted package are those of the plain one, bit for bit, and those of the
    obfuscated one are within the bound that docs/protect.md states."""
    with tempfile.TemporaryDirectory() as holder:
        folder = pathlib.Path(holder)
        run("protect", "--new-key", folder / "keys")
        key = folder / "keys/model.key"
        if not names:
            listed = run("new", "--help").stdout.split("Nets:")[1].split("Example:")[0]
            names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
        wrong = 0
        for name in names:
            plain, safe, hidden = folder / "plain.tsr", folder / "safe.tsr", folder / "hidden.tsr"
            symbols = folder / f"{name}.symbols"
            sizes = ["--dim", "batch=1"]
            for arguments in (["new", name, "-o", folder / "m.onnx", *sizes],
                              ["optimize", folder / "m.onnx", "-o", plain],
                              ["protect", plain, "-o", safe, "--key-file", key],
                              ["protect", folder / "m.onnx", "-o", hidden, "--obfuscate", "2", "--seed", "1",
                               "--symbols", symbols]):
                done = run(*arguments, timeout=600)
                assert done.returncode == 0, done.stderr
            for device in ("cpu", "reference"):
                outputs = []
                for package, extra in ((plain, []), (safe, ["--key-file", key]), (hidden, ["--symbols", symbols])):
                    out = folder / "out.npz"
                    done = run("run", package, "--outputs", out, "--device", device, *extra, timeout=3000)
                    assert done.returncode == 0, done.stderr
                    outputs.append(out.read_bytes())
                    arrays = obfuscate_test.arrays_of(out)
                    first = arrays if package is plain else first
                equal, ulps = outputs[0] == outputs[1], obfuscate_test.difference(first, arrays)
                wrong += 0 if equal and ulps <= obfuscate_test.MOST_ULPS else 1
                same = "equal" if equal else "DIFFERENT"
                print(f"{name:20} {device:10} {same}, obfuscated: {ulps:.1f} ulps", flush=True)
        return 1 if wrong else 0


if __name__ == "__main__":
    if "--all" in sys.argv:
        program.path = sys.argv[1]
        sys.exit(protect_all(sys.argv[sys.argv.index("--all") + 1:]))
    program.main()
