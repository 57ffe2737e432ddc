#!/usr/bin/env python3
"""What deploy/ says is true of the server: options and libraries; see also helm_test.py and dashboard_test.py. Standard
library only.

    deploy_test.py TESSERA
"""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import server

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


def metrics(text):
    """Names of a page of metrics, and the labels that each has; a family without a sample has none."""
    found = {name: set() for name in re.findall(r"^# TYPE (\S+)", text, re.M)}
    for line in text.splitlines():
        sample = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line)
        if sample and not line.startswith("#"):
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    return found


class Deploy(server.WithServer):
    def test_the_options_of_the_unit_and_the_container_are_accepted(self):
        unit = re.search(r"ExecStart=\S+ serve (.*)", (DEPLOY / "tessera-serve.service").read_text())[1]
        container = " ".join(json.loads(re.search(r"^CMD (\[.*\])", (DEPLOY / "Containerfile").read_text(), re.M)[1]))
        shown = subprocess.run([server.program, "serve", "--help"], capture_output=True, text=True,
                               timeout=60 * server.PATIENCE)
        for option in re.findall(r"--[\w-]+", unit + " " + container):
            self.assertIn(option, shown.stdout)

    def test_the_health_check_of_the_container_tells_a_ready_server(self):
        text = (DEPLOY / "Containerfile").read_text()
        check = json.loads(re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])", text, re.M)[1])
        self.assertEqual(check, ["/usr/local/bin/tessera", "serve", "health"])
        for port, code in ((self.server.port, 0), (9, 1)):  # at port 9 (discard) nobody answers
            done = subprocess.run([server.program, "serve", "health", f"http://127.0.0.1:{port}/v2/health/ready"],
                                  capture_output=True, text=True, timeout=60 * server.PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (code, "" if code else "ready\n"), done.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "the program systemd-analyze checks the unit")
    def test_the_unit_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "tessera-serve.service"
            text = (DEPLOY / unit.name).read_text()
            unit.write_text(text.replace("/usr/local/bin/tessera", server.program))
            done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True,
                                  timeout=60 * server.PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(pathlib.Path("/etc/debian_version").exists() and shutil.which("dpkg-query"),
                         "the container file names packages of Debian")
    def test_the_container_has_the_libraries(self):
        """Every library that the programs ask for is in a package that the container file names, or in one that such
        a package needs."""
        named = re.search(r"install -y --no-install-recommends (.*?) &&", (DEPLOY / "Containerfile").read_text(), re.S)
        known, waiting = {"libc6", "libstdc++6", "libgcc-s1"}, named[1].replace("\\", "").split()
        while waiting:
            package = waiting.pop()
            if package in known:
                continue
            known.add(package)
            done = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}", package], capture_output=True, text=True,
                                  timeout=60 * server.PATIENCE)
            waiting += re.findall(r"(?:^|, )([^ ,|]+)", done.stdout.replace(":amd64", ""))
        for program in (server.program, pathlib.Path(server.program).with_name("tessera-serve")):
            listed = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60 * server.PATIENCE,
                                    check=True).stdout
            paths = [str(pathlib.Path(path).resolve()) for path in re.findall(r"\S+ => (/\S+)", listed)]
            paths = [path for path in paths if not re.search(r"/lib[atu]b?san\.", path)]  # of a build under a sanitizer
            # Folders may be links (/lib to /usr/lib), which the packages' lists do not follow.
            owners = subprocess.run(["dpkg-query", "-S", *paths, *(path.removeprefix("/usr") for path in paths)],
                                    capture_output=True, text=True,
                                    timeout=60 * server.PATIENCE).stdout.splitlines()
            self.assertGreater(len(owners), 10, paths)
            for path in paths:
                owner = [line.split(":")[0] for line in owners if path.endswith(line.split(": ")[1])]
                if owner:  # else it is none of Debian's
                    self.assertIn(owner[0], known, f"{path} of {program}")


if __name__ == "__main__":
    server.main()
