#!/usr/bin/env python3
"""Estimators of scikit-learn on Tessera: trained there, exported by skl2onnx, and the same answers here.

    scripts/ort_programs.sh --setup        # once: .venv-programs with the pinned packages
    PYTHONPATH=build/release/python .venv-programs/bin/python examples/python/scikit_learn.py

Prints the largest difference of the probabilities (or numbers) and the times. Exit code 1 where a class differs.
"""
import sys
import time

import numpy
import sklearn.datasets
import tessera
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

CLASSIFIERS = [
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    make_pipeline(PCA(16), SVC()),
    make_pipeline(ColumnTransformer([("left", MinMaxScaler(), list(range(32)))], remainder="passthrough"),
                  RandomForestClassifier(40, random_state=0)),
    GradientBoostingClassifier(n_estimators=8, random_state=0),
    KNeighborsClassifier(5),
    MLPClassifier((32,), max_iter=60, tol=1e-2, random_state=0),
]
REGRESSORS = [
    make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge()),
    RandomForestRegressor(40, random_state=0),
]


def best_ms(call, runs=5):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def name_of(estimator):
    return type(estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator).__name__


def report(estimator, difference, theirs, ours):
    print(f"{name_of(estimator):<28} largest difference {difference:.1e}   scikit-learn {theirs:7.2f} ms   "
          f"Tessera {ours:7.2f} ms", flush=True)


def classify(estimator, train, labels, test):
    """Returns how many of the classes differ."""
    estimator.fit(train, labels)
    has_probabilities = hasattr(estimator, "predict_proba")
    # zipmap=False: an array of probabilities in place of a list of dicts.
    model = to_onnx(estimator, train[:1], options={"zipmap": False} if has_probabilities else None)
    session = tessera.Session(model.SerializeToString())
    found = session.run(test)
    classes, scores = list(found.values())[:2]
    expected = estimator.predict_proba(test) if has_probabilities else estimator.decision_function(test)
    report(estimator, numpy.abs(scores - expected).max(), best_ms(lambda: estimator.predict(test)),
           best_ms(lambda: session.run(test)))
    return int((classes != estimator.predict(test)).sum())


def regress(estimator, train, targets, test):
    """Returns how many of the numbers are more than one part in a thousand of the largest apart."""
    estimator.fit(train, targets)
    session = tessera.Session(to_onnx(estimator, train[:1]).SerializeToString())
    expected = estimator.predict(test)
    error = numpy.abs(session.run(test).ravel() - expected) / numpy.abs(expected).max()
    report(estimator, error.max(), best_ms(lambda: estimator.predict(test)), best_ms(lambda: session.run(test)))
    return int((error > 1e-3).sum())


def main():
    pictures, digits = sklearn.datasets.load_digits(return_X_y=True)
    pictures = pictures.astype(numpy.float32)
    wrong = sum(classify(each, pictures[:1200], digits[:1200], pictures[1200:]) for each in CLASSIFIERS)
    patients, progress = sklearn.datasets.load_diabetes(return_X_y=True)
    patients = patients.astype(numpy.float32)
    wrong += sum(regress(each, patients[:300], progress[:300], patients[300:]) for each in REGRESSORS)
    print(f"{wrong} answers differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
