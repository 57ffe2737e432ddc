"""OrtValue, OrtDevice and what belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tessera import _core
from tessera._errors import Error
from tessera.ort._errors import NotImplemented as Unsupported
from tessera.ort._errors import translated
from tessera.ort._options import OrtSparseFormat
from tessera.ort._types import NAMES, dtype_name


def check_device(device_type: str) -> None:
    if device_type.lower() not in ("cpu", "cuda_pinned"):
        raise RuntimeError(f"tessera.ort has no device '{device_type}', only 'cpu'")


class OrtDevice:
    """A place of memory; here always the CPU."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type = device_type
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        check_device(ort_device_name)
        return OrtDevice(ort_device_name, device_id)

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def default_memory() -> int:
        return 0


class OrtMemoryInfo:
    """Where memory lies; here always in the CPU's."""

    def __init__(self, name: str, allocator_type: Any, device_id: int, mem_type: Any) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type


class OrtValue:
    """A tensor, or a list or dict of such, that stays where it is between runs."""

    def __init__(self, held: _core.Tensor | list[Any] | dict[Any, Any] | OrtValue | SparseTensor | None) -> None:
        self._held: Any = held._held if isinstance(held, OrtValue) else held

    @property
    def _ortvalue(self) -> OrtValue:
        """What onnxruntime's own class wraps: here the same object."""
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, *_: Any) -> OrtValue:
        """Reads the array where it lies; it must not change size and stays alive."""
        check_device(device_type)
        try:
            return cls(_core.Tensor.of(numpy_obj))
        except Error as error:
            raise translated(error) from None

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, /, onnx_element_type: int) -> OrtValue:
        """The same memory as another element type of equal width, which numpy may lack."""
        value = cls.ortvalue_from_numpy(data)
        try:
            return cls(value._tensor().reinterpreted(dtype_name(onnx_element_type)))
        except Error as error:
            raise translated(error) from None

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any = numpy.float32, device_type: str = "cpu", *_: Any
    ) -> OrtValue:
        """Memory of its own, of zeros."""
        check_device(device_type)
        return cls(_core.Tensor.zeros(dtype_name(element_type), tuple(int(each) for each in shape)))

    @classmethod
    def ortvalue_from_shape_and_onnx_type(cls, shape: Sequence[int], onnx_element_type: int, *_: Any) -> OrtValue:
        return cls.ortvalue_from_shape_and_type(shape, onnx_element_type)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        return cls(sparse_tensor)

    def as_sparse_tensor(self) -> SparseTensor:
        if not isinstance(self._held, SparseTensor):
            raise RuntimeError("this OrtValue holds no sparse tensor")
        return self._held

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> OrtValue:
        """The memory of what has DLPack, or of a capsule of it."""
        value = cls.ortvalue_from_numpy(data if hasattr(data, "__dlpack__") else _Capsule(data))
        is_bytes = is_bool_tensor and value._tensor().dtype == "u8"
        return cls(value._tensor().reinterpreted("bool")) if is_bytes else value

    def to_dlpack(self) -> Any:
        return self._tensor().__dlpack__()

    def _tensor(self) -> _core.Tensor:
        if not isinstance(self._held, _core.Tensor):
            raise RuntimeError("this OrtValue holds no tensor")
        return self._held

    def data_ptr(self) -> int:
        return self._tensor().address

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> list[int]:
        return list(self._tensor().shape)

    def data_type(self) -> str:
        if isinstance(self._held, _core.Tensor):
            return f"tensor({NAMES[self._held.dtype]})"
        if isinstance(self._held, SparseTensor):
            return self._held.data_type()
        return "seq" if isinstance(self._held, list) else "map"

    def element_type(self) -> int:
        return self._tensor().onnx_type

    def tensor_size_in_bytes(self) -> int:
        return self._tensor().nbytes

    def has_value(self) -> bool:
        return self._held is not None

    def is_tensor(self) -> bool:
        return isinstance(self._held, _core.Tensor)

    def is_sparse_tensor(self) -> bool:
        return isinstance(self._held, SparseTensor)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._held, list)

    def numpy(self) -> Any:
        """An array of the same memory; a list or dict of what is no tensor."""
        if isinstance(self._held, SparseTensor):
            raise RuntimeError("this OrtValue holds a sparse tensor: use as_sparse_tensor()")
        return self._held.numpy() if isinstance(self._held, _core.Tensor) else self._held

    def __repr__(self) -> str:
        shape = self.shape() if self.is_tensor() else ""
        return f"<OrtValue {self.data_type()}{shape}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self._tensor().numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **other: Any) -> Any:
        return self._tensor().__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def update_inplace(self, data: Any) -> None:
        data = data._tensor() if isinstance(data, OrtValue) else data
        try:
            self._tensor().assign(data)
        except Error as error:
            raise translated(error) from None


class _Capsule:
    """A DLPack capsule as the object that it is from."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self) -> Any:
        return self._capsule


class OrtValueVector(list[OrtValue]):
    """A list of OrtValues under onnxruntime's name."""

    def push_back(self, value: OrtValue) -> None:
        self.append(OrtValue(value))

    def push_back_batch(
        self, tensors: Sequence[Any], data_ptrs: Sequence[int], element_types: Sequence[Any], shapes: Any, devices: Any
    ) -> None:
        """Memory of these addresses, which the tensors keep."""
        for address, element_type, shape in zip(data_ptrs, element_types, shapes):
            self.append(OrtValue(_core.Tensor.of_address(dtype_name(element_type), tuple(map(int, shape)), address)))

    def reserve(self, size: int) -> None:
        """Nothing to do: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Nothing to do: a list has the size of what it holds."""

    def element_type_at(self, index: int) -> int:
        return self[index].element_type()

    def bool_tensor_indices(self) -> list[int]:
        return [index for index, value in enumerate(self) if value.is_tensor() and value._held.dtype == "bool"]

    def dlpack_at(self, index: int) -> Any:
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Any = None) -> list[Any]:
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(each) for each in capsules]


class _Indices:
    """What a view of a sparse tensor gives: the indices of its format."""

    def __init__(self, indices: Any, outer: Any = None) -> None:
        self._indices, self._outer = indices, outer

    def indices(self) -> Any:
        return self._indices

    def inner(self) -> Any:
        return self._indices

    def outer(self) -> Any:
        return self._outer


class SparseTensor:
    """Values that are not zero and where they stand. It only holds them: no input of a model here can be sparse."""

    def __init__(self, dense_shape: Any, values: Any, format: OrtSparseFormat, indices: _Indices) -> None:
        self._shape = [int(each) for each in dense_shape]
        self._values = numpy.ascontiguousarray(values)
        self._format, self._indices = format, indices

    @staticmethod
    def sparse_coo_from_numpy(dense_shape: Any, values: Any, coo_indices: Any, ort_device: Any = None) -> SparseTensor:
        indices = numpy.asarray(coo_indices, numpy.int64)
        count = len(numpy.asarray(values))
        if indices.shape not in ((count,), (count, 2)) and indices.size != 2 * count:
            raise RuntimeError(f"{count} values need as many linear indices, or pairs of coordinates")
        return SparseTensor(dense_shape, values, OrtSparseFormat.ORT_SPARSE_COO, _Indices(indices))

    @staticmethod
    def sparse_csr_from_numpy(
        dense_shape: Any, values: Any, inner_indices: Any, outer_indices: Any, ort_device: Any = None
    ) -> SparseTensor:
        inner, outer = (numpy.asarray(each, numpy.int64) for each in (inner_indices, outer_indices))
        if len(inner) != len(numpy.asarray(values)) or len(outer) != int(dense_shape[0]) + 1:
            raise RuntimeError("a column is needed for each value, and a beginning for each row and the end")
        return SparseTensor(dense_shape, values, OrtSparseFormat.ORT_SPARSE_CSRC, _Indices(inner, outer))

    def values(self) -> Any:
        return self._values

    def _view(self, wanted: OrtSparseFormat) -> _Indices:
        if self._format != wanted:
            raise RuntimeError(f"this sparse tensor is in the format {self._format}, not {wanted}")
        return self._indices

    def as_coo_view(self) -> _Indices:
        return self._view(OrtSparseFormat.ORT_SPARSE_COO)

    def as_csrc_view(self) -> _Indices:
        return self._view(OrtSparseFormat.ORT_SPARSE_CSRC)

    def as_blocksparse_view(self) -> _Indices:
        return self._view(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)

    def format(self) -> OrtSparseFormat:
        return self._format

    def dense_shape(self) -> list[int]:
        return self._shape

    def data_type(self) -> str:
        name = self._values.dtype.name
        return f"sparse_tensor({ {'float32': 'float', 'float64': 'double'}.get(name, name) })"

    def device_name(self) -> str:
        return "cpu"

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        raise Unsupported("tessera.ort computes on the CPU alone")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies the elements of each tensor to the one at its place in `dst`."""
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source._tensor())
