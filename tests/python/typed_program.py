"""A user's program, for the type checker alone."""
import numpy
import tessera
import tessera.ort as ort


def classify(path: str, picture: numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]) -> int:
    session = tessera.load(path, dims={"batch": 1}, threads=2)
    assert session.inputs[0].dtype == "f32"
    names: list[str] = [each.name for each in session.outputs]
    tessera.load(path, thread=3)  # type: ignore[call-arg]
    tessera.Session(path, thread=3)  # type: ignore[call-arg]
    tessera.RunOptions(time_limit=1.0)  # type: ignore[call-arg]
    session.run(picture, outputs=names[0], options={"time_limit_s": 1.0, "priority": "realtime"})
    result = session.run(picture, outputs=names[:1])
    headline: str = session.explain(devices=["cpu"]).headline
    print(headline)
    return int(numpy.argmax(result))


def smaller(path: str, samples: dict[str, numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]]) -> str:
    made = tessera.quantize(path, "small.onnx", full=True, data=samples, exclude=["head*"], max_drop=0.01)
    with tessera.Server({"small": made.session()}, http="127.0.0.1:0", settings={"small": {"instances": 2}}) as server:
        port: int = server.ports["http"]
        stopped: bool = server.wait(0.1)
    return f"{made.text} {port} {stopped} {made.data['scheme']}"


def told(path: str) -> str:
    model = tessera.LanguageModel.load(path, threads=2, cache="int8")
    several: list[tessera.Answer] = model.generate(["a", "b"], max_tokens=3, stop="x")
    one: tessera.Answer = model.generate("a", temperature=0.5)
    pieces = [piece.upper() for piece in model.stream([1, 2], seed=3)]
    model.generate("a", top_q=1)  # type: ignore[call-overload]
    tessera.LanguageModel.load(path, thread=2)  # type: ignore[call-arg]
    reason: str = model.chat([{"role": "user", "content": "a"}], logprobs=2).finish_reason
    return several[0].text + one.text + pieces[0] + reason


def replaced(path: str) -> list[str]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding: ort.IOBinding = session.io_binding()
    value = ort.OrtValue.ortvalue_from_numpy(numpy.ones(3, numpy.float32))
    binding.bind_ortvalue_input("x", value)
    try:
        session.run_with_iobinding(binding)
    except tessera.InvalidArgument as error:
        print(error.message)
    return [argument.type for argument in session.get_inputs()]
