"""Train the demo's model and convert it to ONNX.

Only needed to make ``model.onnx`` anew; the one that lies here was made by this file. It wants
the packages of ``requirements/train.txt``:

    python3 -m venv .venv-train
    .venv-train/bin/pip install --require-hashes -r requirements/train.txt
    .venv-train/bin/python examples/risk/build.py
"""

import csv
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = Path(__file__).parent
LABELS = ("benign", "malignant")
"""In the order of the model's probabilities; transform.toml names them alike."""


def read_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return features ``(569, 30)`` float32 and classes ``(569,)``, an index into ``LABELS``."""
    with (HERE / "breast_cancer.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    features = np.array([row[:-1] for row in rows], dtype=np.float32)
    return features, np.array([LABELS.index(row[-1]) for row in rows])


def train(features: np.ndarray, classes: np.ndarray) -> Pipeline:
    """Fit a scaled logistic regression: small, calibrated, and the same on every machine."""
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=1000))
    accuracy = cross_val_score(pipeline, features, classes, cv=5).mean()
    print(f"accuracy in 5-fold cross-validation: {accuracy:.3f}")
    return pipeline.fit(features, classes)


def main() -> None:
    """Write model.onnx beside this file."""
    features, classes = read_rows()
    model = to_onnx(
        train(features, classes),
        features[:1],
        options={"zipmap": False, "output_class_labels": False},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )
    del model.opset_import[2:]  # the converter names the standard domain twice
    graph = model.graph
    graph.name = "risk"
    graph.input[0].name = graph.node[0].input[0] = "input"
    kept = [output for output in graph.output if output.name == "probabilities"]
    del graph.output[:]
    graph.output.extend(kept)  # the label follows from the probabilities, and has a name there
    (HERE / "model.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
