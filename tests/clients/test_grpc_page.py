"""The example of docs/grpc.md works as it stands there, on the example's model."""

import re
from pathlib import Path

from tests.fixtures.clients import require_client, run_client
from tests.fixtures.gateways import free_port, running_gateway
from tests.project import ROOT
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

PAGE = (ROOT / "docs/grpc.md").read_text(encoding="utf-8")


def test_the_page_of_grpc_shows_a_call_that_works(tmp_path: Path) -> None:
    require_client("tritonclient")
    candidate = Candidate(
        name=ModelName("risk"), file=ROOT / "examples/risk/model.onnx", alias=Alias("stable")
    )
    store = tmp_path / "store"
    publish(ArtifactStore(LocalObjectStore(store)), candidate, clock=SystemClock())
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    with running_gateway(store, "--grpc-port", str(free_port()), "--slo-ms", "20000") as gateway:
        script = tmp_path / "example.py"
        script.write_text(example.replace("127.0.0.1:8001", gateway.grpc_target))
        told = run_client("tritonclient", str(script))
    assert re.fullmatch(r"\[\[\S+ +\S+\]\] 1\n", told)
