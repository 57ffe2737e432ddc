"""OrtValue, OrtDevice and what belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tessera import _core
from tessera._errors import Error
from tessera.ort._errors import NotImplemented as Unsupported
from tessera.ort._errors import translated
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
    def __init__(self, name: str, allocator_type: Any, device_id: int, mem_type: Any) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type


class OrtValue:
    """A tensor, or a list or dict of such, that stays where it is between runs."""

    def __init__(self, held: _core.Tensor | list[Any] | dict[Any, Any] | None) -> None:
        self._held = held

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
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        raise Unsupported("tessera.ort has no sparse tensors; give a dense array")

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        return cls.ortvalue_from_numpy(data)

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
        return False

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._held, list)

    def numpy(self) -> Any:
        """An array of the same memory; a list or dict of what is no tensor."""
        return self._held.numpy() if isinstance(self._held, _core.Tensor) else self._held

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
        try:
            self._tensor().assign(data)
        except Error as error:
            raise translated(error) from None


class SparseTensor:
    """Not supported: every way to make one says so."""

    def __init__(self, *_: Any) -> None:
        raise Unsupported("tessera.ort has no sparse tensors; give a dense array")

    @staticmethod
    def sparse_coo_from_numpy(*_: Any) -> SparseTensor:
        return SparseTensor()

    @staticmethod
    def sparse_csr_from_numpy(*_: Any) -> SparseTensor:
        return SparseTensor()


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source._tensor())
