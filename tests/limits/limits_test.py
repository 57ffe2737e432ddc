#!/usr/bin/env python3
"""The library in a host with few threads, little memory, small files and stacks, few files and processor time: it may
throw a tessera::Error or do with less, and must never end the host or throw anything else. Standard library only.

    limits_test.py TESSERA USE_LIBRARY
"""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

TESSERA = LIBRARY = ""
RAN, ERROR = 0, 20  # of use_library
MIB = 1 << 20
NOBODY = 61234  # an identity that has no processes: RLIMIT_NPROC counts those of a user, and does not hold root


def limited(**limits):
    """A preparation of the child: resource names without RLIMIT_, and "nobody": the most processes of an identity
    without any others."""
    def prepare():
        nobody = limits.get("nobody")
        for name, value in limits.items():
            if name != "nobody":
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
        if nobody is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (nobody, nobody))
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
    return prepare


class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.model = cls.folder / "lenet5.onnx"
        subprocess.run([TESSERA, "new", "lenet5", "-o", cls.model, "--dim", "batch=8"], check=True,
                       stdout=subprocess.DEVNULL)
        # For another identity: copies where it may read them.
        os.chmod(cls.folder, 0o755)
        cls.library, cls.program = cls.folder / "use_library", cls.folder / "tessera"
        shutil.copy(LIBRARY, cls.library)
        shutil.copy(TESSERA, cls.program)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def host(self, threads=8, write=False, **limits):
        """Runs the host under limits; it must end by itself, with one of the two results."""
        arguments = [self.library, self.model, *([self.folder / "out.tsr"] if write else [])]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, preexec_fn=limited(**limits),
                              cwd="/", env={**os.environ, "TESSERA_NUM_THREADS": str(threads)})
        self.assertIn(done.returncode, (RAN, ERROR), f"{limits}: {done.returncode} {done.stderr}")
        if done.returncode == ERROR:
            self.assertRegex(done.stderr, r"(?m)^error: .", limits)
        return done

    def others(self):
        """Threads that the child's identity has beside the child."""
        return 0 if os.geteuid() == 0 else subprocess.run(
            ["ps", "-L", "-u", str(os.geteuid()), "--no-headers"], capture_output=True, text=True).stdout.count("\n")

    def test_fewer_threads_than_asked_for(self):
        others = self.others()
        for most, threads in ((1, 1), (2, 2), (5, 5)):
            done = self.host(nobody=others + most)
            self.assertEqual(done.returncode, RAN, done.stderr)
            if os.geteuid() == 0:  # alone with its identity, so the number is known
                self.assertEqual(done.stdout, f"ran with {threads} threads\n")
                self.assertEqual(
                    done.stderr,
                    f"warning: computing with {threads} of 8 threads, because the system gives no more: Resource "
                    f"temporarily unavailable\n"
                )

    def test_the_program_does_with_fewer_threads_too(self):
        others = self.others()
        for most in (1, 5):
            done = subprocess.run([self.program, "run", self.model], capture_output=True, text=True, timeout=120,
                                  preexec_fn=limited(nobody=others + most), cwd="/",
                                  env={**os.environ, "TESSERA_NUM_THREADS": "8"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(
                done.stderr,
                r"^(tessera: warning: computing with \d of 8 threads, because the system gives no more: .*\n)?$")

    def test_threads_whose_stacks_find_no_memory(self):
        # 8 MiB each, so 1000 of them do not fit into these; as root as well.
        done = self.host(threads=1000, AS=2048 * MIB)
        self.assertEqual(done.returncode, RAN, done.stderr)
        self.assertRegex(done.stderr, r"^warning: computing with \d+ of 1000 threads")

    def test_as_many_threads_as_possible(self):
        self.assertIn(self.host(threads=1024).returncode, (RAN, ERROR))

    def test_nonsense_in_variables_is_an_error(self):
        for name, value, text in [("NUM_THREADS", "garbage", "a whole number"),
                                  ("NUM_THREADS", "100000", "a whole number"), ("NUM_THREADS", "-1", "a whole number"),
                                  ("ISA", "garbage", "scalar, avx2")]:
            os.environ.pop("TESSERA_" + name, None)
            done = subprocess.run([self.library, self.model], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "TESSERA_" + name: value})
            self.assertEqual(done.returncode, ERROR, done.stderr)
            self.assertIn(f"error: TESSERA_{name} expects {text}", done.stderr)

    def test_memory(self):
        ran = refused = 0
        for kind in ("AS", "DATA"):
            enough = next(size for size in (64, 128, 256, 512, 1024, 2048) if self.started(kind, size))
            # From what lets the host begin at all upwards, in steps in which each part of the work is what fails.
            for size in range(enough, enough + 64, 2):
                done = self.host(threads=2, write=True, **{kind: size * MIB})
                ran += done.returncode == RAN
                refused += done.returncode == ERROR
        self.assertGreater(ran, 0)

    def started(self, kind, size):
        """Whether the loader finds room for the libraries under this limit."""
        done = subprocess.run([self.library, "/nowhere"], capture_output=True, text=True, timeout=60,
                              preexec_fn=limited(**{kind: size * MIB}))
        return done.returncode == ERROR

    def test_files(self):
        for size in (0, 1, 100, 4096, 100_000):
            done = self.host(write=True, FSIZE=size)
            self.assertEqual(done.returncode, ERROR)
            self.assertIn(f"more than the {size} bytes that this process may write to a file", done.stderr)
        # The loader opens one library after the other, each with this number. Under less than 4 no program starts.
        for most in range(4, 12):
            self.host(write=True, NOFILE=most)
        self.assertFalse((self.folder / "out.tsr").exists() and self.host(write=True).returncode != RAN)

    def test_stacks(self):
        for size in (256 << 10, 512 << 10, MIB, resource.RLIM_INFINITY):
            self.assertEqual(self.host(write=True, STACK=size).returncode, RAN)

    def test_locked_memory_and_cores(self):
        self.assertEqual(self.host(MEMLOCK=0).returncode, RAN)
        self.assertEqual(self.host(CORE=0).returncode, RAN)
        self.assertEqual(self.host(SIGPENDING=0).returncode, RAN)


if __name__ == "__main__":
    TESSERA, LIBRARY = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
