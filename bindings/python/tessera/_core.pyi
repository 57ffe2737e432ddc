"""The extension module. Its classes are wrapped by those of `tessera`, which say more."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__version__: str

class Tensor:
    """Memory that Tessera and Python share: an element type, a shape, and elements in row-major order.

    Has the buffer protocol and DLPack.
    """

    @staticmethod
    def of(array: Any) -> Tensor:
        """The array's memory where it is contiguous and aligned, else a copy."""
    @staticmethod
    def zeros(dtype: str, shape: Sequence[int]) -> Tensor: ...
    @staticmethod
    def of_address(dtype: str, shape: Sequence[int], address: int) -> Tensor:
        """Memory that the caller keeps alive."""
    @property
    def dtype(self) -> str: ...
    @property
    def onnx_type(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    def numpy(self) -> Any:
        """A numpy array of the same memory (strings and types of less than a byte are copied)."""
    def reinterpreted(self, dtype: str) -> Tensor: ...
    def copy(self) -> Tensor: ...
    def assign(self, array: Any) -> None:
        """Copies the elements of an array of the same type and shape here."""
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ValueInfo:
    """An input or output as the model declares it."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str:
        """As text: 'f32[batch, 3, 224, 224]'."""
    @property
    def dtype(self) -> str | None: ...
    @property
    def shape(self) -> list[int | str | None] | None:
        """Numbers, names, and None where nothing is known; None where the rank is not known."""

class Model:
    """A network, read from a file; immutable."""

    @staticmethod
    def load(
        path: Any,
        initializers: dict[str, Any] | None = None,
        *,
        key_file: Any = None,
        key_command: str = "",
        password_file: Any = None,
    ) -> Model: ...
    @staticmethod
    def from_bytes(
        data: bytes, external_data_folder: Any = None, initializers: dict[str, Any] | None = None
    ) -> Model: ...
    def with_dims(self, dims: Mapping[str, int]) -> Model: ...
    def save(self, path: Any) -> None: ...
    @property
    def inputs(self) -> list[ValueInfo]: ...
    @property
    def outputs(self) -> list[ValueInfo]: ...
    @property
    def overridable(self) -> list[ValueInfo]:
        """Inputs with a default: initialisers that a run may override by their names."""
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def has_variables(self) -> bool: ...

class SessionOptions:
    device: str
    threads: int
    max_cached_plans: int
    max_plan_bytes: int
    precision: str
    memory_limit_bytes: int
    device_memory_limit_bytes: int
    seed: int | None
    max_growing_bytes: int
    without_passes: list[str]
    tune: bool
    tuning_file: str
    def __init__(self) -> None: ...

class Cancellation:
    """Stops a run from another thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

class RunOptions:
    """How one run is made.

    `seed` decides what random operators draw; without one the session's seed does. `time_limit_s`: after that long the
    run raises OverBudget; 0 is no limit. `priority`: "background", "standard" or "realtime", which goes first where
    cores are short. `cancellation`: stops the run from another thread.
    """

    seed: int | None
    time_limit_s: float
    cancellation: Cancellation | None
    def __init__(
        self,
        *,
        seed: int | None = None,
        time_limit_s: float = 0.0,
        priority: str = "standard",
        cancellation: Cancellation | None = None,
    ) -> None: ...
    @property
    def priority(self) -> int: ...
    @priority.setter
    def priority(self, name: str) -> None: ...  # type: ignore[misc, unused-ignore]

class Session:
    def __init__(self, model: Model, options: SessionOptions) -> None: ...
    @property
    def model(self) -> Model: ...
    def run(
        self, feeds: dict[str, Any], outputs: Sequence[str] | None = None, options: RunOptions | None = None
    ) -> list[Any]: ...
    def run_into(self, feeds: dict[str, Any], into: dict[str, Any], options: RunOptions | None = None) -> None: ...
    def timed_run(
        self, feeds: dict[str, Any], outputs: Sequence[str] | None = None, options: RunOptions | None = None
    ) -> tuple[list[Any], list[dict[str, Any]]]: ...
    def trace(self, feeds: dict[str, Any], name: str) -> str: ...
    def memory(self) -> dict[str, int]: ...
    @property
    def draws_random_numbers(self) -> bool: ...
    def set_seed(self, seed: int) -> None: ...
    def trim(self) -> None: ...
    def describe_plan(self, feeds: dict[str, Any], reasons: bool = False) -> str: ...
    def variable_names(self) -> list[str]: ...
    def variable(self, name: str) -> Any: ...
    def set_variable(self, name: str, value: Any) -> None: ...

class IoBinding:
    def __init__(self, session: Session) -> None: ...
    def bind_input(self, name: str, array: Any) -> None: ...
    def bind_output(self, name: str, array: Any = None) -> None: ...
    def clear_inputs(self) -> None: ...
    def clear_outputs(self) -> None: ...
    def run(self, session: Session, options: RunOptions | None = None) -> None: ...
    def results(self) -> list[Any]: ...
    def output_names(self) -> list[str]: ...

class Explanation:
    def text(self, all_operators: bool = False) -> str: ...
    def json(self) -> str: ...
    def html(self) -> str: ...
    @property
    def headline(self) -> str: ...

class Differences:
    def same(self) -> bool: ...
    def text(self, most: int = 10) -> str: ...
    def json(self) -> str: ...

class Trainer:
    def __init__(
        self,
        model: Model | None,
        toml: str,
        where: str,
        settings: Sequence[str],
        train: dict[str, Any] | None,
        test: dict[str, Any] | None,
        validation: dict[str, Any] | None,
        overwrite: bool,
    ) -> None: ...
    def resume(self, path: Any) -> None: ...
    def run(
        self,
        on_step: Callable[[dict[str, Any]], object] | None = None,
        on_evaluation: Callable[[dict[str, Any]], object] | None = None,
        on_checkpoint: Callable[[str], object] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]: ...
    def evaluate(self, data: str = "test") -> dict[str, Any]: ...
    def data(self) -> dict[str, Any]: ...
    def model(self) -> Model: ...
    def notes(self) -> list[str]: ...
    def step_model(self) -> Model: ...
    def save(self, path: Any) -> None: ...

class QuantiseOptions:
    weights: str
    full: bool
    group: int
    data: str
    labels: str
    normalise: str
    batch: int
    samples: int
    estimator: str
    percentile: float
    correct_bias: bool
    equalise: bool
    adaptive_rounding: bool
    rounding_steps: int
    exclude: list[str]
    diagnose: bool
    max_drop: float | None
    metric: str
    session: SessionOptions
    def __init__(self) -> None: ...

class Server:
    """Only in builds that have the server: build_info()["server"]."""

    def __init__(self, config: Any, settings: dict[str, Any]) -> None: ...
    @property
    def ports(self) -> dict[str, int]: ...
    @property
    def ready(self) -> bool: ...
    @property
    def models(self) -> list[dict[str, str]]: ...
    def reload(self) -> None: ...
    def stop(self) -> None: ...

def serve_command(arguments: list[str]) -> int: ...

class Job:
    def run(self, session: Session, feeds: dict[str, Any], outputs: Sequence[str] | None = None) -> list[Any]: ...
    def call(self, name: str, work: Callable[[], Any]) -> Any: ...
    def charge(self, nbytes: int, what: str) -> None: ...
    def release(self, nbytes: int) -> None: ...
    def report(self) -> dict[str, Any]: ...

class LanguageModelOptions:
    threads: int
    exact: bool
    cache: str
    context: int
    cache_tokens: int
    memory_limit_bytes: int
    chat_template: str
    def __init__(self) -> None: ...

class GenerateOptions:
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    stop: list[str]
    logprobs: int
    logit_bias: dict[int, float]
    repetition_penalty: float
    repetition_window: int
    presence_penalty: float
    frequency_penalty: float
    temperature: float
    top_k: int
    typical_p: float
    top_p: float
    min_p: float
    mirostat: bool
    mirostat_tau: float
    mirostat_eta: float
    seed: int
    def __init__(self) -> None: ...

class LanguageModel:
    @staticmethod
    def load(path: Any, options: LanguageModelOptions) -> LanguageModel: ...
    def generate(
        self, prompts: Sequence[Sequence[int]], options: GenerateOptions, cancellation: Cancellation | None
    ) -> list[dict[str, Any]]: ...
    def chat(
        self, prompt: Sequence[int], options: GenerateOptions, cancellation: Cancellation | None
    ) -> dict[str, Any]: ...
    def encode(self, text: str, special: bool) -> list[int]: ...
    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]: ...
    def decode(self, tokens: Sequence[int], special: bool) -> str: ...
    def token(self, number: int) -> str: ...
    def logits(self, prompt: Sequence[int]) -> Any: ...
    @property
    def architecture(self) -> str: ...
    @property
    def chat_template(self) -> str: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def context(self) -> int: ...

class TextStream:
    """Text that a thread of its own generates."""

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        options: GenerateOptions,
        cancellation: Cancellation | None,
        chat: bool,
    ) -> None: ...
    def next(self) -> str | None:
        """Waits for the next piece; None at the end."""
    def close(self) -> None: ...
    def answer(self) -> dict[str, Any] | None:
        """After the end or close(); None where the generation failed."""

class Arbiter:
    def __init__(self, policy: str, memory_bytes: int, device: str) -> None: ...
    @property
    def policy(self) -> str: ...
    def add_job(
        self, name: str, priority: int, weight: float, goal_s: float, guarantee_bytes: int, limit_bytes: int
    ) -> Job: ...

def build_info() -> dict[str, Any]: ...
def devices_json() -> str: ...
def optional_passes() -> list[str]: ...
def explain(
    model: Model,
    name: str,
    options: SessionOptions,
    devices: Sequence[str],
    precision: str,
    training: bool,
    measure: bool,
) -> Explanation: ...
def info_json(model: Model, name: str) -> str: ...
def optimise(
    model: Model,
    name: str,
    options: SessionOptions,
    path: Any,
    opset: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[str, str, str]: ...
def quantise(
    model: Model,
    name: str,
    options: QuantiseOptions,
    path: Any,
    times: bool,
    progress: Callable[[str, float], None] | None = None,
    file_bytes: int = 0,
) -> tuple[Model, str, str, str]: ...
def diff(
    a: Session,
    b: Session,
    feeds: dict[str, Any] | None,
    relative: float,
    absolute: float,
    outputs_only: bool,
    seed: int,
) -> Differences: ...
def random_feeds(model: Model, seed: int = 0) -> dict[str, Any]: ...
def assume_dims(model: Model) -> tuple[Model, dict[str, int]]: ...
