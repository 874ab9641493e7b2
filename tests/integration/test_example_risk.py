"""The demo's model is the one that was committed, and it is any good."""

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import ModelName, ModelRef, digest_of
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

RISK = Path(__file__).parents[2] / "examples" / "risk"
MODEL_DIGEST = "sha256:41374115687a3c1514db2f10f7a887b6f7080c07007dfad4915d47860a758678"


@pytest.fixture
def risk(tmp_path: Path) -> Model:
    store = ArtifactStore(LocalObjectStore(tmp_path / "store"))
    candidate = Candidate(
        name=ModelName("risk"), file=RISK / "model.onnx", transform=RISK / "transform.toml"
    )
    publish(store, candidate, clock=SystemClock())
    return open_model(store, ModelRef.parse("risk@1"), cache=tmp_path, threads=1)


def real_rows() -> list[dict[str, str]]:
    with (RISK / "breast_cancer.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_committed_model_is_the_one_that_was_trained() -> None:
    assert digest_of((RISK / "model.onnx").read_bytes()) == MODEL_DIGEST


def test_the_data_has_569_rows_of_30_features_in_the_order_of_the_transform() -> None:
    transform = tomllib.loads((RISK / "transform.toml").read_text())
    header = list(real_rows()[0])
    assert [column["name"] for column in transform["tabular"]["columns"]] == header[:-1]
    assert (len(real_rows()), len(header) - 1) == (569, 30)


def test_the_model_tells_benign_from_malignant(risk: Model) -> None:
    rows = real_rows()
    instances = [{name: float(row[name]) for name in risk.columns} for row in rows]
    inputs = risk.tensors_from_instances(instances)
    said = risk.present(risk.run(inputs), inputs)
    right = np.mean(said["label"] == np.array([row["diagnosis"] for row in rows], dtype=object))
    assert right > 0.97
    assert np.allclose(said["prediction"].sum(axis=1), 1, atol=1e-5)


def test_the_model_has_no_warning_and_keeps_its_stated_tolerance(risk: Model) -> None:
    invariance = risk.manifest.batch_invariance
    assert risk.manifest.warnings == ()
    assert invariance.tolerance == 1e-5
    assert invariance.measured is not None
    assert invariance.measured <= invariance.tolerance
