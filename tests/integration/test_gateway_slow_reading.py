"""Requests whose rows take long to read: the loop answers others meanwhile."""

import asyncio
import base64
import threading
from pathlib import Path

import orjson
import pytest
from onnx import helper
from PIL import Image

from tests.fakes.exchange import FakeExchange
from tests.fixtures import edges, onnx_models
from tests.fixtures.images import encoded
from tidegate.artifacts.manifest import TransformSpec
from tidegate.artifacts.transform_specs import ImageFormat, ImageSpec
from tidegate.clock.system import SystemClock
from tidegate.inference.model import Model
from tidegate_realtime.api.examples import example_request

SPEC = ImageSpec(size=(2, 2), input="input", channels="gray")
MANY_TURNS = 200
"""Of the loop; a request that the loop itself reads takes about ten."""


def pictures(folder: Path, spec: ImageSpec = SPEC) -> Model:
    """Answers what an image looks like from afar."""
    shape = ("rows", spec.depth, *spec.size)
    file = onnx_models.save(
        folder / "m.onnx",
        [helper.make_node("Identity", ["input"], ["output"])],
        [onnx_models.floats("input", *shape)],
        [onnx_models.floats("output", *shape)],
    )
    return edges.load(file, name="pictures", transforms=TransformSpec(image=spec))


async def test_a_large_photo_is_decoded_beside_the_loop(tmp_path: Path) -> None:
    photo = encoded(Image.effect_noise((2_400, 1_800), 60), "JPEG")
    body = orjson.dumps({"instances": [{"image": {"b64": base64.b64encode(photo).decode()}}]})
    clock = SystemClock()
    edge = edges.serve([pictures(tmp_path)], clock=clock, slo_ms=20_000)
    path = "/v1/models/pictures:predict"
    exchange = FakeExchange("POST", path, body, began_at_ns=clock.now_ns())
    answer = asyncio.ensure_future(edge.endpoint.answer(exchange))  # noqa: TID251 - looked at, not awaited
    turns = 0
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
    reply = await answer
    await edge.catalogue.versions[0].driver.aclose()
    assert reply.status == 200, reply.body
    (prediction,) = orjson.loads(reply.body)["predictions"]
    assert [[0.4 < value < 0.6 for value in row] for row in prediction[0]] == [[True, True]] * 2
    assert turns > MANY_TURNS


async def test_other_work_on_threads_does_not_wait_behind_images(tmp_path: Path) -> None:
    photo = encoded(Image.effect_noise((1_600, 1_200), 60), "JPEG")
    body = orjson.dumps({"instances": [{"image": {"b64": base64.b64encode(photo).decode()}}]})
    clock = SystemClock()
    edge = edges.serve([pictures(tmp_path)], clock=clock, slo_ms=60_000)
    ended: list[int] = []
    before = set(threading.enumerate())

    async def ask() -> None:
        path = "/v1/models/pictures:predict"
        exchange = FakeExchange("POST", path, body, began_at_ns=clock.now_ns())
        ended.append((await edge.endpoint.answer(exchange)).status)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(50):
            tasks.create_task(ask())
        await asyncio.sleep(0)
        assert edge.metrics.waiting_to_be_read() == 49
        assert await asyncio.to_thread(threading.active_count) > 1
        assert len(ended) < 25  # most of them still wait, for one thread
    assert ended == [200] * 50
    (own,) = [each for each in set(threading.enumerate()) - before if "reading" in each.name]
    await edge.catalogue.versions[0].driver.aclose()
    await edge.slow_reader.aclose()
    await asyncio.to_thread(own.join, 10)
    assert not own.is_alive()


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_the_example_for_newcomers_is_an_image_that_is_read(
    kind: ImageFormat, tmp_path: Path
) -> None:
    spec = ImageSpec(size=(32, 32), input="input", formats=(kind,))
    served = edges.described(pictures(tmp_path, spec))
    line = example_request(served, public_url="http://127.0.0.1:8000")
    instance = orjson.loads(line.split("'")[1])["instances"][0]
    content = base64.b64decode(instance["image"]["b64"])
    assert (served.model.tensors_from_instances([content])["input"] == 1).all()
