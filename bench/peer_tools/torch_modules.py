"""The same nets as torch modules, with the weights of the ONNX file."""
import numpy as np
import onnx
import torch
import torchvision
from onnx import numpy_helper

# Nets whose parts torch runs in the order in which the ONNX file has them.
IN_ORDER = ["resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "vgg16"]


class Product(torch.nn.Module):
    """x [N, K] times a constant [K, M]."""

    def __init__(self, weight):
        super().__init__()
        self.linear = torch.nn.Linear(*weight.shape, bias=False)
        self.linear.weight.copy_(tensor(weight.T))

    def forward(self, x):
        return self.linear(x)


def tensor(array):
    return torch.from_numpy(np.array(array))


def convolution(node, weights):
    given = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    weight, group = weights[node.input[1]], given.get("group", 1)
    module = torch.nn.Conv2d(weight.shape[1] * group, weight.shape[0], weight.shape[2:], given["strides"],
                             given["pads"][:2], groups=group, bias=False)
    module.weight.copy_(tensor(weight))
    return module


def copy_parts(module, graph, weights, example):
    """Each part of torch's, as it runs, takes the next part of the graph that is of its kind and shape."""
    kinds = {
        torch.nn.Conv2d: ("Conv", ), torch.nn.BatchNorm2d: ("BatchNormalization", ), torch.nn.Linear: ("Gemm", "MatMul")
    }
    left = [node for node in graph.node if any(node.op_type in ops for ops in kinds.values())]
    ran = []
    hooks = [
        part.register_forward_hook(lambda part, *_: ran.append(part)) for part in module.modules()
        if type(part) in kinds
    ]
    module(example)
    for hook in hooks:
        hook.remove()
    for part in ran:
        node = next(node for node in left if node.op_type in kinds[type(part)] and fits(part, node, weights))
        left.remove(node)
        values = [tensor(weights[name]) for name in node.input[1:]]
        part.weight.copy_(values[0].T if is_transposed(part, node) else values[0])
        if part.bias is not None:
            part.bias.copy_(values[1])
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.copy_(values[2])
            part.running_var.copy_(values[3])
            part.eps = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)


def is_transposed(part, node):
    return isinstance(part, torch.nn.Linear) and not any(a.name == "transB" and a.i for a in node.attribute)


def fits(part, node, weights):
    shape = weights[node.input[1]].shape
    return tuple(part.weight.shape) == (shape[::-1] if is_transposed(part, node) else shape)


def vision_transformer(graph, weights):
    module = torchvision.models.vit_b_16(weights=None)
    found = {}

    def take(target, *names, transpose=False):
        found[target] = torch.cat([tensor(weights[name].T if transpose else weights[name]) for name in names])

    def take_pair(target, source, transpose=False):
        take(f"{target}.weight", f"{source}.weight", transpose=transpose)
        take(f"{target}.bias", f"{source}.bias")

    take_pair("conv_proj", "embeddings/patch")
    take("class_token", "embeddings/class_token")
    take("encoder.pos_embedding", "embeddings/position")
    for i in range(12):
        to, source = f"encoder.layers.encoder_layer_{i}", f"layer{i}"
        heads = [f"{source}/attention/{part}" for part in ("query", "key", "value")]
        take_pair(f"{to}.ln_1", f"{source}/attention/norm")
        take(f"{to}.self_attention.in_proj_weight", *[f"{head}.weight" for head in heads], transpose=True)
        take(f"{to}.self_attention.in_proj_bias", *[f"{head}.bias" for head in heads])
        take_pair(f"{to}.self_attention.out_proj", f"{source}/attention/output", transpose=True)
        take_pair(f"{to}.ln_2", f"{source}/mlp/norm")
        take_pair(f"{to}.mlp.0", f"{source}/mlp/up", transpose=True)
        take_pair(f"{to}.mlp.3", f"{source}/mlp/down", transpose=True)
    take_pair("encoder.ln", "head/norm")
    take_pair("heads.head", "head/dense")
    module.load_state_dict(found)
    return module


def build(name, path):
    """The module for a model that bench/peers.py knows, with the weights of the float32 file at `path`; None where
    there is none."""
    if name not in IN_ORDER and name != "vit_b_16" and not name.startswith(("gemm_", "conv_")):
        return None
    graph = onnx.load(path).graph
    weights = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    with torch.no_grad():
        if name.startswith("gemm_"):
            return Product(weights[graph.node[0].input[1]])
        if name.startswith("conv_"):
            return convolution(graph.node[0], weights)
        if name == "vit_b_16":
            return vision_transformer(graph, weights).eval()
        module = getattr(torchvision.models, name)(weights=None).eval()
        copy_parts(module, graph, weights, torch.zeros(1, 3, 224, 224))
        return module
