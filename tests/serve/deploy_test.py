#!/usr/bin/env python3
"""What deploy/ says is true of the server: options and libraries; see also helm_test.py and dashboard_test.py; and
that the tests which docs/security.md names exist. Standard library only.

    deploy_test.py TESSERA
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import server

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
NOBODY = 65534


def metrics(text):
    """Names of a page of metrics, and the labels that each has; a family without a sample has none."""
    found = {name: set() for name in re.findall(r"^# TYPE (\S+)", text, re.M)}
    for line in text.splitlines():
        sample = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line)
        if sample and not line.startswith("#"):
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    return found


class Docs(unittest.TestCase):
    def test_the_page_on_security_names_tests_that_there_are(self):
        tests = pathlib.Path(__file__).resolve().parent
        page = (DEPLOY / "../docs/security.md").read_text()
        sources = "".join(path.read_text() for path in tests.glob("*_test.py"))
        named = re.findall(r"`([A-Z]\w+)\.(test_\w+)`", page)
        self.assertGreaterEqual(len(named), 6)
        for group, test in named:
            self.assertRegex(sources, rf"(?s)class {group}\(.*?    def {test}\(self")
        registered = (tests / "CMakeLists.txt").read_text()
        for names in re.findall(r"-R '?serve\.\(?([\w|]+)", page):
            for name in names.split("|"):
                self.assertTrue((tests / f"{name}_test.py").exists() and re.search(rf"\b{name}\b", registered), name)


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
    def test_the_unit_is_valid_and_confined(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "tessera-serve.service"
            text = (DEPLOY / unit.name).read_text()
            unit.write_text(text.replace("/usr/local/bin/tessera", server.program))
            for words in (["verify"], ["security", "--offline=true", "--threshold=20"]):  # of 100, for 2.0 of 10
                done = subprocess.run(["systemd-analyze", *words, unit], capture_output=True, text=True,
                                      timeout=60 * server.PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(os.geteuid() == 0, "only root can hand files to another user")
    def test_the_user_of_the_unit_can_read_what_systemd_hands_it(self):
        """Files that only root can read, copied as LoadCredential= does it, with the configuration of the docs."""
        unit = (DEPLOY / "tessera-serve.service").read_text()
        self.assertIn("DynamicUser=yes", unit)
        given = dict(re.findall(r"^LoadCredential=([^:]+):(.+)$", unit, re.M))
        page = (DEPLOY / "../docs/serving.md").read_text()
        config = re.search(r"```toml\n# /etc/tessera/server.toml\n(.*?)```", page, re.S)[1]
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            folder.chmod(0o755)
            own, copies, state = folder / "etc", folder / "run", folder / "state"
            own.mkdir(0o700)
            (own / "credentials").mkdir()
            server.make_certificate(own / "credentials", "server")
            (own / "credentials" / "search.token").write_text("a token of more than 16 bytes")
            (own / "server.toml").write_text(
                config.replace("/run/credentials/tessera-serve.service", str(copies)))
            for path in own.rglob("*.*"):
                path.chmod(0o600)
            for place in (copies, state):
                place.mkdir(0o700)
                os.chown(place, NOBODY, NOBODY)
            for name, path in given.items():
                source = own / pathlib.Path(path).relative_to("/etc/tessera")
                for file in source.iterdir() if source.is_dir() else [source]:
                    copy = copies / (f"{name}_{file.name}" if source.is_dir() else name)
                    shutil.copy(file, copy)
                    copy.chmod(0o400)
                    os.chown(copy, NOBODY, NOBODY)
            models = server.make_repository(folder / "models")
            for program in ("tessera", "tessera-serve"):  # wherever the tests were built, this user can run these
                shutil.copy(pathlib.Path(server.program).with_name(program), folder / program)
            arguments = re.search(r"ExecStart=\S+ serve \S+ (.*)", unit)[1]
            for place, code in ((copies, None), (own, 6)):  # 6: a file cannot be read
                words = arguments.replace("${CREDENTIALS_DIRECTORY}", str(place)).split()
                found = self.run_as_nobody([folder / "tessera", "serve", models, *words, "--http", "127.0.0.1:0",
                                            "--grpc", "off", "--metrics", "off"], state)
                self.assertEqual(found, code)

    def run_as_nobody(self, command, folder):
        """The exit code of a program that ended by itself; None for a server that began to serve."""
        with subprocess.Popen(command, cwd=folder, user=NOBODY, group=NOBODY, extra_groups=[], env={},
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            if not process.stdout.readline().startswith("serving on https://"):
                return process.wait(60 * server.PATIENCE)
            process.terminate()
            self.assertEqual(process.wait(60 * server.PATIENCE), 0)
            return None

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
