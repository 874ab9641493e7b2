"""The comparison with other servers: its requests, its medians and its verdicts."""

import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from msgspec.structs import replace

from tests.project import ROOT
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate.oip.request import decode_request
from tidegate_loadtest.peers import h2load
from tidegate_loadtest.peers.bare import Bare, rows_per_s_at
from tidegate_loadtest.peers.judging import judge, rows_of
from tidegate_loadtest.peers.load import LoadError, Measured
from tidegate_loadtest.peers.measuring import Plan, Run
from tidegate_loadtest.peers.servers import SERVERS, Ports, Site
from tidegate_loadtest.peers.work import SMALL, WIDE, WORKS, Form, Work, request_of
from tidegate_loadtest.peers.wrk import read
from tidegate_loadtest.proof.targets import Line

BARE = {
    name: [
        Bare(rows=1, p50_ms=0.1, p99_ms=0.2, rows_per_s=1_000),
        Bare(rows=3, p50_ms=0.1, p99_ms=0.2, rows_per_s=3_000),
    ]
    for name in WORKS
}
LINE = '{"requests":300,"took_us":2000000,"p50_us":1500.0,"p99_us":9000.0,"refused":100,"broken":2}'
SITE = Site(root=ROOT, models=Path("models"), slo_ms=1_000)


def run(server: str, rps: int, *, refused: int = 0, p50_us: float = 350, **other: Any) -> Run:  # noqa: ANN401 - fields of a Run
    measured = Measured(
        requests=rps + refused,
        took_us=1_000_000,
        p50_us=p50_us,
        p99_us=p50_us,
        refused=refused,
        broken=0,
    )
    usual = Run(
        server=server, model="small", form=Form.JSON, connections=32, round=0, measured=measured
    )
    return replace(usual, **other)


def verdicts(
    runs: Sequence[Run], bare: Mapping[str, Sequence[Bare]] = BARE
) -> dict[tuple[str, str], Line]:
    return {(line.where, line.what): line for line in judge(rows_of(runs), bare)}


def test_what_wrk_prints_is_read_and_refusals_are_no_answers() -> None:
    measured = read(f"Running 2s test @ http://127.0.0.1\n{LINE}\n")
    assert (measured.answered_rps, measured.p50_ms, measured.p99_ms) == (100.0, 1.5, 9.0)
    assert measured.errors == 102
    with pytest.raises(LoadError, match="unable to connect"):
        read("", "unable to connect to 127.0.0.1:9")


def test_the_median_of_the_rounds_counts_and_the_best_stands_first() -> None:
    runs = [run("mosec", rps, round=n, refused=1) for n, rps in enumerate([900, 100, 200])]
    rows = rows_of([*runs, run("tidegate", 500)])
    assert [(row.server, row.rps, row.errors) for row in rows] == [
        ("tidegate", 500, 0),
        ("mosec", 200, 3),
    ]


def test_ours_is_held_against_the_best_other_server() -> None:
    runs = [run("tidegate", 2_499), run("tidegate-uvicorn", 9_999)]
    runs += [run("mosec", 1_000), run("triton", 900)]
    line = verdicts(runs)["small", "answers/s of the best other server, JSON, 32 connections"]
    assert (line.figure, line.low, line.verdict) == (2.499, 2.5, "short")
    assert line.note == "2,499/s, mosec 1,000/s"
    runs[0] = run("tidegate", 2_500)
    line = verdicts(runs)["small", "answers/s of the best other server, JSON, 32 connections"]
    assert line.verdict == "ok"


def test_ours_is_held_against_the_bare_session_at_the_same_batch() -> None:
    line = verdicts([run("tidegate", 1_900, model="wide", batch_rows=2.0)])[
        "wide", "share of the bare session's rows/s, 32 connections"
    ]
    assert (line.figure, line.verdict) == (0.95, "ok")
    assert rows_per_s_at(BARE["wide"], 2.0) == 2_000


def test_one_callers_latency_is_compared_with_the_bare_call() -> None:
    lines = verdicts([run("tidegate", 10, connections=1, p50_us=410)])
    median = lines["small", "p50 that one caller waits longer than for the bare call"]
    assert median.figure == pytest.approx(0.31)
    assert median.verdict == "short"


def test_errors_at_many_connections_are_counted() -> None:
    lines = verdicts([run("tidegate", 10, connections=512, refused=1)])
    assert lines["small", "errors at 512 connections"].verdict == "short"


def test_what_was_not_measured_is_unknown() -> None:
    lines = verdicts([], {})
    assert len(lines) == 12
    assert {line.verdict for line in lines.values()} == {"unknown"}


@pytest.mark.parametrize("work", [SMALL, WIDE])
def test_the_same_row_travels_in_every_form(work: Work) -> None:
    as_json = decode_request(request_of(work, Form.JSON, model="m").body).inputs["input"]
    np.testing.assert_allclose(as_json, work.row, atol=1e-4)
    binary = request_of(work, Form.BINARY, model="m")
    length = int(binary.headers["Inference-Header-Content-Length"])
    (tensor,) = orjson.loads(binary.body[:length])["inputs"]
    assert tensor["shape"] == [1, work.widths[0]]
    assert binary.body[length:] == request_of(work, Form.RAW, model="m").body == work.row.tobytes()


def test_a_row_travels_by_grpc_under_the_name_that_a_server_gives_the_model() -> None:
    message = ModelInferRequest.FromString(request_of(SMALL, Form.GRPC, model="peer").body)
    assert message.model_name == "peer"
    assert list(message.inputs[0].shape) == [1, 30]
    assert message.raw_input_contents == [SMALL.row.tobytes()]


def test_what_h2load_logs_is_read() -> None:
    log = "1\t200\t1000\n2\t200\t3000\n3\t503\t2000\n4\t-1\t9000\n"
    measured = h2load.read(log, seconds=2)
    assert (measured.answered_rps, measured.refused, measured.broken) == (1.0, 1, 1)
    assert measured.p50_ms == 2.5
    with pytest.raises(LoadError, match="nothing was answered"):
        h2load.read("", seconds=2)


def test_grpc_is_compared_with_triton_and_with_our_own_http() -> None:
    runs = [run("tidegate", 300), run("tidegate", 100, form=Form.GRPC)]
    lines = verdicts([*runs, run("triton", 200, form=Form.GRPC)])
    line = lines["small", "answers/s of Triton's gRPC, 32 connections"]
    assert line.figure == 0.5
    assert line.note == "no target; by JSON over HTTP Tidegate answers 3.0 times as many"


def test_every_server_has_its_script_and_its_environment_is_installed_by_tools_parts() -> None:
    pinned = runpy.run_path(str(ROOT / "tools/parts"), run_name="parts")["PEERS"]
    environments = {server.environment for server in SERVERS.values()} - {None}
    assert environments == set(pinned)
    for server in SERVERS.values():
        command = server.command(SITE, SMALL, Ports(public=1, admin=2, grpc=3))
        scripts = [Path(part) for part in command if part.startswith(str(SITE.scripts))]
        assert all(script.exists() for script in scripts)


def test_a_plan_says_how_long_its_load_lasts() -> None:
    plan = Plan(
        servers=[SERVERS["tidegate"], SERVERS["litserve"]],
        works=[SMALL],
        forms=[Form.JSON, Form.BINARY],
        connections=[1, 32],
        rounds=3,
        seconds=4,
    )
    assert plan.duration_s() == 3 * (2 + 1) * 2 * 4
