"""A graph that torch.compile captured: what it takes and gives back, and a module of it that can be exported."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tessera._errors import Unsupported
from tessera._torch_fused import spell_out


def _example(node: Any) -> Any:
    """The FakeTensor or symbolic number that PyTorch computed for a node."""
    return node.meta.get("example_value", node.meta.get("val"))


def _storage(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # such as sparse tensors
        return None


class Sizes:
    """The numbers that stand for the symbols of a graph in one call."""

    def __init__(self, values: dict[Any, int]) -> None:
        self._values = values

    def of(self, size: Any) -> int | None:
        """A number, or a symbolic one where its symbols are known."""
        if isinstance(size, int):
            return size
        found = size.node.expr.xreplace(self._values)
        return int(found) if getattr(found, "is_number", True) else None

    def all(self, sizes: Sequence[Any]) -> list[int] | None:
        found = [self.of(size) for size in sizes]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None


class _Output:
    """How one output of the graph is made: by the exported module, or from what the call was given.

    `kind` is "tensor" (of the exported module), "argument" (the argument itself), "view" (of an argument), "number"
    (symbolic) or "value" (a constant of the graph).
    """

    def __init__(self, kind: str, example: Any, argument: int = -1) -> None:
        self.kind = kind
        self.example = example
        self.argument = argument


class CapturedGraph:
    """The graph with a plan for its arguments and outputs."""

    def __init__(self, torch: Any, graph: Any) -> None:
        self._torch = torch
        self.graph = graph
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.examples = [_example(node) for node in self._placeholders]
        kinds = [node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for node in self._placeholders]
        # Whether the argument is a parameter or buffer of a module, which changes rarely.
        self.constant = [kind is not None for kind in kinds]
        # With dynamic=True, Python floats (such as an epsilon) are passed as tensors that the graph reads by item().
        self.is_scalar = [self._is_scalar(node) for node in self._placeholders]
        self.outputs = self._plan_outputs()

    def _plan_outputs(self) -> list[_Output]:
        tensor = self._torch.Tensor
        numbers = (self._torch.SymInt, self._torch.SymFloat, self._torch.SymBool)
        argument_of = {id(node): i for i, node in enumerate(self._placeholders)}
        owners = {_storage(each): i for i, each in enumerate(self.examples) if isinstance(each, tensor)}
        owners.pop(None, None)
        taken: set[int | None] = set()
        outputs = []
        results = next(node for node in self.graph.graph.nodes if node.op == "output").args[0]
        for result in results:
            if not isinstance(result, self._torch.fx.Node):
                outputs.append(_Output("value", result))
                continue
            example = _example(result)
            if id(result) in argument_of:
                outputs.append(_Output("argument", example, argument_of[id(result)]))
            elif isinstance(example, numbers) or isinstance(example, (int, float, bool)):
                outputs.append(_Output("number", example))
            elif not isinstance(example, tensor):
                raise Unsupported(f"an output is a {type(example).__name__}")
            elif _storage(example) in owners:
                outputs.append(_Output("view", example, owners[_storage(example)]))
            else:
                if _storage(example) in taken:
                    raise Unsupported("two of its outputs share their memory")
                taken.add(_storage(example))
                outputs.append(_Output("tensor", example))
        return outputs

    def _is_scalar(self, node: Any) -> bool:
        example = _example(node)
        reads = [user.op == "call_method" and user.target == "item" for user in node.users]
        return isinstance(example, self._torch.Tensor) and example.dim() == 0 and len(reads) > 0 and all(reads)

    @property
    def computes(self) -> bool:
        return any(output.kind == "tensor" for output in self.outputs)

    def has_complex(self) -> bool:
        """Whether a tensor within the graph is complex. Raises Unsupported where an argument is."""
        tensor = self._torch.Tensor
        if any(isinstance(each, tensor) and each.is_complex() for each in self.examples):
            raise Unsupported("it takes complex tensors, which ONNX has no operators for")
        made = [_example(node) for node in self.graph.graph.nodes]
        return any(isinstance(each, tensor) and each.is_complex() for each in made)

    def _is_input(self, i: int, argument: Any) -> bool:
        """Whether an argument is an input of the exported graph."""
        return not (self.constant[i] or self.is_scalar[i]) and isinstance(argument, self._torch.Tensor)

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The tensors that the exported graph takes."""
        return [each for i, each in enumerate(arguments) if self._is_input(i, each)]

    def fixed(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The numbers among the arguments that an export makes constants."""
        sources = self._sources_of_numbers(arguments)
        found = []
        for i, each in enumerate(arguments):
            if self.is_scalar[i]:
                found.append(each.item())
            elif not isinstance(each, self._torch.Tensor) and i not in sources:
                found.append(each)
        return tuple(found)

    def sizes(self, arguments: Sequence[Any]) -> Sizes:
        values: dict[Any, int] = {}
        for example, argument in zip(self.examples, arguments):
            if isinstance(example, self._torch.Tensor):
                known = zip(example.shape, argument.shape)
            else:
                known = zip([example], [argument])
            for size, number in known:
                if isinstance(size, self._torch.SymInt) and size.node.expr.is_Symbol:
                    values[size.node.expr] = int(number)
        return Sizes(values)

    def dynamic_shapes(self, arguments: Sequence[Any]) -> list[Any]:
        """For each tensor among the varying arguments, the dimensions that torch.export may leave open."""
        automatic = self._torch.export.Dim.AUTO
        found = []
        for i, (example, argument) in enumerate(zip(self.examples, arguments)):
            if not self._is_input(i, argument):
                continue
            sizes = example.shape if isinstance(example, self._torch.Tensor) else ()
            found.append({d: automatic for d, size in enumerate(sizes) if not isinstance(size, int)} or None)
        return found

    def module(self, arguments: Sequence[Any]) -> Any:
        """The graph as a module that owns its constants, is called with the other tensors, and gives the outputs of
        kind "tensor". Numbers among the arguments are read from the shapes where these hold them."""
        torch = self._torch
        captured = self
        sources = self._sources_of_numbers(arguments)
        scalars = {self._placeholders[i].name: each.item() for i, each in enumerate(arguments) if self.is_scalar[i]}
        graph = spell_out(torch, _with_numbers(_with_plain_tensors(torch, self.graph), scalars))

        class Exportable(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
            def __init__(self) -> None:
                super().__init__()
                self.graph = graph
                for i, each in enumerate(arguments):
                    if captured.constant[i]:
                        self.register_buffer(f"constant_{i}", plain(each))

            def forward(self, *given: Any) -> Any:
                tensors = iter(given)
                whole = []
                for i, each in enumerate(arguments):
                    if captured.constant[i]:
                        whole.append(getattr(self, f"constant_{i}"))
                    elif captured._is_input(i, each):
                        whole.append(next(tensors))
                    elif captured.is_scalar[i]:
                        whole.append(None)  # not read by the graph
                    else:
                        source = sources.get(i)
                        whole.append(each if source is None else given[source[0]].shape[source[1]])
                results = self.graph(*whole)
                return tuple(each for each, output in zip(results, captured.outputs) if output.kind == "tensor")

        return Exportable().eval()

    def _sources_of_numbers(self, arguments: Sequence[Any]) -> dict[int, tuple[int, int]]:
        """Where the numbers among the arguments stand in the shapes of the varying tensors."""
        places: dict[Any, tuple[int, int]] = {}
        position = 0
        for i, (example, argument) in enumerate(zip(self.examples, arguments)):
            if not self._is_input(i, argument):
                continue
            for d, size in enumerate(example.shape if isinstance(example, self._torch.Tensor) else ()):
                if isinstance(size, self._torch.SymInt):
                    places.setdefault(size.node.expr, (position, d))
            position += 1
        return {
            i: places[example.node.expr]
            for i, example in enumerate(self.examples)
            if isinstance(example, self._torch.SymInt) and example.node.expr in places
        }

    def key(self, arguments: Sequence[Any]) -> Any:
        """Tells calls with the same element types, shapes and numbers from others."""
        tensor = self._torch.Tensor
        return tuple(
            each.item() if scalar else (each.dtype, each.shape) if isinstance(each, tensor) else each
            for each, constant, scalar in zip(arguments, self.constant, self.is_scalar)
            if not constant
        )

    def view(self, output: _Output, arguments: Sequence[Any], sizes: Sizes) -> Any:
        """The view of an argument that an output is. Raises Unsupported where that cannot be said."""
        example, base = output.example, self.examples[output.argument]
        argument = arguments[output.argument]
        bits = (example.dtype, example.is_conj(), example.is_neg())
        shape, strides = sizes.all(example.shape), sizes.all(example.stride())
        offsets = sizes.all([example.storage_offset(), base.storage_offset()])
        if bits != (argument.dtype, argument.is_conj(), argument.is_neg()) or not (
            shape is not None and strides is not None and offsets is not None
        ):
            raise Unsupported("an output is a view of an argument under another type")
        return argument.as_strided(shape, strides, argument.storage_offset() + offsets[0] - offsets[1])


def plain(tensor: Any) -> Any:
    """The tensor without gradients, and without a pending conjugation or negation."""
    return tensor.detach().resolve_conj().resolve_neg()


def _with_numbers(graph: Any, numbers: dict[str, Any]) -> Any:
    """The graph, or a copy that has these numbers where it reads placeholders of these names by item()."""
    if not numbers:
        return graph
    from torch.fx.node import map_arg  # type: ignore[import-not-found, unused-ignore]

    changed = copy.copy(graph)
    changed.graph = copy.deepcopy(graph.graph)
    for node in list(changed.graph.nodes):
        if node.op == "call_method" and node.target == "item" and node.args[0].name in numbers:
            number = numbers[node.args[0].name]
            for user in list(node.users):
                user.args = map_arg(user.args, lambda each, old=node, new=number: new if each is old else each)
                user.kwargs = map_arg(user.kwargs, lambda each, old=node, new=number: new if each is old else each)
            changed.graph.erase_node(node)
    changed.recompile()
    return changed


def _with_plain_tensors(torch: Any, graph: Any) -> Any:
    """The graph; its own tensors are written out where they are negated or conjugated views."""
    for node in graph.graph.nodes:
        if node.op != "get_attr":
            continue
        owner, name = graph, str(node.target)
        while "." in name:
            first, name = name.split(".", 1)
            owner = getattr(owner, first)
        found = getattr(owner, name, None)
        if isinstance(found, torch.Tensor) and (found.is_neg() or found.is_conj()):
            setattr(owner, name, plain(found))
    return graph
