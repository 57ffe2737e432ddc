"""Schemas of the kinds that clusters know only with an operator installed: the fields that deploy/ may use, strictly.
Each is a subset, written by hand, of the definition at the address that stands with it."""

TEXT, WHOLE, TRUTH, ANY = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def table(properties, *required):
    return {"type": "object", "properties": properties, "additionalProperties": False, "required": list(required)}


def rows(items, least=0):
    return {"type": "array", "items": items, "minItems": least}


def one_of(*values):
    return {"enum": list(values)}


METADATA = table({"name": TEXT, "namespace": TEXT, "labels": TEXTS, "annotations": TEXTS}, "name")
SELECTED = table({"name": TEXT, "key": TEXT, "optional": TRUTH}, "key")
SECRET_OR_MAP = table({"secret": SELECTED, "configMap": SELECTED})


def resource(api_version, kind, spec):
    return table({"apiVersion": one_of(api_version), "kind": one_of(kind), "metadata": METADATA, "spec": spec},
                 "apiVersion", "kind", "metadata", "spec")


# https://github.com/prometheus-operator/prometheus-operator/blob/main/example/prometheus-operator-crd/
# monitoring.coreos.com_servicemonitors.yaml
SERVICE_MONITOR = resource("monitoring.coreos.com/v1", "ServiceMonitor", table({
    "selector": table({"matchLabels": TEXTS}),
    "endpoints": rows(table({
        "port": TEXT, "path": TEXT, "interval": {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"},
        "scheme": one_of("http", "https"),
        "tlsConfig": table({"ca": SECRET_OR_MAP, "cert": SECRET_OR_MAP, "keySecret": SELECTED, "serverName": TEXT,
                            "insecureSkipVerify": TRUTH}),
        "authorization": table({"type": TEXT, "credentials": SELECTED}),
    }, "port"), 1),
}, "selector", "endpoints"))

# https://github.com/kubernetes-sigs/gateway-api/tree/main/config/crd/standard
PARENTS = rows(table({"name": TEXT, "namespace": TEXT, "group": TEXT, "kind": TEXT, "port": WHOLE,
                      "sectionName": TEXT}, "name"), 1)
BACKENDS = rows(table({"name": TEXT, "namespace": TEXT, "port": WHOLE, "weight": WHOLE}, "name", "port"), 1)


def route(kind, match):
    return resource("gateway.networking.k8s.io/v1", kind, table({
        "parentRefs": PARENTS, "hostnames": rows(TEXT),
        "rules": rows(table({"matches": rows(match), "backendRefs": BACKENDS}), 1),
    }, "parentRefs", "rules"))


HTTP_ROUTE = route("HTTPRoute", table({"path": table({"type": one_of("Exact", "PathPrefix"), "value": TEXT})}))
GRPC_ROUTE = route("GRPCRoute", table({"method": table({"type": one_of("Exact"), "service": TEXT, "method": TEXT})}))

# https://github.com/kserve/kserve/blob/master/config/crd/full/serving.kserve.io_servingruntimes.yaml; a container is
# the one of Kubernetes, which the test checks as a part of a pod.
PROTOCOL = one_of("v1", "v2", "grpc-v1", "grpc-v2")
SERVING_RUNTIME = resource("serving.kserve.io/v1alpha1", "ServingRuntime", table({
    "annotations": TEXTS, "labels": TEXTS, "disabled": TRUTH, "multiModel": TRUTH,
    "protocolVersions": rows(PROTOCOL, 1),
    "supportedModelFormats": rows(table({"name": TEXT, "version": TEXT, "autoSelect": TRUTH,
                                         "priority": {"type": "integer", "minimum": 1}}, "name"), 1),
    "containers": rows(ANY, 1), "volumes": rows(ANY), "imagePullSecrets": rows(table({"name": TEXT}, "name")),
    "nodeSelector": TEXTS, "tolerations": rows(ANY), "affinity": ANY,
}, "containers"))

# https://github.com/kserve/kserve/blob/master/config/crd/full/serving.kserve.io_inferenceservices.yaml
INFERENCE_SERVICE = resource("serving.kserve.io/v1beta1", "InferenceService", table({
    "predictor": table({
        "minReplicas": WHOLE, "maxReplicas": WHOLE, "scaleTarget": WHOLE, "serviceAccountName": TEXT,
        "model": table({"modelFormat": table({"name": TEXT, "version": TEXT}, "name"), "protocolVersion": PROTOCOL,
                        "runtime": TEXT, "storageUri": TEXT, "resources": ANY, "env": rows(ANY), "args": rows(TEXT)},
                       "modelFormat"),
    }),
}, "predictor"))

SCHEMAS = {schema["properties"]["kind"]["enum"][0]: schema for schema in
           (SERVICE_MONITOR, HTTP_ROUTE, GRPC_ROUTE, SERVING_RUNTIME, INFERENCE_SERVICE)}
