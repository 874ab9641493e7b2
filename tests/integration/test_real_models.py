"""Models that nobody here made: published, served by a real gateway, and asked what makes sense.

``make parts`` brings them; without them these tests say so and skip.
"""

import base64
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime as ort
import pytest

from tests.fixtures.gateways import Gateway, running_gateway
from tests.fixtures.images import encoded, turned_by_exif
from tests.fixtures.real_models import (
    FUNCTION,
    MINILM,
    MINILM_TOKENIZER,
    ORIENTATION,
    page,
    require_model,
)
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName, ModelRef
from tidegate.inference.arrays import Array
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

EMBEDDING = f"""
[text]
tokenizer = {str(MINILM_TOKENIZER)!r}
max_tokens = 256
too_long = "truncate"

[pooling]
output = "last_hidden_state"
normalize = true
"""
TURNED = """
[image]
size = [224, 224]
fit = "crop"
short_side = 256
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]

[labels]
output = "fetch_name_0"
names = ["0", "90", "180", "270"]
"""
CONFIG = "".join(
    f"[models.{name}]\nslo_ms = 20000\nbest_effort = true\n"
    for name in ("minilm", "orientation", "function")
)


def columns_of_function() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(FUNCTION.with_name("function229.json").read_text())
    return described


def function_transform() -> str:
    described = columns_of_function()
    columns = ", ".join(
        f"{{ name = {json.dumps(name)}, type = 'number' }}" for name in described["features"]
    )
    names = json.dumps(described["classes"])
    return (
        f'[tabular]\ninput = "X"\ncolumns = [{columns}]\n[labels]\noutput = "Y"\nnames = {names}\n'
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish all three, each without a warning."""
    require_model(MINILM, MINILM_TOKENIZER, ORIENTATION, FUNCTION)
    folder = tmp_path_factory.mktemp("real")
    wanted = {
        "minilm": (MINILM, EMBEDDING),
        "orientation": (ORIENTATION, TURNED),
        "function": (FUNCTION, function_transform()),
    }
    for name, (file, toml) in wanted.items():
        transform = folder / f"{name}.toml"
        transform.write_text(toml)
        candidate = Candidate(
            name=ModelName(name), file=file, transform=transform, alias=Alias("stable")
        )
        objects = LocalObjectStore(folder / "store")
        published = publish(ArtifactStore(objects), candidate, clock=SystemClock())
        assert published.manifest.warnings == ()
    return folder / "store"


@pytest.fixture(scope="module")
def gateway(store: Path) -> Iterator[Gateway]:
    """Serve all three from one process."""
    config = store.parent / "tidegate.toml"
    config.write_text(CONFIG)
    with running_gateway(store, "--config", str(config)) as running:
        yield running
        assert running.terminate() == 0
        assert "Traceback" not in running.log.read_text()


def predictions(gateway: Gateway, model: str, instances: list[Any]) -> list[Any]:
    reply = httpx.post(
        f"{gateway.url}/v1/models/{model}:predict", json={"instances": instances}, timeout=60
    )
    assert reply.status_code == 200, reply.text
    found: list[Any] = reply.json()["predictions"]
    assert len(found) == len(instances)
    return found


def loaded(store: Path, name: str) -> Model:
    ref = ModelRef.parse(f"{name}@stable")
    return open_model(ArtifactStore(LocalObjectStore(store)), ref, cache=store, threads=1)


def cosines(vectors: list[list[float]]) -> Array:
    unit = np.array(vectors, dtype=np.float32)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
    cosine: Array = unit @ unit.T
    return cosine


def test_two_ways_to_say_one_thing_are_nearer_than_two_things(gateway: Gateway) -> None:
    texts = [
        "A man is playing a guitar on stage.",
        "Somebody plays the guitar in front of an audience.",
        "The stock market fell sharply on Tuesday.",
        "Share prices dropped a lot two days ago.",
    ]
    found = cosines(predictions(gateway, "minilm", [{"text": text} for text in texts]))
    alike, unlike = min(found[0, 1], found[2, 3]), found[:2, 2:].max()
    assert alike > 0.4
    assert unlike < 0.2


@pytest.mark.field_fault("S-12")
def test_a_text_is_the_same_alone_beside_a_long_one_and_as_a_bare_string(gateway: Gateway) -> None:
    text = "Is it safe to swim at noon?"
    alone, bare = (
        predictions(gateway, "minilm", [instance])[0] for instance in ({"text": text}, text)
    )
    beside = predictions(gateway, "minilm", [text, "and the tide came in again " * 100])[0]
    assert alone == bare
    assert np.abs(np.array(alone) - np.array(beside)).max() < 1e-5


@pytest.mark.parametrize(
    "text", ["", "\0", "😀 👨‍👩‍👧", "هل البحر آمن؟", "ü" * 5_000, "tide " * 200_000]
)
def test_any_text_is_answered(gateway: Gateway, text: str) -> None:
    (vector,) = predictions(gateway, "minilm", [{"text": text}])
    assert len(vector) == 384


def test_the_tokenizers_own_padding_to_128_is_switched_off(store: Path) -> None:
    assert '"Fixed":128' in MINILM_TOKENIZER.read_text().replace(" ", "")
    model = loaded(store, "minilm")
    assert model.lengths == (16, 32, 64, 128, 256)
    assert model.tensors_from_instances(["a tide"])["input_ids"].shape == (1, 16)


@pytest.mark.field_fault("S-09")
def test_texts_of_each_length_are_promised_what_they_take(store: Path) -> None:
    long, short = "the tide comes in and goes out " * 40, "Is it safe to swim at noon?"
    objective = ("--model", "minilm", "--slo-ms", "1500")
    with running_gateway(store, *objective) as gateway:
        url = f"{gateway.url}/v1/models/minilm:predict"
        is_over = threading.Event()

        def ask(text: str, **headers: str) -> httpx.Response:
            body = {"instances": [{"text": text}]}
            return httpx.post(url, json=body, headers=headers, timeout=60)

        def insist() -> Counter[int]:
            statuses = Counter([ask(long).status_code])
            while not is_over.is_set():
                statuses[ask(long).status_code] += 1
            return statuses

        with ThreadPoolExecutor(4) as callers:
            insisting = [callers.submit(insist) for _ in range(4)]
            shorts = Counter(ask(short).status_code for _ in range(40))
            is_over.set()
        longs = sum((each.result() for each in insisting), Counter[int]())
        in_a_hurry = ask(long, **{"Tidegate-Deadline-Ms": "15"})
        found = httpx.get(f"{gateway.url}/v2/models/minilm").json()["parameters"]
    assert shorts[200] >= 30, (shorts, longs)
    assert longs[200] > 0, longs
    assert in_a_hurry.status_code == 422, in_a_hurry.text
    assert "minilm@1 with 129 to 256 tokens needs" in in_a_hurry.json()["error"]
    caps = found["cap_rows_by_tokens"].split(", ")
    lengths = ["1 to 16", "17 to 32", "33 to 64", "65 to 128", "129 to 256"]
    assert [cap.partition(":")[0] for cap in caps] == lengths


def test_a_page_says_how_it_is_turned(gateway: Gateway) -> None:
    turned = {angle: encoded(page().rotate(-angle, expand=True)) for angle in (0, 90, 180, 270)}
    instances = [{"image": as_json(content)} for content in turned.values()]
    found = predictions(gateway, "orientation", instances)
    assert [row["label"] for row in found] == ["0", "90", "180", "270"]
    assert min(row["probability"] for row in found) > 0.8
    (bare,) = predictions(gateway, "orientation", [as_json(turned[90])])
    assert bare["label"] == "90"


def test_a_file_can_be_the_whole_body(gateway: Gateway) -> None:
    url = f"{gateway.url}/v1/models/orientation:predict"
    reply = httpx.post(url, content=encoded(page().rotate(-90, expand=True), "JPEG"))
    assert reply.status_code == 200, reply.text
    assert [row["label"] for row in reply.json()["predictions"]] == ["90"]
    refused = httpx.post(url, content=b"\xff\xd8\xff\xe0 no image")
    assert (refused.status_code, refused.json()["code"]) == (422, "signature_mismatch")
    assert httpx.post(url, content=b"").json()["code"] == "malformed_json"


def test_padding_is_counted_for_whoever_watches(gateway: Gateway) -> None:
    def positions(kind: str) -> float:
        return gateway.metric("tidegate_token_positions_total", model="minilm", kind=kind)

    tokens, padding = positions("token"), positions("padding")
    predictions(gateway, "minilm", ["tide", "the tide comes in"])  # 3 and 6 tokens, with two each
    assert (positions("token") - tokens, positions("padding") - padding) == (9, 23)


def test_a_camera_that_was_held_on_its_side_makes_no_difference(gateway: Gateway) -> None:
    content = turned_by_exif(page().rotate(90, expand=True), 6)  # to be turned back by 90 degrees
    (found,) = predictions(gateway, "orientation", [{"image": as_json(content)}])
    assert found["label"] == "0"


def as_json(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def test_a_bad_image_is_refused_by_row_and_the_gateway_lives(gateway: Gateway) -> None:
    good, bad = as_json(encoded(page())), as_json(encoded(page(), "JPEG")[:5_000])
    reply = httpx.post(
        f"{gateway.url}/v1/models/orientation:predict", json={"instances": [good, bad]}
    )
    assert reply.status_code == 422
    assert reply.json()["code"] == "signature_mismatch"
    assert "an image in row 1, found a damaged or incomplete image" in reply.json()["error"]
    assert predictions(gateway, "orientation", [good])[0]["label"] == "0"


def test_an_ensemble_of_trees_answers_as_onnxruntime_does(gateway: Gateway) -> None:
    described = columns_of_function()
    names, classes = described["features"], described["classes"]
    rows = np.random.default_rng(5).normal(0.3, 1, size=(40, len(names)))
    session = ort.InferenceSession(FUNCTION, providers=["CPUExecutionProvider"])
    (direct,) = session.run(None, {"X": rows})
    found = predictions(
        gateway, "function", [dict(zip(names, row, strict=True)) for row in rows.tolist()]
    )
    assert np.array_equal(np.array([row["prediction"] for row in found]), direct)
    assert [row["label"] for row in found] == [classes[place] for place in direct.argmax(axis=1)]
    assert len({row["label"] for row in found}) > 1
