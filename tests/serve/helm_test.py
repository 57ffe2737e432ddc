#!/usr/bin/env python3
"""The Helm chart and the KServe runtimes of deploy/: rendered by helm with each file of values in the folder ci,
checked by Kubernetes' schemas and against each other, and what they start is started. Needs .venv-kube.

    helm_test.py TESSERA
"""
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import unittest

import server
from deploy_test import metrics
from manifests import (NEWEST, OLDER, containers, documents, pod_of, pod_spec, reference_faults, restricted_faults,
                       selects, validate)

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "tessera"
HELM = pathlib.Path(sys.executable).parent / "helm"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
CASES = [None, *VALUES]
TOKEN = "a token of more than 16 bytes"

# What is refused, and a part of the message.
REFUSED = [
    (["replica=3"], "replica"),
    (["server.policy=best"], "policy"),
    (["tls.requireClientCertificate=true"], "tls.clientAuthorities"),
    (["tls.clientAuthorities.existingSecret=ca"], "tls.existingSecret"),
    (["models.existingClaim="], "models.existingClaim"),
    (["models.source=s3"], "models.s3.bucket"),
    (["models.source=s3", "models.s3.bucket=b", "models.s3.syncSeconds=60"], "server.pollSeconds"),
    (["models.source=hostPath"], "models.hostPath"),
    (["models.source=image"], "models.image.reference"),
    (["models.source=initContainer"], "models.initContainer.image"),
    (["models.source=ftp"], "source"),
    (["metrics.enabled=false", "serviceMonitor.enabled=true"], "metrics.enabled"),
    (["serviceMonitor.enabled=true", "keys[0].name=a", "keys[0].existingSecret=s", "keys[0].roles={read}"],
     "serviceMonitor.tokenSecret"),
    (["keys[0].name=a", "keys[0].roles={read}"], "tokenSha256"),
    (["keys[0].name=a", "keys[0].existingSecret=s", "keys[0].roles={write}"], "roles"),
    (["autoscaling.enabled=true", "autoscaling.waitingRequests=0"], "waitingRequests"),
    (["gateway.enabled=true"], "gateway.parentRefs"),
    (["ingress.enabled=true"], "ingress.hosts"),
    (["http.port=70000"], "port"),
    (["server.loadModels={a}"], "explicit"),
    (["server.pollSeconds=5", "server.modelControlMode=none"], "changes on disk"),
]


def helm(*arguments):
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, timeout=60 * server.PATIENCE)


@functools.cache
def render(values, *settings):
    files = [] if values is None else ["--values", values]
    done = helm("template", "release", CHART, "--namespace", "models", *files,
                *(word for setting in settings for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def taken(arguments):
    """The arguments of a container without addresses, and without the wait before the end."""
    rest = [argument for argument in arguments if not re.match("--(http|grpc|metrics)=", argument)]
    assert len(rest) == len(arguments) - 3, arguments
    return [re.sub(r"^(--shutdown-delay)=\d+s$", r"\1=0s", argument) for argument in rest]


def of_kind(manifests, kind):
    return [manifest for manifest in manifests if manifest["kind"] == kind]


class Files:
    """A folder that has what the volumes of a pod have, with secrets made up; paths of the pod lead there."""

    def __init__(self, folder, spec, config):
        self.folder, self.mounts = pathlib.Path(folder), {}
        server.make_certificate(self.folder, "authority")
        server.make_certificate(self.folder, "server", "authority")
        server.make_certificate(self.folder, "probe", "authority")
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for mount in spec["containers"][0].get("volumeMounts", []):
            place = self.folder / "mounts" / mount["name"]
            self.mounts[mount["mountPath"]] = place
            place.mkdir(parents=True)
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                for name, text in config["data"].items():
                    (place / name).write_text(text)
            for source in [volume, *volume.get("projected", {}).get("sources", [])]:
                self.fill(place, source.get("secret"))
            if mount["name"] == "models":
                server.make_repository(place)
        for path in (self.folder / "mounts").rglob("*.toml"):  # now that all mounts are known
            path.write_text(self.translated(path.read_text()))

    def fill(self, place, secret):
        if secret is None:
            return
        who = "probe" if secret.get("secretName") == "probe" else "server"
        of_type_tls = {"tls.crt": self.folder / f"{who}.pem", "tls.key": self.folder / f"{who}.key"}
        names = {item["path"]: item["key"] for item in secret.get("items", [])} or dict.fromkeys(of_type_tls)
        for path, key in names.items():
            if path in of_type_tls:
                (place / path).write_bytes(of_type_tls[path].read_bytes())
            elif key == "ca.crt":
                (place / path).write_bytes((self.folder / "authority.pem").read_bytes())
            else:  # a token, or the key of an audit log
                (place / path).write_text(TOKEN + " and of 32 too: " + path)

    def translated(self, text):
        longest_first = sorted(self.mounts, key=len, reverse=True)
        pattern = rf"(?<![\w./])({'|'.join(map(re.escape, longest_first))})(?![\w.])"
        return re.sub(pattern, lambda found: str(self.mounts[found[1]]), text)


def with_each_values(test):
    """A test that is given a file of values and the manifests that come of it, for each file."""

    @functools.wraps(test)
    def run(self):
        for values in CASES:
            with self.subTest(values=values and values.name):
                test(self, values, render(values))

    return run


class Chart(unittest.TestCase):
    @with_each_values
    def test_every_manifest_is_valid(self, values, manifests):
        names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
        self.assertEqual(len(names), len(set(names)))
        for manifest in manifests:
            validate(manifest)
            if values is None or values.name != "image-values.yaml":
                validate(manifest, OLDER)

    def test_every_kind_is_rendered(self):
        self.assertGreaterEqual(len(VALUES), 6)
        kinds = {manifest["kind"] for values in CASES for manifest in render(values)}
        self.assertEqual(kinds, {"ConfigMap", "Deployment", "GRPCRoute", "HTTPRoute", "HorizontalPodAutoscaler",
                                 "Ingress", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount",
                                 "ServiceMonitor"})

    def test_the_checks_find_what_is_wrong(self):
        [deployment] = of_kind(render(None), "Deployment")
        wrong = json.loads(json.dumps(deployment))
        wrong["spec"]["template"]["spec"]["containers"][0]["port"] = []
        with self.assertRaises(Exception):
            validate(wrong)
        spec = pod_spec(deployment)
        for change, key in (({"securityContext": {}}, "capabilities"), ({"volumeMounts": []}, "mounts")):
            changed = {**spec, "containers": [{**spec["containers"][0], **change}]}
            self.assertIn(key, " ".join(restricted_faults(changed) + reference_faults(changed)))
        with self.assertRaises(ValueError):
            documents("a: 1\na: 2")

    def test_names_that_are_too_long_are_shortened(self):
        for manifest in render(None, "fullnameOverride=" + "a-" * 60):
            validate(manifest)

    @with_each_values
    def test_pods_are_confined_and_refer_to_what_is_there(self, _, manifests):
        specs = [spec for spec in map(pod_spec, manifests) if spec]
        self.assertTrue(specs)
        for spec in specs:
            self.assertEqual(restricted_faults(spec) + reference_faults(spec), [])
            self.assertIs(spec["automountServiceAccountToken"], False)
            for container in containers(spec):
                self.assertIn("memory", container["resources"]["limits"])

    @with_each_values
    def test_selectors_select_the_pods_of_the_server_alone(self, _, manifests):
        [deployment] = of_kind(manifests, "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        ports = {port["name"] for port in pod_spec(deployment)["containers"][0]["ports"]}
        others = [pod["metadata"]["labels"] for pod in of_kind(manifests, "Pod")]
        selectors = [deployment["spec"]["selector"]["matchLabels"]]
        for service in of_kind(manifests, "Service"):
            selectors.append(service["spec"]["selector"])
            self.assertEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
        selectors += [budget["spec"]["selector"]["matchLabels"] for budget in of_kind(manifests,
                                                                                     "PodDisruptionBudget")]
        for policy in of_kind(manifests, "NetworkPolicy"):
            selectors.append(policy["spec"]["podSelector"]["matchLabels"])
            named = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
            self.assertEqual(named, ports)
        for selector in selectors:
            self.assertTrue(selects(selector, labels), selector)
            self.assertFalse(any(selects(selector, other) for other in others), selector)
        for monitor in of_kind(manifests, "ServiceMonitor"):
            found = [service for service in of_kind(manifests, "Service")
                     if selects(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])]
            self.assertEqual(len(found), 1)  # else each pod would be counted twice
            self.assertIn(monitor["spec"]["endpoints"][0]["port"], {port["name"] for port in
                                                                    found[0]["spec"]["ports"]})

    def test_a_pod_has_the_time_to_end(self):
        for settings, seconds in (((), 50), (("server.shutdownDelaySeconds=5", "server.drainSeconds=60"), 75)):
            spec = pod_spec(of_kind(render(None, *settings), "Deployment")[0])
            self.assertEqual(spec["terminationGracePeriodSeconds"], seconds)
            arguments = " ".join(spec["containers"][0]["args"])
            times = [int(found) for found in re.findall(r"--(?:shutdown-delay|drain)=(\d+)s", arguments)]
            self.assertEqual(sum(times) + 10, seconds)
            probe = spec["containers"][0]["readinessProbe"]
            # The cluster learns that a pod is not ready before the pod stops taking requests.
            self.assertLess(probe["periodSeconds"] * probe["failureThreshold"], times[0])

    def test_what_is_wrong_is_refused(self):
        for settings, text in REFUSED:
            with self.subTest(settings=settings):
                done = helm("template", "release", CHART,
                            *(word for setting in settings for word in ("--set", setting)))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)

    def test_helm_finds_nothing_to_complain_of(self):
        for values in VALUES:
            done = helm("lint", "--strict", CHART, "--values", values)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_every_value_stands_in_the_schema(self):
        """A value that the schema does not know is refused, so this finds those that only the schema knows."""
        [values] = documents((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())

        def compare(found, described, path):
            if "properties" not in described or not isinstance(found, dict):
                return
            optional = {"global", "initialDelaySeconds", "successThreshold", "claims"}
            self.assertEqual(set(described["properties"]) - set(found) - optional, set(), path)
            self.assertIs(described["additionalProperties"], False, path)
            for name in found:
                compare(found[name], described["properties"][name], f"{path}.{name}")

        compare(values, schema, "values")

    @with_each_values
    def test_the_server_takes_what_the_chart_hands_it(self, _, manifests):
        [deployment], [config] = of_kind(manifests, "Deployment"), of_kind(manifests, "ConfigMap")
        tomllib.loads(config["data"]["server.toml"])
        spec = pod_spec(deployment)
        with tempfile.TemporaryDirectory() as folder:
            files = Files(folder, spec, config)
            arguments = [files.translated(argument) for argument in spec["containers"][0]["args"]]
            self.run_server(arguments, spec["containers"][0], files)

    def run_server(self, arguments, container, files):
        with server.Server(*taken(arguments)) as running:
            scheme = container["readinessProbe"].get("httpGet", {}).get("scheme", "http").lower()
            command = [server.program, "serve", "health", f"{scheme}://127.0.0.1:{running.port}/v2/health/ready",
                       *["--any-certificate"] * (scheme == "https")]
            if "exec" in container["readinessProbe"]:
                asked = container["readinessProbe"]["exec"]["command"]
                self.assertEqual(asked[:3], ["/usr/local/bin/tessera", "serve", "health"])
                command = [server.program, *asked[1:]]
                command = [files.translated(re.sub(r"127.0.0.1:\d+", f"127.0.0.1:{running.port}", word))
                           for word in command]
                without = [word for word in command if not re.match("--(certificate|key)=", word)]
                self.assertNotEqual(self.ask(without).returncode, 0)
            done = self.ask(command)
            self.assertEqual((done.returncode, done.stdout), (0, "ready\n"), shlex.join(command) + done.stderr)

    def ask(self, command):
        return subprocess.run(command, capture_output=True, text=True, timeout=60 * server.PATIENCE)


class Autoscaling(unittest.TestCase):
    def test_the_adapter_makes_the_metrics_of_the_autoscaler_from_those_of_the_server(self):
        [adapter] = documents((DEPLOY / "prometheus-adapter.yaml").read_text())
        rules = {rule["name"]["as"]: rule for rule in adapter["rules"]["custom"]}
        [scaler] = of_kind(render(CHART / "ci" / "everything-values.yaml"), "HorizontalPodAutoscaler")
        wanted = {metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"] if "pods" in metric}
        self.assertEqual(set(rules), wanted)
        with tempfile.TemporaryDirectory() as folder:
            with server.Server(server.make_repository(pathlib.Path(folder) / "models")) as running:
                found = metrics(running.ask("GET", "/metrics", port=running.ports["metrics"])[2].decode())
        for rule in rules.values():
            names = re.findall(r"\bnv_\w+|\btessera_\w+", rule["seriesQuery"] + rule["metricsQuery"])
            self.assertTrue(names)
            self.assertLessEqual(set(names), set(found))


class KServe(unittest.TestCase):
    def test_the_manifests_are_valid_and_fit_each_other(self):
        runtimes = documents((DEPLOY / "kserve" / "serving-runtime.yaml").read_text())
        [service] = documents((DEPLOY / "kserve" / "inference-service.yaml").read_text())
        for manifest in [*runtimes, service]:
            validate(manifest)
        model = service["spec"]["predictor"]["model"]
        [runtime] = [each for each in runtimes if each["metadata"]["name"] == model["runtime"]]
        self.assertIn(model["protocolVersion"], runtime["spec"]["protocolVersions"])
        self.assertIn(model["modelFormat"]["name"], [each["name"] for each in runtime["spec"]["supportedModelFormats"]])
        for runtime in runtimes:
            spec = runtime["spec"]
            self.assertEqual(restricted_faults(spec) + reference_faults(spec), [])
            [container] = spec["containers"]
            self.assertEqual(container["name"], "kserve-container")
            [port] = container["ports"]
            kind = {"http1": "http", "h2c": "grpc"}[port["name"]]
            self.assertEqual(spec["protocolVersions"], [{"http": "v2", "grpc": "grpc-v2"}[kind]])
            self.assertIn(f"--{kind}=0.0.0.0:{port['containerPort']}", container["args"])
            scraped = spec["annotations"]["prometheus.kserve.io/port"]
            self.assertIn(f"--metrics=0.0.0.0:{scraped}", container["args"])
            validate(pod_of({"containers": [container]}), NEWEST)

    def test_the_server_takes_the_arguments(self):
        for runtime in documents((DEPLOY / "kserve" / "serving-runtime.yaml").read_text()):
            folder, *arguments = runtime["spec"]["containers"][0]["args"]
            self.assertEqual(folder, "/mnt/models")
            with tempfile.TemporaryDirectory() as folder:
                models = server.make_repository(pathlib.Path(folder) / "models")
                with server.Server(models, *taken(arguments)) as running:
                    self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)


if __name__ == "__main__":
    server.main()
