"""The same row, the same artifact: the gateway and an offline job give the same answer."""

import asyncio
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import Place, published_rows, run_job
from tests.fixtures.parity import answers_of_the_gateway, sizes_of
from tests.project import ROOT
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName, ModelRef
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.opening import open_store
from tidegate.publishing.publish import Candidate, publish

Row = Mapping[str, float | str]
Floats = npt.NDArray[np.float32]
RISK = ROOT / "examples/risk"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Read every real row, with numbers as numbers."""
    text = (RISK / "breast_cancer.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [{name: _value(word) for name, word in row.items()} for row in csv.DictReader(lines)]


def _value(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> Place:
    """Publish ``risk``, and write its rows in an order of their own to one file."""
    folder = tmp_path_factory.mktemp("parity")
    publish(
        ArtifactStore(open_store(str(folder / "store"))),
        Candidate(
            name=ModelName("risk"),
            file=RISK / "model.onnx",
            transform=RISK / "transform.toml",
            alias=Alias("stable"),
        ),
        clock=SystemClock(),
    )
    (folder / "in").mkdir()
    numbered = [{"row": number, **row} for number, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(numbered), folder / "in/rows.parquet")
    return Place(store=str(folder / "store"), input=str(folder / "in"), output=str(folder / "out"))


@pytest.fixture(scope="module")
def model(place: Place) -> Model:
    store = ArtifactStore(open_store(place.store))
    ref = ModelRef.parse("risk@stable")
    return open_model(store, ref, cache=Path(place.store) / "cache", threads=1)


@pytest.fixture(scope="module")
def offline(place: Place) -> pa.Table:
    """Score all rows with a job."""
    ref = ModelRef.parse("risk@stable")
    run_job(place, Path(place.store) / "cache", model=ref, key=["row"], chunk_rows=100)
    return published_rows(place.output).sort_by("row")


def predictions_of(offline: pa.Table) -> Floats:
    return np.array(offline["prediction"].to_pylist(), dtype=np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_the_gateway_and_a_job_answer_alike_whatever_company_a_row_has(
    model: Model, rows: list[Row], offline: pa.Table, seed: int
) -> None:
    answers = asyncio.run(answers_of_the_gateway(model, rows, sizes_of(seed)))
    difference = np.abs(answers["prediction"] - predictions_of(offline)).max()
    assert difference <= model.manifest.batch_invariance.tolerance
    assert answers["label"].tolist() == offline["label"].to_pylist()


def test_at_the_same_batch_size_the_answers_are_the_same_bytes(
    model: Model, rows: list[Row], offline: pa.Table
) -> None:
    first_chunk = offline.slice(0, 94)
    assert first_chunk["_chunk_id"].to_pylist()[-1] == "000000"
    inputs = model.tensors_from_instances(rows[:94])
    outputs = model.present(model.run(inputs), inputs)
    assert predictions_of(first_chunk).tobytes() == outputs["prediction"].tobytes()


def test_both_paths_say_which_version_answered(model: Model, offline: pa.Table) -> None:
    assert set(offline["_model_name"].to_pylist()) == {model.tag.name}
    assert set(offline["_model_version"].to_pylist()) == {model.tag.version}
    assert set(offline["_model_digest"].to_pylist()) == {model.tag.digest}
