#!/usr/bin/env python3
"""`mpirun tessera train`: the bits of one process, a configuration that differs, a rank that is killed or stopped; and
what a launcher's environment does where the MPI plug-in is absent. Standard library only.

    mpi_test.py TESSERA

The tests with mpirun are skipped, with a message, where mpirun or the MPI plug-in beside the program is absent.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import program
import ranks_test
from program import run
from train_test import FAILED

MPIRUN = shutil.which("mpirun")
# For Open MPI; others ignore it.
VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def needs_mpi(test):
    def checked(self):
        if MPIRUN is None:
            self.skipTest("mpirun is not installed (scripts/setup.sh --mpi)")
        if not pathlib.Path(program.path).with_name("libtessera_mpi.so").exists():
            self.skipTest("the MPI plug-in is not built (scripts/setup.sh --mpi, then build again)")
        test(self)
    return checked


def mpirun(ranks, *arguments):
    return [MPIRUN, "-n", str(ranks), program.path, *map(str, arguments)]


class Mpi(ranks_test.RanksBase):
    def run_mpi(self, ranks, *arguments):
        return subprocess.run(mpirun(ranks, *arguments), env={**os.environ, **VARIABLES}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120 * program.PATIENCE)

    @needs_mpi
    def test_mpirun_has_the_bits_of_one_process(self):
        alone = self.trained("alone", 1)
        for ranks in (2, 3):
            name = f"mpi{ranks}"
            done = self.run_mpi(ranks, "train", self.config(name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_same(self.folder / name, alone)

    @needs_mpi
    def test_goes_on_alone_after_mpirun(self):
        alone = self.trained("whole", 1)
        done = self.run_mpi(2, "train", self.config("then_alone", steps=3))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("train", "--resume", self.folder / "then_alone", "--set", "train.steps=6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_same(self.folder / "then_alone", alone)

    @needs_mpi
    def test_a_failure_ends_all_ranks(self):
        # Only rank 1 has another seed.
        command = mpirun(1, "train", self.config("same"))
        other = [program.path, "train", self.config("same"), "--set", "train.seed=5"]
        done = subprocess.run([*command, ":", "-n", "1", *map(str, other)], env={**os.environ, **VARIABLES},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60 * program.PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 differs from rank 0 in ", done.stderr)

    @needs_mpi
    def test_a_rank_that_is_stopped_is_named_and_ended(self):
        started, ranks = self.started("stopped")
        os.kill(ranks[1], signal.SIGSTOP)
        _, errors = started.communicate(timeout=60 * program.PATIENCE)
        # The exit code is that of MPI_Abort, and not of rank 0, which would have ended by itself.
        self.assertNotIn(started.returncode, (0, FAILED))
        self.assertRegex(errors, f"rank 1 \\(host .*, process {ranks[1]}, step .* has not answered for")
        self.assert_ended(ranks)

    @needs_mpi
    def test_a_rank_that_is_killed_ends_all(self):
        started, ranks = self.started("killed")
        os.kill(ranks[1], signal.SIGKILL)
        started.communicate(timeout=60 * program.PATIENCE)
        self.assertNotEqual(started.returncode, 0)
        self.assert_ended(ranks)

    def started(self, name):
        """A training of two ranks that has begun, and the processes of its ranks by number."""
        started = subprocess.Popen(mpirun(2, "train", self.config(name, steps=1000000, timeout=8 * program.PATIENCE)),
                                   env={**os.environ, **VARIABLES}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        log = self.folder / name / "log.jsonl"
        end = time.monotonic() + 60 * program.PATIENCE
        while not (log.exists() and log.stat().st_size > 0):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        children = pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        ranks = {}
        for child in children:
            for variable in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                if variable.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")):
                    ranks[int(variable.split(b"=")[1])] = int(child)
        if 1 not in ranks:
            started.kill()
            started.communicate()
            self.skipTest("this mpirun is not the parent of its ranks")
        return started, ranks

    def assert_ended(self, ranks):
        end = time.monotonic() + 20 * program.PATIENCE
        for child in ranks.values():  # mpirun kills ranks and does not wait for them
            while pathlib.Path(f"/proc/{child}").exists():
                self.assertLess(time.monotonic(), end, child)
                time.sleep(0.05)

    def test_the_program_itself_does_not_need_mpi(self):
        if shutil.which("ldd") is None:
            self.skipTest("there is no ldd")
        listed = subprocess.run(["ldd", program.path], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertNotIn("libmpi", listed)

    def refused(self, name, variables):
        done = run("train", self.config(name), env={**os.environ, **variables})
        self.assertEqual(done.returncode, program.UNSUPPORTED, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("--ranks N", done.stderr)
        self.assertFalse((self.folder / name).exists())
        return done.stderr

    def test_says_what_to_install_where_the_plugin_is_absent(self):
        absent = {"TESSERA_MPI_PLUGIN": str(self.folder / "absent.so")}
        for name, variables in {
                "mpirun": {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"},
                "hydra": {"PMI_RANK": "1", "PMI_SIZE": "2"},
                "srun": {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}}.items():
            self.assertIn("scripts/setup.sh --mpi", self.refused(name, {**variables, **absent}))

    def test_names_launchers_whose_ranks_cannot_be_joined(self):
        self.assertIn("torchrun", self.refused("torchrun", {"TORCHELASTIC_RUN_ID": "none"}))
        self.assertIn("PMIX_RANK", self.refused("prun", {"PMIX_RANK": "0"}))

    @needs_mpi
    def test_says_that_mpi_and_the_environment_disagree(self):
        # As srun without --mpi=pmix: MPI takes the process for one that is alone.
        done = run("train", self.config("disagree"),
                   env={**os.environ, "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("by SLURM_PROCID this process is rank 1 of 2, but by MPI it is rank 0 of 1", done.stderr)


if __name__ == "__main__":
    program.main()
