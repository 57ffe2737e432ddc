"""'tessera share simulate' on clusters and on how many devices a load needs: what is printed, warned of and refused."""
import json
import pathlib
import tempfile
import unittest

import program

CLUSTER = """seed = 1
[cluster]
nodes = 1
devices_per_node = 4
jobs = 300
jobs_per_hour = 200
mean_seconds = 60
heavy_tail = 2.5
"""
REQUESTS = """seed = 2
[job.search]
class = "realtime"
steps_us = [10_000]
arrivals = "poisson"
rate = 250
requests = 3000
[job.training]
class = "background"
steps_us = [1000]
requests = 100
"""


class Simulate(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.trace = pathlib.Path(holder.name) / "trace.toml"

    def simulate(self, text, *arguments, code=0):
        self.trace.write_text(text)
        done = program.run("share", "simulate", self.trace, *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_the_use_of_slices_says_its_span(self):
        done = self.simulate(CLUSTER)
        self.assertRegex(done.stdout,
                         r"slices in use [\d.]+% over the [\d.]+ hours in which jobs came \([\d.]+% over the")
        self.assertNotIn("warning", done.stderr)
        cluster = json.loads(self.simulate(CLUSTER, "--json").stdout)["cluster"]
        self.assertGreater(cluster["hours"], cluster["arrival_hours"])
        self.assertGreater(cluster["busy_share"], cluster["busy_share_to_the_end"])
        self.assertFalse(cluster["overloaded"])

    def test_an_overloaded_cluster_is_warned_of(self):
        text = CLUSTER.replace("mean_seconds = 60", "mean_seconds = 144")
        self.assertIn("2.00 times the work", self.simulate(text).stderr)
        done = self.simulate(text, "--json")
        self.assertIn("2.00 times the work", done.stderr)
        self.assertTrue(json.loads(done.stdout)["cluster"]["overloaded"])

    def test_unknown_keys_are_refused(self):
        for text, message in (("sed = 1\n" + CLUSTER.partition("\n")[2], "did you mean 'seed'?"),
                              (CLUSTER + "[clster]\n", "clster is unknown"),
                              (CLUSTER + "job_per_hour = 1\n", "did you mean 'jobs_per_hour'?")):
            self.assertIn(message, self.simulate(text, code=2).stderr)

    def test_how_many_devices_a_load_needs(self):
        done = self.simulate(REQUESTS, "--policy", "fifo,fill", "--devices-for-p99", "40ms")
        for policy in ("fifo", "fill"):
            self.assertRegex(done.stdout,
                             rf"{policy}: \d+ devices for a p99 latency of at most 40 ms: it is [\d.]+ ms, and")
        answer = json.loads(self.simulate(REQUESTS, "--policy", "fill", "--devices-for-p99", "40ms", "--json").stdout)
        (fill,) = answer["policies"]
        self.assertGreater(fill["devices"], 2)  # 2.5 of them would be busy all the time
        self.assertLessEqual(fill["p99_ms"], 40)
        self.assertGreater(fill["p99_ms_with_one_fewer"], 40)
        impossible = self.simulate(REQUESTS, "--policy", "fifo", "--devices-for-p99", "5ms")
        self.assertIn("no number of devices", impossible.stdout)
        self.assertRegex(self.simulate(CLUSTER, "--devices-for-p99", "1m").stdout,
                         r"cluster: \d+ devices for a p99 wait for a place of at most 60000 ms")
        both = self.simulate(REQUESTS, "--devices-for-p99", "5ms", "--html", "page.html", code=2)
        self.assertIn("--html", both.stderr)


if __name__ == "__main__":
    program.main()
