"""Generating text with language models."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, get_type_hints, overload

from tessera import _core
from tessera._errors import InvalidArgument
from tessera._session import Path, names_of

# A text, or token numbers.
Prompt = str | Sequence[int]


class Message(TypedDict):
    """A message of a conversation; most chat templates know the roles "system", "user" and "assistant"."""

    role: str
    content: str


class GenerateKeywords(TypedDict, total=False):
    """How tokens are drawn and where an answer ends; docs/generate.md says more.

    `max_tokens`: None until the model ends its answer or the context is full. `stop`: texts that end an answer and are
    not part of it. `logprobs`: how many of the most probable tokens to list in each place, 0 to 20. `temperature`: 0
    always takes the most probable token. `cancellation`: ends the answer from another thread.
    """

    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    stop: str | Sequence[str]
    logprobs: int | None
    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float
    repetition_window: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    mirostat: bool
    mirostat_tau: float
    mirostat_eta: float
    cancellation: _core.Cancellation | None


class LoadKeywords(TypedDict, total=False):
    """The keywords of LanguageModel.load but the path."""

    threads: int
    exact: bool
    cache: str
    context: int
    cache_tokens: int
    memory_limit_bytes: int
    chat_template: str


@dataclass(frozen=True)
class Answer:
    """What a model generated after a prompt; str() is its text.

    `tokens` include the one that ended the answer, whose text is not shown. `finish_reason` is "stop" (the model ended
    it, or a stop string came), "length" or "cancelled". `cached_tokens` are those of the prompt that were in the cache.
    With `logprobs`, each token has its natural logarithm of the probability and a dict of the most probable tokens.
    """

    text: str
    tokens: list[int]
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    prompt_seconds: float
    answer_seconds: float
    logprobs: list[float] | None = None
    top_logprobs: list[dict[int, float]] | None = None

    def __str__(self) -> str:
        return self.text


def _options(given: GenerateKeywords) -> tuple[_core.GenerateOptions, _core.Cancellation | None]:
    values: dict[str, Any] = dict(given)
    cancellation = values.pop("cancellation", None)
    unknown = sorted(values.keys() - GenerateKeywords.__annotations__.keys())
    if unknown:
        raise TypeError(f"there is no keyword '{unknown[0]}'; use {', '.join(GenerateKeywords.__annotations__)}")
    for name in ("max_tokens", "logprobs"):
        if values.get(name, 0) is None:
            del values[name]
        elif values.get(name, 0) < 0:
            raise InvalidArgument(f"{name} is {values[name]}, expected 0 or more, or None")
    if "stop" in values:
        values["stop"] = names_of(values["stop"])
    if "logit_bias" in values:
        values["logit_bias"] = dict(values["logit_bias"])
    options = _core.GenerateOptions()
    for name, value in values.items():
        try:
            setattr(options, name, value)
        except TypeError:
            expected = get_type_hints(GenerateKeywords)[name]
            raise TypeError(f"{name} is {value!r}, expected {getattr(expected, '__name__', expected)}") from None
    return options, cancellation


def _pairs(messages: Sequence[Message]) -> list[tuple[str, str]]:
    pairs = []
    for each in messages:
        if not isinstance(each, Mapping) or not all(isinstance(each.get(key), str) for key in ("role", "content")):
            raise InvalidArgument(f'a message is {each!r}, expected a dict such as {{"role": "user", "content": "…"}}')
        pairs.append((each["role"], each["content"]))
    return pairs


class TextStream:
    """The text of one answer, piece by piece, while it is generated; made by LanguageModel.stream.

    Iterate over it. Leaving the loop, close(), the end of a `with` block and Ctrl-C end the answer.
    """

    def __init__(self, core: _core.TextStream) -> None:
        self._core = core
        self._pieces: list[str] = []
        # The thread that generates must have ended before the interpreter does.
        self._finalizer = weakref.finalize(self, core.close)

    def __iter__(self) -> Iterator[str]:
        try:
            while (piece := self._core.next()) is not None:
                yield piece
        finally:
            self.close()

    def close(self) -> None:
        """Ends the answer where it is, and waits until the model is free."""
        self._finalizer()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def answer(self) -> Answer:
        """The answer as far as it came; first reads what is left of it, unless it was closed."""
        if self._finalizer.alive:
            for _ in self:
                pass
        made = self._core.answer()
        if made is None:
            raise InvalidArgument("there is no answer, because generating it failed")
        return Answer(**made)


class LanguageModel:
    """A language model: a GGUF file, or a folder with safetensors files. Threads may share it; their calls take turns.

    An answer depends on the prompt, the options and the seed alone, whatever else is computed.

    >>> model = tessera.LanguageModel.load("model.gguf")  # doctest: +SKIP
    >>> print(model.generate("The capital of France is", max_tokens=8, temperature=0))  # doctest: +SKIP
     Paris.
    """

    def __init__(self, core: _core.LanguageModel) -> None:
        self._core = core

    @staticmethod
    def load(path: Path, **options: Unpack[LoadKeywords]) -> LanguageModel:
        """`threads`: cores to use at most; 0: all. `exact`: activations are not rounded to 8 bits. `cache`: "f16", or
        "int8" for half the memory. `context`: most tokens of prompt and answer; 0: the model's, up to 8192.
        `cache_tokens`: tokens of all prompts and answers that are computed at once; 0: the context. `chat_template`: in
        Jinja, in place of the model's own.
        """
        made = _core.LanguageModelOptions()
        for name, value in options.items():
            if name not in LoadKeywords.__annotations__:
                raise TypeError(f"there is no keyword '{name}'; use {', '.join(LoadKeywords.__annotations__)}")
            setattr(made, name, value)
        return LanguageModel(_core.LanguageModel.load(path, made))

    def __repr__(self) -> str:
        return f"<tessera.LanguageModel {self.architecture}, {self.vocabulary_size} tokens, context {self.context}>"

    def _tokens(self, prompt: Prompt) -> list[int]:
        return self._core.encode(prompt, True) if isinstance(prompt, str) else [int(token) for token in prompt]

    @overload
    def generate(self, prompt: Prompt, **options: Unpack[GenerateKeywords]) -> Answer: ...
    @overload
    def generate(self, prompt: list[str] | list[list[int]], **options: Unpack[GenerateKeywords]) -> list[Answer]: ...
    def generate(
        self, prompt: Prompt | list[str] | list[list[int]], **options: Unpack[GenerateKeywords]
    ) -> Answer | list[Answer]:
        """Continues a text (in which special tokens are recognised) or token numbers, or several at once.

        Of several, each answer is the one that it would be alone; the i-th draws its own random numbers. Ctrl-C raises
        KeyboardInterrupt, and the model stays usable.
        """
        made, cancellation = _options(options)
        if isinstance(prompt, str) or all(not isinstance(each, (str, Sequence)) for each in prompt):
            alone = [self._tokens(prompt)]  # type: ignore[arg-type]
            return Answer(**self._core.generate(alone, made, cancellation)[0])
        prompts = [self._tokens(each) for each in prompt]  # type: ignore[arg-type]
        return [Answer(**each) for each in self._core.generate(prompts, made, cancellation)]

    def chat(self, messages: Sequence[Message], **options: Unpack[GenerateKeywords]) -> Answer:
        """Answers the last message of a conversation, as the model's chat template writes it.

        What messages say is text: a special token that they spell out is not recognised. The conversation stays in the
        cache, so that of the next turn only what is new is computed; the answer is the same without.
        """
        made, cancellation = _options(options)
        return Answer(**self._core.chat(self.encode_chat(messages), made, cancellation))

    def stream(self, prompt: Prompt | Sequence[Message], **options: Unpack[GenerateKeywords]) -> TextStream:
        """Generates in a thread of its own, and gives the text piece by piece.

        The prompt is a text, token numbers, or the messages of a conversation.

        >>> for piece in model.stream("Once upon a time"):  # doctest: +SKIP
        ...     print(piece, end="", flush=True)
        """
        made, cancellation = _options(options)
        is_chat = not isinstance(prompt, str) and any(isinstance(each, Mapping) for each in prompt)
        tokens = self.encode_chat(prompt) if is_chat else self._tokens(prompt)  # type: ignore[arg-type]
        return TextStream(_core.TextStream(self._core, tokens, made, cancellation, is_chat))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text; `special`: whether special tokens that it spells out are recognised."""
        return self._core.encode(text, special)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a conversation up to where the answer begins."""
        return self._core.encode_chat(_pairs(messages))

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens; `special`: with that of special tokens."""
        return self._core.decode([int(token) for token in tokens], special)

    def token(self, number: int) -> str:
        """A token as it stands in the vocabulary, or "" where there is none of this number."""
        return self._core.token(number)

    def logits(self, prompt: Prompt) -> Any:
        """A numpy array with the logit of each token that may follow the prompt."""
        return self._core.logits(self._tokens(prompt))

    @property
    def architecture(self) -> str:
        return self._core.architecture

    @property
    def chat_template(self) -> str:
        """Its source in Jinja, or "" where the model has none."""
        return self._core.chat_template

    @property
    def vocabulary_size(self) -> int:
        return self._core.vocabulary_size

    @property
    def context(self) -> int:
        """The most tokens of a prompt and its answer."""
        return self._core.context
