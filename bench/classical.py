#!/usr/bin/env python3
"""Times classical models of scikit-learn (forests, boosting, vector machines, neighbours, linear ones) here and in
onnxruntime, in turn, in one process.

    scripts/ort_programs.sh --setup        # once: .venv-programs with the pinned packages
    PYTHONPATH=build/release/python .venv-programs/bin/python bench/classical.py [--rows 1,1000] [--threads 2]

Each is trained on 4,000 made-up rows of 30 numbers in four classes and exported by skl2onnx. Times are the least of
several runs; ratio = onnxruntime's / Tessera's, so above 1 Tessera is faster. `differ`: the part of labels that differ,
or the largest difference of numbers. Wants a quiet machine.
"""
import argparse
import sys
import time
import warnings

import numpy
import onnxruntime
import tessera.ort
from skl2onnx import to_onnx
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import (AdaBoostClassifier, BaggingClassifier, ExtraTreesClassifier, GradientBoostingClassifier,
                              RandomForestClassifier, RandomForestRegressor, StackingClassifier)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC

ESTIMATORS = {
    "random forest, 200 trees": RandomForestClassifier(200, random_state=0),
    "random forest, 100 trees, numbers": RandomForestRegressor(100, max_depth=10, random_state=0),
    "extra trees, 100": ExtraTreesClassifier(100, random_state=0),
    "gradient boosting, 50": GradientBoostingClassifier(n_estimators=50, random_state=0),
    "AdaBoost, 30": AdaBoostClassifier(n_estimators=30, random_state=0),
    "bagging, 10": BaggingClassifier(n_estimators=10, random_state=0),
    "stacking": StackingClassifier([("linear", LogisticRegression()), ("forest", RandomForestClassifier(20))], cv=2),
    "SVC": SVC(),
    "SVR": SVR(),
    "NuSVC": NuSVC(),
    "linear SVC": LinearSVC(),
    "PCA, SVC": make_pipeline(PCA(10), SVC()),
    "5 neighbours": KNeighborsClassifier(5),
    "5 neighbours, numbers": KNeighborsRegressor(5),
    "Gaussian process (800 rows)": GaussianProcessRegressor(),
    "logistic regression": LogisticRegression(),
    "polynomials, logistic regression": make_pipeline(PolynomialFeatures(2), StandardScaler(),
                                                      LogisticRegression(max_iter=50)),
    "naive Bayes": GaussianNB(),
    "MLP 100, 50": MLPClassifier((100, 50), max_iter=20, random_state=0),
    "k-means, 8": KMeans(8, random_state=0),
}


def exported(name, estimator, data, labels):
    rows = 800 if "800" in name else len(data)
    estimator.fit(data[:rows], labels[:rows])
    try:
        model = to_onnx(estimator, data[:1], options={"zipmap": False})
    except (NameError, ValueError, TypeError):  # it makes no probabilities
        model = to_onnx(estimator, data[:1])
    return model.SerializeToString()


def least_ms(sessions, feed, runs):
    """Of each session, all in turn."""
    times = [[] for _ in sessions]
    for _ in range(runs):
        for session, own in zip(sessions, times):
            begin = time.perf_counter()
            session.run(None, feed)
            own.append(time.perf_counter() - begin)
    return [1e3 * min(own) for own in times]


def difference(expected, found):
    expected, found = numpy.asarray(expected).ravel(), numpy.asarray(found).ravel()
    if expected.dtype.kind in "iOU":
        return float((expected != found).mean())
    return float(numpy.abs(expected - found).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: [int(word) for word in text.split(",")], default=[1, 1000])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    data, labels = make_classification(4000, 30, n_informative=15, n_classes=4, random_state=0)
    data = data.astype(numpy.float32)
    settings = {}
    for module in (onnxruntime, tessera.ort):
        settings[module] = module.SessionOptions()
        settings[module].intra_op_num_threads = options.threads
        settings[module].log_severity_level = 3
    print("| model | " + " | ".join(f"{rows} rows: onnxruntime, here, ratio, differ" for rows in options.rows) + " |")
    print("|---|" + "---|" * len(options.rows))
    for name, estimator in ESTIMATORS.items():
        model = exported(name, estimator, data, labels)
        theirs = onnxruntime.InferenceSession(model, settings[onnxruntime], providers=["CPUExecutionProvider"])
        ours = tessera.ort.InferenceSession(model, settings[tessera.ort])
        cells = []
        for rows in options.rows:
            feed = {theirs.get_inputs()[0].name: data[:rows]}
            differ = difference(theirs.run(None, feed)[0], ours.run(None, feed)[0])
            there, here = least_ms([theirs, ours], feed, 60 if rows < 100 else 15)
            cells.append(f"{there:.3f}, {here:.3f} ms, **{there / here:.2f}**, {differ:.1e}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
