"""Manifests of Kubernetes as the tests of deploy/ read and check them. Needs the environment .venv-kube."""
import re

import jsonschema
import kubernetes_validate
import yaml
from custom_resources import SCHEMAS

# The newest of the wheel, and one that knows no image volumes.
NEWEST, OLDER = "1.37", "1.28"


class Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML's own loader silently takes the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise ValueError(f"{node.start_mark}: the keys {twice} stand twice")
        return super().construct_mapping(node, deep)


def documents(text):
    return [found for found in yaml.load_all(text, Loader) if found is not None]


def validate(manifest, version=NEWEST):
    """Raises an exception where a field is unknown, missing or of another type, or a name too long."""
    name = manifest["metadata"]["name"]
    assert len(name) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name), f"the name {name!r}"
    for key, value in manifest["metadata"].get("labels", {}).items():
        assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", value) and len(value) <= 63, (key, value)
    if manifest["kind"] in SCHEMAS:
        jsonschema.Draft202012Validator(SCHEMAS[manifest["kind"]]).validate(manifest)
        for container in manifest["spec"].get("containers", []):
            validate(pod_of({"containers": [container]}), version)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


def pod_of(spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}


def pod_spec(manifest):
    """The specification of the pods that a manifest makes; None without one."""
    if manifest["kind"] in ("Pod", "ServingRuntime"):
        return manifest["spec"]
    return manifest["spec"]["template"]["spec"] if manifest["kind"] == "Deployment" else None


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def restricted_faults(spec):
    """What the profile "restricted" of https://kubernetes.io/docs/concepts/security/pod-security-standards/ refuses,
    and what it leaves open: a root file system that can be written."""
    faults, pod = [], spec.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            faults.append(key)
    for container in containers(spec):
        own = container.get("securityContext", {})

        def effective(key, own=own):
            return own.get(key, pod.get(key))

        wanted = {"runAsNonRoot": effective("runAsNonRoot") is True, "runAsUser": effective("runAsUser") != 0,
                  "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
                  "capabilities": own.get("capabilities", {}) == {"drop": ["ALL"]},
                  "seccompProfile": (effective("seccompProfile") or {}).get("type") == "RuntimeDefault",
                  "privileged": not own.get("privileged"),
                  "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True}
        faults += [f"{container['name']}: {key}" for key, is_right in wanted.items() if not is_right]
    return faults


def reference_faults(spec):
    """Ports and volumes that containers name and nobody has, or that nobody uses."""
    faults, volumes, mounted = [], {volume["name"] for volume in spec.get("volumes", [])}, set()
    for container in containers(spec):
        ports = {port.get("name") for port in container.get("ports", [])}
        numbers = {port["containerPort"] for port in container.get("ports", [])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container.get(kind, {}).get("httpGet", {}).get("port")
            if asked is not None and asked not in ports | numbers and f":{asked}" not in " ".join(container["args"]):
                faults.append(f"{container['name']}: {kind} asks the port {asked}")
        mounts = [mount["name"] for mount in container.get("volumeMounts", [])]
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        mounted.update(mounts)
        faults += [f"{container['name']}: no volume {name}" for name in set(mounts) - volumes]
        faults += [f"{container['name']}: {path} twice" for path in set(paths) if paths.count(path) > 1]
    return faults + [f"nobody mounts {name}" for name in volumes - mounted]


def selects(selector, labels):
    return bool(selector) and selector.items() <= labels.items()
