"""Graphs for written_models.py: (name, model, feed, further opsets to write)."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR = {7: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 15: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}

# Some outputs of the only node are read, the others not. (name, opset, graph in onnx's text form, further opsets)
DEAD_OUTPUTS = [
    ("top_k_indices", 17, "(float[4] x) => (int64[2] i) <int64[1] k = {2}> { v, i = TopK(x, k) }", [9, 11, 13, 21]),
    ("top_k_values", 11, "(float[4] x) => (float[2] v) <int64[1] k = {2}> { v, i = TopK(x, k) }", [9]),
    ("max_pool_indices", 17,
     "(float[1, 2, 6, 6] x) => (int64[1, 2, 3, 3] i) { y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
     [11]),
    ("unique_counts", 17, "(float[6] x) => (int64[n] c) { y, i, r, c = Unique(x) }", [11]),
    ("unique_indices", 17, "(float[6] x) => (int64[n] i) { y, i = Unique(x) }", []),
    ("layer_normalization_mean", 17,
     "(float[3, 8] x) => (float[3, 1] m) <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> { y, m, d = LayerNormalization(x, s) "
     "}",
     [11, 13, 21]),
    ("dropout_mask", 17, "(float[4] x) => (bool[4] m) { y, m = Dropout(x) }", [11, 13, 21]),
    ("split_last", 17,
     "(float[2, 6] x) => (float[2, 2] c) <int64[3] s = {1, 3, 2}> { a, b, c = Split<axis = 1>(x, s) }", [9, 11, 13,
                                                                                                         21]),
    ("split_first", 18,
     "(float[2, 7] x) => (float[2, 3] y) { a, b, c = Split<axis = 1, num_outputs = 3>(x) y = Relu(a) }", [11, 13, 21]),
    ("split_middle_of_equal", 11, "(float[2, 6] x) => (float[2, 2] b) { a, b, c = Split<axis = -1>(x) }", [9, 18]),
    ("lstm_state", 17,
     "(float[3, 2, 4] x, float[1, 20, 4] w, float[1, 20, 5] r) => (float[1, 2, 5] h) { y, h, c = LSTM<hidden_size = "
     "5>(x, w, r) }",
     [9, 13, 22]),
    ("batch_normalization_statistics", 17,
     "(float[3, 2, 4] x) => (float[2] m) <float[2] a = {1, 2}, float[2] v = {3, 4}> { y, m, d = "
     "BatchNormalization<training_mode = 1>(x, a, a, a, v) }",
     [15]),
    ("batch_normalization_without_statistics", 17,
     "(float[3, 2, 4] x) => (float[3, 2, 4] y) <float[2] a = {1, 2}, float[2] v = {3, 4}> { y = "
     "BatchNormalization<training_mode = 0>(x, a, a, a, v) }",
     [15]),
    ("dynamic_quantize_zero_point", 17, "(float[6] x) => (uint8 z) { y, s, z = DynamicQuantizeLinear(x) }", [11]),
    ("if_second", 17,
     """(bool c, float[3] x) => (float[3] q) { p, q = If(c) <then_branch = t () => (float[3] a, float[3] b) { a =
        Relu(x) b = Neg(x) },
        else_branch = e () => (float[3] d, float[3] f) { d = Abs(x) f = Exp(x) }> }""", [11, 13, 21]),
    ("loop_scan_only", 17,
     """(float[3] x, int64 n) => (float[k, 3] s) <bool c = {1}> { v, s = Loop(n, c, x) <body = b (int64 i, bool g,
        float[3] a) =>
        (bool h, float[3] d, float[3] e) { h = Identity(g) d = Add(a, x) e = Mul(d, x) }> }""", [11, 13, 21]),
    ("loop_state_only", 17,
     """(float[3] x, int64 n) => (float[3] v) <bool c = {1}> { v, w, s = Loop(n, c, x, x) <body = b (int64 i, bool g,
        float[3] a, float[3] z) =>
        (bool h, float[3] d, float[3] y, float[3] e) { h = Identity(g) d = Add(a, x) y = Relu(z) e = Mul(d, x) }> }""",
     [13]),
    ("scan_result_only", 17,
     """(float[4, 3] x, float[3] z) => (float[4, 3] s) { v, s = Scan(z, x) <num_scan_inputs = 1, body = b (float[3] a,
        float[3] e) =>
        (float[3] d, float[3] f) { d = Add(a, e) f = Relu(d) }> }""", [11]),
    ("scan_state_only", 17,
     """(float[4, 3] x, float[3] z) => (float[3] v) { v, s = Scan(z, x) <num_scan_inputs = 1, body = b (float[3] a,
        float[3] e) =>
        (float[3] d, float[3] f) <int64[1] three = {3}> { d = Add(a, e) k, i = TopK(d, three) f = Gather(d, i) }> }""",
     []),
    ("in_a_branch", 17,
     """(bool c, float[4] x) => (int64[2] q) { q = If(c) <then_branch = t () => (int64[2] i) <int64[1] k = {2}> { v, i =
        TopK(x, k) },
        else_branch = e () => (int64[2] j) <int64[1] k = {2}> { w, j = TopK<largest = 0>(x, k) }> }""", [11, 13, 21]),
    ("string_split_counts", 20, "(string[2] x) => (int64[2] n) { y, n = StringSplit(x) }", []),
]

# Operators whose form changed from version to version.
FORMS = [
    ("squeeze_unsqueeze", 11,
     "(float[2, 1, 3] x) => (float[2, 3, 1] y) { a = Squeeze<axes = [1]>(x) b = Exp(a) y = Unsqueeze<axes = [-1]>(b) }",
     [9, 13, 17, 21]),
    ("reductions", 11,
     """(float[2, 3, 4] x) => (float[n] z) <int64[1] s = {-1}> { a = ReduceSum<axes = [-1], keepdims = 0>(x) b =
        ReduceMax<axes = [1]>(a) c = ReduceL2<axes = [0], keepdims = 0>(b)
        d = ReduceMean(x) e = ReduceLogSumExp<axes = [0, 2]>(x) f = ReduceMin(e) g = Add(d, f) h = Add(c, g) z =
           Reshape(h, s) }""",
     [9, 13, 17, 18, 21]),
    ("pads_and_slices", 11,
     """(float[2, 3, 4] x) => (float[a, b, c] y) <int64[6] p = {0, 1, 1, 0, 0, 2}, float v = {1.5}, int64[2] s = {1, 1},
        int64[2] e = {9, 5}, int64[2] w = {-1, 1}>
        { q = Pad(x, p, v) y = Slice(q, s, e, w) }""", [9, 10, 13, 18, 21]),
    ("pad_some_axes", 18,
     "(float[2, 3, 4] x) => (float[2, 3, 7] y) <int64[2] p = {1, 2}, int64[1] w = {-1}> { y = Pad(x, p, , w) }",
     [9, 11, 17]),
    ("clips", 11,
     "(float[5] x) => (float[5] y) <float l = {0.2}, float h = {0.6}> { a = Clip(x, l, h) b = Clip(x, l) c = Clip(x, "
     ", h) d = Add(a, b) y = Add(d, c) }",
     [9, 13, 21]),
    ("computed_limits", 17, "(float[5] x, float l) => (float[5] y) { y = Clip(x, l) }", [9, 13]),
    ("softmax_inner_axis", 13,
     "(float[2, 3, 4] x) => (float[2, 3, 4] y) { a = Softmax<axis = 1>(x) b = LogSoftmax(x) y = Add(a, b) }",
     [9, 11, 12, 17]),
    ("softmax_of_old", 11, "(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }", [9, 13, 21]),
    ("resize_asymmetric", 11,
     """(float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y) <float[0] r = {}, float[4] s = {1, 1, 2, 2}>
        { a = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, r, s)
        b = Resize<mode = "linear", coordinate_transformation_mode = "asymmetric">(x, r, s) y = Add(a, b) }""",
     [9, 10, 13, 18, 21]),
    ("resize_half_pixel", 13,
     '(float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y) <float[4] s = {1, 1, 2, 2}> { y = Resize<mode = "nearest">(x, , '
     's) }',
     [9, 11, 19]),
    ("resize_sizes", 13,
     '(float[1, 2, 4, 4] x) => (float[1, 2, 7, 9] y) <int64[4] s = {1, 2, 7, 9}> { y = Resize<mode = "linear">(x, , , '
     's) }',
     [11, 19]),
    ("resize_some_axes", 18,
     '(float[1, 2, 4, 4] x) => (float[1, 2, 8, 6] y) <float[2] s = {2, 1.5}> { y = Resize<mode = "linear", axes = [2, '
     '3]>(x, , s) }',
     [11, 13]),
    ("upsample", 9,
     '(float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample<mode = "nearest">(x, '
     's) }',
     [11, 13]),
    ("normalise_and_drop", 9,
     """(float[2, 3, 4] x) => (float[2, 3, 4] y) <float[3] a = {1, 2, 3}, float[3] v = {2, 3, 4}>
        { b = Abs(x) c = BatchNormalization(b, a, a, a, v) y = Dropout<ratio = 0.3>(c) }""", [11, 13, 21]),
    ("batch_normalization_alone", 15,
     "(float[2, 3, 4] x) => (float[2, 3, 4] y) <float[3] a = {1, 2, 3}, float[3] v = {2, 3, 4}> { b = Abs(x) y = "
     "BatchNormalization(b, a, a, a, v) }",
     [9, 13]),
    ("activations", 17,
     "(float[2, 8] x) => (float[2, 8] y) { a = HardSwish(x) b = Sigmoid(x) c = Mul(x, b) d = Softplus(x) e = Tanh(d) "
     "f = Mul(x, e) g = Add(a, c) y = Add(f, g) }",
     [9, 11, 13, 18, 24]),
    ("gelu", 20, '(float[2, 8] x) => (float[2, 8] y) { a = Gelu(x) b = Gelu<approximate = "tanh">(x) y = Add(a, b) }',
     [9, 11, 17]),
    ("group_normalization", 21,
     "(float[2, 4, 3, 3] x) => (float[2, 4, 3, 3] y) <float[4] s = {1, 2, 3, 4}> { y = GroupNormalization<num_groups "
     "= 2>(x, s, s) }",
     [9, 11, 17]),
    ("group_normalization_of_old", 18,
     "(float[2, 4, 3, 3] x) => (float[2, 4, 3, 3] y) <float[2] s = {1, 2}> { y = GroupNormalization<num_groups = "
     "2>(x, s, s) }",
     [17, 21]),
    ("rms_normalization", 23,
     "(float[2, 8] x) => (float[2, 8] y) <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> { y = RMSNormalization(x, s) }",
     [11, 17]),
    ("layer_normalization_f16", 17,
     """(float16[2, 4] x) => (float16[2, 4] y) <float[4] s = {1, 2, 3, 4}> { t = CastLike(s, x) y =
        LayerNormalization(x, t, t) }""",
     [11, 13]),
    ("comparisons", 17,
     "(float[6] x, float[6] z) => (bool[6] y) { a = GreaterOrEqual(x, z) b = LessOrEqual(x, z) y = Xor(a, b) }",
     [11, 13]),
    ("powers", 17, "(float[6] x, int64[6] n) => (float[6] y) { y = Pow(x, n) }", [9, 11]),
    ("gemm", 17, "(float[2, 3] x, float[3, 2] w) => (float[2, 2] y) { y = Gemm(x, w) }", [9, 11]),
    ("shapes", 17,
     "(float[n, 3, 4] x) => (float[a, b] y) <int64[1] m = {-1}> { s = Shape<end = 1>(x) t = Concat<axis = 0>(s, m) y "
     "= Reshape(x, t) }",
     [9, 11, 13, 21]),
    ("gathers", 17, "(float[3, 4] x, int64[2] i) => (float[3, 2] y) { y = Gather<axis = -1>(x, i) }", [9, 11]),
    ("scatters", 17,
     "(float[3, 4] x, int64[3, 1] i, float[3, 1] u) => (float[3, 4] y) { y = ScatterElements<axis = 1>(x, i, u) }",
     [9, 11, 13]),
    ("quantised", 13,
     "(float[2, 4] x) => (float[2, 4] y) <float s = {0.1}, uint8 z = {3}> { q = QuantizeLinear(x, s, z) t = "
     "DequantizeLinear(q, s, z) y = Relu(t) }",
     [10, 11, 21]),
    ("quantised_signed", 21,
     "(float[2, 4] x) => (int8[2, 4] q) <float s = {0.1}> { q = QuantizeLinear<output_dtype = 3>(x, s) }", [10, 13,
                                                                                                            19]),
    ("grid_sample", 20, "(float[1, 2, 4, 4] x, float[1, 3, 3, 2] g) => (float[1, 2, 3, 3] y) { y = GridSample(x, g) }",
     [16, 17]),
    ("average_pool", 19,
     "(float[1, 2, 6, 6] x) => (float[1, 2, 5, 5] y) { y = AveragePool<kernel_shape = [2, 2], dilations = [1, 1]>(x) }",
     [9, 11]),
    ("cast_like", 19, "(float[4] x, int32[1] t) => (int32[4] y) { y = CastLike(x, t) }", [9, 13]),
    ("arg_max", 13, "(float[2, 4] x) => (int64[2, 1] y) { y = ArgMax<axis = -1>(x) }", [9, 11]),
    ("min_max_int", 12, "(int64[4] x, int64[4] z) => (int64[4] y) { a = Min(x, z) b = Max(x, z) y = Add(a, b) }",
     [13, 21]),
]


def feed_for(model):
    """Inputs by their declared types: floats in (0, 1), small integers, a free dimension of 2."""
    generator, feed = np.random.default_rng(5), {}
    for entry in model.graph.input:
        shape = [dim.dim_value or 2 for dim in entry.type.tensor_type.shape.dim]
        kind = entry.type.tensor_type.elem_type
        if kind == TensorProto.STRING:
            feed[entry.name] = np.array(["some words here"] * int(np.prod(shape)), dtype=object).reshape(shape)
        elif kind in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
            feed[entry.name] = generator.random(shape).astype(helper.tensor_dtype_to_np_dtype(kind))
        elif kind == TensorProto.BOOL:
            feed[entry.name] = np.ones(shape, bool)
        else:
            feed[entry.name] = generator.integers(1, 3, shape).astype(helper.tensor_dtype_to_np_dtype(kind))
    return feed


def from_text(opset, text):
    model = onnx.parser.parse_model(f'<ir_version: {IR.get(opset, 8)}, opset_import: ["" : {opset}]> g {text}')
    model.graph.name = "g"
    return model


def ml_model(nodes, outputs, columns=3, opset=15, ml=3, inputs=None):
    """A graph of nodes of ai.onnx.ml over a table of 5 rows."""
    graph = helper.make_graph(nodes, "ml", inputs
                              or [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, columns])], outputs)
    model = helper.make_model(graph,
                              opset_imports=[helper.make_opsetid("", opset),
                                             helper.make_opsetid("ai.onnx.ml", ml)])
    model.ir_version = 8
    return model


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


# Two trees with a split on one column each.
TREES = dict(nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2], nodes_featureids=[0, 0, 0, 2, 0, 0],
             nodes_values=[0.4, 0.0, 0.0, 0.6, 0.0,
                           0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
             nodes_truenodeids=[1, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 0, 0, 2, 0, 0])
CLASSES = dict(class_treeids=[0, 0, 0, 0, 1, 1, 1], class_nodeids=[1, 1, 2, 2, 1, 2, 2],
               class_ids=[0, 1, 1, 2, 2, 0, 1], class_weights=[0.3, 0.1, 0.35, 0.05, 0.45, 0.2, 0.4])
LINEAR = dict(coefficients=[0.5, -1.0, 0.3, -0.2, 0.8, 0.1, 0.4, 0.4, -0.9], intercepts=[0.1, 0.0, -0.1],
              classlabels_ints=[3, 5, 9], multi_class=1, post_transform="SOFTMAX")


def ml_cases():
    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    labels, scores = value("l", i64, [None]), value("s", f32, [None, 3])
    trees = ml("TreeEnsembleClassifier", ["x"], ["l", "s"], classlabels_int64s=[0, 1, 2], **TREES, **CLASSES)
    linear = ml("LinearClassifier", ["x"], ["l", "s"], **LINEAR)
    maps = ml("ZipMap", ["s"], ["z"], classlabels_int64s=[3, 5, 9])
    mapped = helper.make_value_info(
        "z", helper.make_sequence_type_proto(helper.make_map_type_proto(i64, helper.make_tensor_type_proto(f32, []))))
    scaler = ml("Scaler", ["x"], ["t"], offset=[0.5, 0.4, 0.3], scale=[2.0, 3.0, 4.0])
    regressor = ml("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, target_treeids=[0, 0, 1, 1],
                   target_nodeids=[1, 2, 1, 2], target_ids=[0] * 4, target_weights=[1.0, 2.0, 3.0, 4.5], **TREES)
    for opset in (9, 15):
        yield f"tree_labels_{opset}", ml_model([trees], [labels], opset=opset), [11, 17, 21]
    yield "tree_scores", ml_model([trees], [scores]), [11]
    yield "tree_both", ml_model([trees], [labels, scores], ml=1), []
    yield "tree_regressor", ml_model([regressor], [value("y", f32, [None, 1])]), [11]
    yield "linear_labels", ml_model([linear], [labels]), [11]
    yield "linear_scores", ml_model([linear], [scores]), []
    yield "linear_zip_map", ml_model([scaler, ml("LinearClassifier", ["t"], ["l", "s"], **LINEAR), maps],
                                     [labels, mapped]), [11, 13]
    yield "linear_zip_map_only", ml_model([linear, maps], [mapped]), []
    yield "scaler_normalizer", ml_model([scaler, ml("Normalizer", ["t"], ["y"], norm="L2")],
                                        [value("y", f32, [None, 3])]), [9, 21]
    yield "binarizer_imputer", ml_model([
        ml("Imputer", ["x"], ["t"], imputed_value_floats=[1.0], replaced_value_float=0.0),
        ml("Binarizer", ["t"], ["y"], threshold=0.5)
    ], [value("y", f32, [None, 3])]), []
    yield "svm_labels", ml_model([
        ml("SVMClassifier", ["x"], ["l", "s"], classlabels_ints=[0, 1], coefficients=[0.7, -0.7], kernel_type="LINEAR",
           kernel_params=[0.0, 0.0, 3.0], support_vectors=[0.1, 0.2, 0.3, 0.7, 0.6, 0.5
                                                           ], vectors_per_class=[1, 1], rho=[0.1])
    ], [labels]), []
    text = [value("x", TensorProto.STRING, [None])]
    yield "label_encoder", ml_model(
        [ml("LabelEncoder", ["x"], ["y"], keys_strings=["some words here", "b"], values_int64s=[4, 5])],
        [value("y", i64, [None])], inputs=text, ml=2), [11]
    columns = [
        ml("ArrayFeatureExtractor", ["x", "i"], ["a"]),
        ml("FeatureVectorizer", ["a", "x"], ["y"], inputdimensions=[2, 3])
    ]
    model = ml_model(columns, [value("y", f32, [None, 5])])
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 2], np.int64), "i"))
    yield "columns", model, []


def all_cases():
    for kind, graphs in (("dead output", DEAD_OUTPUTS), ("form", FORMS)):
        for name, opset, text, further in graphs:
            model = from_text(opset, text)
            yield f"{kind} {name}", model, feed_for(model), further
    for name, model, further in ml_cases():
        yield f"table {name}", model, feed_for(model), further
