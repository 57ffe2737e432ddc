#!/usr/bin/env python3
"""deploy/grafana.json: its expressions name metrics that a server has, add up replicas, and look back over windows in
which there are samples whatever the scrape interval. Where the programs of Prometheus are installed, a Prometheus
scrapes two servers and evaluates every expression. Standard library only.

    dashboard_test.py TESSERA
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import server
from deploy_test import metrics
from server import lenet_request

DASHBOARD = json.loads((pathlib.Path(__file__).resolve().parents[2] / "deploy" / "grafana.json").read_text())
TARGETS = [(panel, target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
WORDS = {"sum", "by", "rate", "avg", "count", "scalar", "histogram_quantile", "and", "on"}
OF_PROMETHEUS = {"instance", "job"}  # labels that it adds
SCRAPE_SECONDS = 1


def grouped(expression):
    """The labels that a result has; an empty set for a single value."""
    found = re.findall(r"\b(?:sum|avg) by \(([^)]*)\)", expression)
    return {label for labels in found for label in labels.split(", ")} - {"le"}


def in_prometheus(expression, window):
    for name, value in (("$__rate_interval", window), ("$instance", ".*"), ("$model", ".*")):
        expression = expression.replace(name, value)
    return expression


class Dashboard(unittest.TestCase):
    def test_the_metrics_and_labels_are_those_of_a_server(self):
        with tempfile.TemporaryDirectory() as folder:
            with server.Server(server.make_repository(pathlib.Path(folder) / "models")) as running:
                running.json("POST", "/v2/models/lenet/infer", lenet_request())
                running.ask("POST", "/v2/models/lenet/infer", {"inputs": []})
                found = metrics(running.ask("GET", "/metrics", port=running.ports["metrics"])[2].decode())
        self.assertGreaterEqual(len(TARGETS), 12)
        for _, target in TARGETS:
            bare = re.sub(r"\[[^]]*\]|(by|on) \([^)]*\)|\b\d\w*", "", target["expr"])
            names = set(re.findall(r"[a-zA-Z_]\w+", re.sub(r"\{[^}]*\}", "", bare))) - WORDS
            self.assertTrue(names, target["expr"])
            self.assertLessEqual(names, set(found), target["expr"])
            for name, labels in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
                asked = set(re.findall(r"(\w+)[=!]", labels))
                if found[name] or "model" not in asked:  # shares are shown of models that have some
                    self.assertLessEqual(asked, found[name] | OF_PROMETHEUS, target["expr"])
            self.assertEqual(set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])), grouped(target["expr"]))

    def test_windows_follow_the_scrape_interval(self):
        variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
        self.assertEqual(variables["scrape"]["current"]["value"], "60s")
        for _, target in TARGETS:
            self.assertEqual(set(re.findall(r"\[([^]]*)\]", target["expr"])) - {"$__rate_interval"}, set())
            # Grafana makes $__rate_interval four times the least step of the query, which this sets.
            self.assertEqual(target["interval"], "$scrape")
        self.assertGreater(sum("$__rate_interval" in target["expr"] for _, target in TARGETS), 6)

    def test_replicas_are_added_up(self):
        variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
        for name in ("instance", "model"):
            self.assertTrue(variables[name]["multi"] and variables[name]["includeAll"])
            self.assertIn(f", {name})", variables[name]["definition"])
        for _, target in TARGETS:
            expression = target["expr"]
            self.assertTrue(re.match(r"(sum|avg|histogram_quantile)\b", expression), expression)
            self.assertIn('instance=~"$instance"', expression)
            if "histogram_quantile" in expression:
                self.assertRegex(expression, r"sum by \([^)]*\ble\) \(rate\(\w+_bucket\{")
            self.assertIsNone(re.search(r"(?<!sum)(?<!\)) \(?rate\(.*/", expression), expression)

    @unittest.skipUnless(shutil.which("prometheus"), "the program prometheus evaluates the expressions")
    def test_prometheus_gives_the_sums_of_two_servers(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            models = server.make_repository(folder / "models")
            with server.Server(models) as one, server.Server(models) as two, Prometheus(folder, one, two) as prometheus:
                with Load(one, 50), Load(two, 25):
                    time.sleep(8 * SCRAPE_SECONDS)
                    values = {target["expr"]: prometheus.ask(in_prometheus(target["expr"], f"{4 * SCRAPE_SECONDS}s"))
                              for _, target in TARGETS}
        for (panel, target), found in zip(TARGETS, values.values()):
            if "version_share" not in target["expr"] and "cache" not in target["expr"]:
                self.assertTrue(found, target["expr"])
        per_second = {key: dict(found) for key, found in values.items() if "request_success" in key}
        answered = next(found for key, found in per_second.items() if key.startswith("sum by (model, version) (rate"))
        each = next(found for key, found in per_second.items() if key.startswith("sum by (instance)"))
        total = answered[(("model", "lenet"), ("version", "1"))]
        self.assertEqual(len(each), 2)
        self.assertAlmostEqual(total, sum(each.values()), delta=0.2 * total)
        self.assertGreater(total, 20)


class Load:
    """Requests at a rate, until it is left, and as many that are refused."""

    def __init__(self, running, per_second):
        self.running, self.pause, self.is_over = running, 1 / per_second, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(self.pause):
            self.running.json("POST", "/v2/models/lenet/infer", lenet_request())
            self.running.ask("POST", "/v2/models/lenet/infer", {"inputs": []})

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class Prometheus:
    def __init__(self, folder, *servers):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        targets = ", ".join(f'"127.0.0.1:{running.ports["metrics"]}"' for running in servers)
        config = folder / "prometheus.yaml"
        config.write_text(f"global: {{scrape_interval: {SCRAPE_SECONDS}s}}\n"
                          f"scrape_configs: [{{job_name: t, static_configs: [{{targets: [{targets}]}}]}}]\n")
        self.log = open(folder / "prometheus.log", "w")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stderr=self.log)

    def ask(self, expression):
        """Values by their labels."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=20) as answer:
            found = json.loads(answer.read())["data"]
        rows = found["result"] if found["resultType"] == "vector" else [{"metric": {}, "value": found["result"]}]
        return [(tuple(sorted(row["metric"].items())), float(row["value"][1])) for row in rows]

    def __enter__(self):
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5).close()
                return self
            except OSError:
                time.sleep(0.1 * server.PATIENCE)
        raise AssertionError("prometheus did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


if __name__ == "__main__":
    server.main()
