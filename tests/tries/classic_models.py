#!/usr/bin/env python3
"""Converts scikit-learn, LightGBM and XGBoost models by skl2onnx and onnxmltools, and compares Tessera with onnxruntime
on them.

    classic_models.py TESSERA [--only NAME]

Each model runs with 1, 7 and 100 rows, as converted and as `tessera optimize -o out.onnx` writes it.
"""

import argparse
import contextlib
import io
import logging
import sys
import warnings

import numpy as np

from common import Reference, Tries, check_model

ROWS = [1, 7, 100]


def data(kind):
    random = np.random.default_rng(5)
    x = random.normal(size=(300, 6)).astype(np.float32)
    score = x[:, 0] - 0.5 * x[:, 1] ** 2 + np.sin(x[:, 2]) + 0.2 * random.normal(size=300)
    targets = {
        "binary": (score > 0).astype(np.int64),
        "classes": np.digitize(score, [-1.0, 0.2, 1.0]).astype(np.int64),
        "texts": np.array(["low", "middle", "high"])[np.digitize(score, [-0.7, 0.7])],
        "real": score.astype(np.float32),
        "reals": np.stack([score, score * 2 + x[:, 3]], 1).astype(np.float32),
        "counts": np.abs(score * 3).astype(np.int64).astype(np.float32),
        "none": None,
        "labels": np.stack([score > 0, x[:, 3] > 0], 1).astype(np.int64),
    }
    if kind == "positive":
        return np.abs(x), targets["classes"]
    return x, targets[kind]


def scikit_models():
    """name -> (model, kind of data)."""
    from sklearn import (
        calibration,
        cluster,
        compose,
        decomposition,
        discriminant_analysis,
        dummy,
        ensemble,
        feature_selection,
        gaussian_process,
        kernel_approximation,
        linear_model,
        mixture,
        multiclass,
        multioutput,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        random_projection,
        svm,
        tree,
    )

    def forest(trees, **how):
        return ensemble.RandomForestClassifier(trees, max_depth=5, random_state=1, **how)

    models = {}
    for kind in ("binary", "classes", "texts"):
        models |= {
            f"logistic {kind}": (linear_model.LogisticRegression(), kind),
            f"tree {kind}": (tree.DecisionTreeClassifier(max_depth=5, random_state=1), kind),
            f"forest 10 {kind}": (forest(10), kind),
            f"forest 20 {kind}": (forest(20), kind),
            f"extra trees {kind}": (ensemble.ExtraTreesClassifier(12, max_depth=5, random_state=1), kind),
            f"boosting {kind}": (ensemble.GradientBoostingClassifier(n_estimators=10, random_state=1), kind),
            f"histogram boosting {kind}": (ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=1), kind),
            f"neighbours {kind}": (neighbors.KNeighborsClassifier(3), kind),
            f"svc {kind}": (svm.SVC(probability=True, random_state=1), kind),
            f"linear svc {kind}": (svm.LinearSVC(), kind),
            f"perceptron network {kind}": (
                neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=80, random_state=1),
                kind,
            ),
            f"gaussian bayes {kind}": (naive_bayes.GaussianNB(), kind),
            f"discriminant {kind}": (discriminant_analysis.LinearDiscriminantAnalysis(), kind),
            f"quadratic {kind}": (discriminant_analysis.QuadraticDiscriminantAnalysis(), kind),
            f"sgd {kind}": (linear_model.SGDClassifier(loss="log_loss", random_state=1), kind),
            f"ridge {kind}": (linear_model.RidgeClassifier(), kind),
            f"bagging {kind}": (ensemble.BaggingClassifier(n_estimators=6, random_state=1), kind),
            f"ada boost {kind}": (ensemble.AdaBoostClassifier(n_estimators=8, random_state=1), kind),
            f"calibrated {kind}": (calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), cv=3), kind),
            f"one against rest {kind}": (multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), kind),
            f"voting {kind}": (
                ensemble.VotingClassifier(
                    [("a", linear_model.LogisticRegression()), ("b", forest(10))],
                    voting="soft",
                    flatten_transform=False,
                ),
                kind,
            ),
            f"stacking {kind}": (
                ensemble.StackingClassifier([("a", linear_model.LogisticRegression()), ("b", forest(10))]),
                kind,
            ),
        }
    models |= {
        "one against one": (multiclass.OneVsOneClassifier(linear_model.LogisticRegression()), "classes"),
        "passive aggressive": (linear_model.PassiveAggressiveClassifier(random_state=1), "binary"),
        "perceptron": (linear_model.Perceptron(random_state=1), "classes"),
        "bernoulli bayes": (naive_bayes.BernoulliNB(), "classes"),
        "multinomial bayes": (naive_bayes.MultinomialNB(), "positive"),
        "complement bayes": (naive_bayes.ComplementNB(), "positive"),
        "nu svc": (svm.NuSVC(probability=True, nu=0.2, random_state=1), "binary"),
        "svc polynomial": (svm.SVC(kernel="poly", random_state=1), "classes"),
        "multi label forest": (forest(10), "labels"),
        "multi output": (multioutput.MultiOutputClassifier(linear_model.LogisticRegression()), "labels"),
        "multi label network": (
            neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=80, random_state=1),
            "labels",
        ),
        "gaussian process classifier": (gaussian_process.GaussianProcessClassifier(), "binary"),
        "dummy": (dummy.DummyClassifier(), "classes"),
        "isolation forest": (ensemble.IsolationForest(n_estimators=10, random_state=1), "none"),
        "local outlier factor": (neighbors.LocalOutlierFactor(novelty=True), "none"),
        "one class svm": (svm.OneClassSVM(), "none"),
        "k means": (cluster.KMeans(4, random_state=1, n_init=2), "none"),
        "mini batch k means": (cluster.MiniBatchKMeans(4, random_state=1, n_init=2), "none"),
        "gaussian mixture": (mixture.GaussianMixture(3, random_state=1), "none"),
        "pca": (decomposition.PCA(3), "none"),
        "pca whitened": (decomposition.PCA(3, whiten=True), "none"),
        "truncated svd": (decomposition.TruncatedSVD(3, random_state=1), "none"),
        "fast ica": (decomposition.FastICA(3, random_state=1), "none"),
        "kernel pca": (decomposition.KernelPCA(3, kernel="rbf"), "none"),
        "incremental pca": (decomposition.IncrementalPCA(3), "none"),
        "standard scaler": (preprocessing.StandardScaler(), "none"),
        "minmax scaler": (preprocessing.MinMaxScaler(clip=True), "none"),
        "max abs scaler": (preprocessing.MaxAbsScaler(), "none"),
        "robust scaler": (preprocessing.RobustScaler(), "none"),
        "normaliser": (preprocessing.Normalizer("l1"), "none"),
        "binariser": (preprocessing.Binarizer(threshold=0.3), "none"),
        "polynomial": (preprocessing.PolynomialFeatures(2), "none"),
        "power transform": (preprocessing.PowerTransformer(), "none"),
        "discretiser": (
            preprocessing.KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
            "none",
        ),
        "spline": (preprocessing.SplineTransformer(4), "none"),
        "select best": (feature_selection.SelectKBest(k=3), "classes"),
        "variance threshold": (feature_selection.VarianceThreshold(0.5), "none"),
        "random projection": (random_projection.GaussianRandomProjection(3, random_state=1), "none"),
        "random trees embedding": (ensemble.RandomTreesEmbedding(5, random_state=1, sparse_output=False), "none"),
        "nystroem": (kernel_approximation.Nystroem(n_components=10, random_state=1), "none"),
        "linear regression": (linear_model.LinearRegression(), "real"),
        "linear regression of two": (linear_model.LinearRegression(), "reals"),
        "ridge regression": (linear_model.Ridge(), "real"),
        "lasso": (linear_model.Lasso(0.1), "real"),
        "elastic net": (linear_model.ElasticNet(0.1), "real"),
        "bayesian ridge": (linear_model.BayesianRidge(), "real"),
        "huber": (linear_model.HuberRegressor(), "real"),
        "poisson": (linear_model.PoissonRegressor(), "counts"),
        "tweedie": (linear_model.TweedieRegressor(power=1.0, link="log"), "counts"),
        "quantile": (linear_model.QuantileRegressor(alpha=0.0), "real"),
        "ransac": (linear_model.RANSACRegressor(random_state=1), "real"),
        "svr": (svm.SVR(), "real"),
        "linear svr": (svm.LinearSVR(), "real"),
        "tree regressor": (tree.DecisionTreeRegressor(max_depth=5, random_state=1), "real"),
        "tree regressor of two": (tree.DecisionTreeRegressor(max_depth=5, random_state=1), "reals"),
        "forest regressor": (ensemble.RandomForestRegressor(10, max_depth=5, random_state=1), "real"),
        "extra trees regressor": (ensemble.ExtraTreesRegressor(10, max_depth=5, random_state=1), "reals"),
        "boosting regressor": (ensemble.GradientBoostingRegressor(n_estimators=10, random_state=1), "real"),
        "histogram boosting regressor": (ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=1), "real"),
        "ada boost regressor": (ensemble.AdaBoostRegressor(n_estimators=8, random_state=1), "real"),
        "bagging regressor": (ensemble.BaggingRegressor(n_estimators=6, random_state=1), "real"),
        "voting regressor": (
            ensemble.VotingRegressor(
                [("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=4))]
            ),
            "real",
        ),
        "neighbours regressor": (neighbors.KNeighborsRegressor(3), "real"),
        "network regressor": (
            neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=80, random_state=1),
            "real",
        ),
        "gaussian process": (gaussian_process.GaussianProcessRegressor(alpha=1.0), "real"),
        "multi output regressor": (multioutput.MultiOutputRegressor(linear_model.Ridge()), "reals"),
        "pipeline": (
            pipeline.make_pipeline(
                preprocessing.StandardScaler(), decomposition.PCA(4), linear_model.LogisticRegression()
            ),
            "texts",
        ),
        "union": (
            pipeline.make_pipeline(
                pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)), forest(10)
            ),
            "classes",
        ),
        "columns": (
            pipeline.make_pipeline(
                compose.ColumnTransformer(
                    [("a", preprocessing.StandardScaler(), [0, 1]), ("b", preprocessing.MinMaxScaler(), [2, 5])],
                    remainder="passthrough",
                ),
                svm.SVC(random_state=1),
            ),
            "binary",
        ),
    }
    return models


def text_models():
    """name -> (model, columns of texts, targets): vectorisers and encoders take strings."""
    from sklearn import feature_extraction, linear_model, naive_bayes, pipeline, preprocessing

    words = "good bad film music loud quiet fine poor story plot actor scene".split()
    random = np.random.default_rng(6)
    lines = np.array([[" ".join(random.choice(words, 6))] for _ in range(120)], dtype=object)
    labels = np.array([int("good" in line[0]) for line in lines])
    colours = random.choice(["red", "green", "blue"], (120, 2)).astype(object)
    vectorise = feature_extraction.text
    return {
        "tf idf": (
            pipeline.make_pipeline(vectorise.TfidfVectorizer(), linear_model.LogisticRegression()),
            lines,
            labels,
        ),
        "counts of pairs": (
            pipeline.make_pipeline(vectorise.CountVectorizer(ngram_range=(1, 2)), naive_bayes.MultinomialNB()),
            lines,
            labels,
        ),
        "characters": (vectorise.TfidfVectorizer(analyzer="char", ngram_range=(1, 2)), lines, labels),
        "one hot": (
            pipeline.make_pipeline(preprocessing.OneHotEncoder(sparse_output=False), linear_model.LogisticRegression()),
            colours,
            labels,
        ),
        "ordinal": (preprocessing.OrdinalEncoder(), colours, labels),
    }


def text_options():
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    return {CountVectorizer: {"locale": "C"}, TfidfVectorizer: {"locale": "C"}}


def boosted_models():
    """name -> (model, kind of data, converter)."""
    import lightgbm
    import onnxmltools
    import xgboost

    light, extreme = onnxmltools.convert_lightgbm, onnxmltools.convert_xgboost
    quiet = {"n_estimators": 8, "random_state": 1}
    models = {}
    for kind in ("binary", "classes"):
        models[f"lightgbm {kind}"] = (lightgbm.LGBMClassifier(verbose=-1, **quiet), kind, light)
        models[f"lightgbm forest {kind}"] = (
            lightgbm.LGBMClassifier(verbose=-1, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **quiet),
            kind,
            light,
        )
        models[f"xgboost {kind}"] = (xgboost.XGBClassifier(max_depth=3, **quiet), kind, extreme)
        models[f"xgboost forest {kind}"] = (xgboost.XGBRFClassifier(max_depth=3, **quiet), kind, extreme)
    for goal in ("regression", "poisson", "quantile", "mae", "gamma"):
        models[f"lightgbm {goal}"] = (
            lightgbm.LGBMRegressor(verbose=-1, objective=goal, **quiet),
            "counts+1" if goal == "gamma" else "counts",
            light,
        )
    for goal in ("reg:squarederror", "count:poisson", "reg:tweedie", "reg:logistic"):
        models[f"xgboost {goal}"] = (
            xgboost.XGBRegressor(objective=goal, max_depth=3, **quiet),
            "unit" if "logistic" in goal else "counts",
            extreme,
        )
    return models


def boosted_data(kind):
    x, y = data({"counts+1": "counts", "unit": "binary"}.get(kind, kind))
    return x, y + 1 if kind == "counts+1" else y


def feeds_of(model_input, x):
    return [{model_input: x[:rows] if len(x) >= rows else np.tile(x, (2, 1))[:rows]} for rows in ROWS]


def convert_scikit(model, x, path, options):
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    of = StringTensorType if x.dtype == object else FloatTensorType
    path.write_bytes(
        skl2onnx.convert_sklearn(
            model,
            initial_types=[("x", of([None, x.shape[1]]))],
            options=options,
            target_opset={"": 18, "ai.onnx.ml": 3},
        ).SerializeToString()
    )


def each_conversion(arguments):
    """name, and a function that writes the model to a path and returns its inputs."""

    def scikit(model, x, y, options):
        def convert(path):
            model.fit(x[:, 0] if text_column(model, x) else x, y)
            convert_scikit(model, x, path, options)
            return feeds_of("x", x)

        return convert

    def text_column(model, x):
        return x.dtype == object and x.shape[1] == 1

    def boosted(model, kind, converter):
        def convert(path):
            from onnxmltools.convert.common.data_types import FloatTensorType

            x, y = boosted_data(kind)
            model.fit(x, y)
            path.write_bytes(
                converter(
                    model, initial_types=[("x", FloatTensorType([None, x.shape[1]]))], target_opset=15
                ).SerializeToString()
            )
            return feeds_of("x", x)

        return convert

    for name, (model, kind) in scikit_models().items():
        x, y = data(kind)
        yield name, scikit(model, x, y, {"zipmap": False} if kind == "labels" and "forest" in name else None)
        if hasattr(model, "predict_proba") and "forest 10" in name:
            yield name + " without map", scikit(model, x, y, {"zipmap": False})
    for name, (model, x, y) in text_models().items():
        # onnxruntime lowers cases by the system's locale, which only "C" has everywhere.
        texts = "TfidfVectorizer" in repr(model) or "CountVectorizer" in repr(model)
        yield name, scikit(model, x, y, text_options() if texts else None)
    for name, (model, kind, converter) in boosted_models().items():
        yield name, boosted(model, kind, converter)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--no-written", action="store_true", help="do not check what optimize writes")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tries, reference = Tries("classic"), Reference()
    for name, convert in each_conversion(arguments):
        if arguments.only not in name:
            continue
        path = tries.path("model.onnx")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                feeds = convert(path)
        except Exception as error:  # the converter does not know it
            tries.skipped += 1
            print(f"skipped classic {name}: no conversion: {str(error)[:150]!r}", flush=True)
            continue
        check_model(
            tries,
            reference,
            arguments.tessera,
            name,
            path,
            feeds,
            relative=1e-3,
            absolute=1e-5,
            written=not arguments.no_written,
        )
    reference.close()
    return tries.finish()


if __name__ == "__main__":
    sys.exit(main())
