"""One model, two paths: publish it, ask it over REST, score a million rows, compare.

``make demo`` runs this. It uses the same commands that you would type, in a folder of its own
that is removed at the end.
"""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
TIDEGATE = (sys.executable, "-m", "tidegate")
ROWS = int(os.environ.get("DEMO_ROWS", "1000000"))
FILES = 10
SAMPLED_ROWS = 2_000
OIP_ROWS = 20
"""Rows of one Open Inference Protocol request; the friendly form sends one row each."""
CLIENTS = 4
NOISE = 0.01
SEED = 569
KEY = "row_id"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What one path said about some rows."""

    keys: np.ndarray
    """``(rows,)`` int64."""
    probabilities: np.ndarray
    """``(rows, 2)``: benign, malignant."""
    tags: frozenset[str]
    """Every ``name@version digest`` that made one of them."""


def main() -> int:
    """Run the demo; 0 if both paths agree."""
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        return demo(Path(folder))


def demo(folder: Path) -> int:
    """Run every step in this folder and print the summary."""
    store = folder / "store"
    step("publish the model")
    published = tidegate_json(
        "model", "publish", "risk", HERE / "model.onnx",
        "--transform", HERE / "transform.toml", "--alias", "stable", "--store", store,
    )  # fmt: skip
    step(f"make {ROWS:,} rows: the 569 real ones repeated, with {NOISE:.0%} of noise")
    columns, features = make_rows()
    write_parquet(folder / "in", columns, features)

    step(f"serve it, and send {2 * SAMPLED_ROWS:,} rows over REST")
    sampled = np.random.default_rng(SEED).choice(ROWS, SAMPLED_ROWS, replace=False)
    with serving(store, log=folder / "gateway.log") as port:
        interactive, latencies_ms = ask(port, columns, features, sampled)

    step(f"score all {ROWS:,} rows offline, on Ray")
    job = tidegate_json(
        "batch", "submit", "--model", "risk@stable", "--input", folder / "in", "--wait",
        "--output", folder / "out", "--key", KEY, "--store", store,
    )  # fmt: skip
    offline = read_scores(folder / "out")
    return summarise(published, interactive, latencies_ms, offline, job)


def make_rows() -> tuple[list[str], np.ndarray]:
    """Return the feature names and ``(ROWS, 30)`` float32 values."""
    with (HERE / "breast_cancer.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    real = np.array([line[:-1] for line in lines], dtype=np.float32)
    noise = np.random.default_rng(SEED).normal(1, NOISE, (ROWS, real.shape[1]))
    return header[:-1], np.resize(real, noise.shape) * noise.astype(np.float32)


def write_parquet(folder: Path, columns: Sequence[str], features: np.ndarray) -> None:
    """Write the rows to ``FILES`` files, each row with its key."""
    folder.mkdir()
    keys = np.array_split(np.arange(len(features)), FILES)
    for number, rows in enumerate(keys):
        arrays = {KEY: rows} | {name: features[rows, i] for i, name in enumerate(columns)}
        pq.write_table(
            pa.table(arrays), folder / f"rows-{number:02}.parquet", row_group_size=50_000
        )


@contextmanager
def serving(store: Path, *, log: Path) -> Iterator[int]:
    """Run the gateway on free ports; stop it as an orchestrator would, by SIGTERM."""
    port, admin_port = free_port(), free_port()
    ports = ("--port", str(port), "--admin-port", str(admin_port), "--grpc-port", "0")
    with log.open("w") as file:
        process = subprocess.Popen(
            [*TIDEGATE, "serve", "--store", store, *ports], stdout=file, stderr=file
        )
        try:
            wait_until_ready(process, port, log)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Ask for readiness until it is there, or until the process has ended."""
    while process.poll() is None:
        try:
            if Caller(port).get("/v2/health/ready") == 200:  # noqa: PLR2004 - HTTP's OK
                return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"demo: the gateway ended before it was ready:\n{log.read_text()}")


class Caller:
    """One client with one connection, as an application would keep it."""

    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str) -> int:
        """Return the status of a page."""
        self._http.request("GET", path)
        response = self._http.getresponse()
        response.read()
        return response.status

    def post(self, path: str, body: object) -> tuple[dict[str, object], float]:
        """Return an answer and how many milliseconds it took; anything but 200 ends the demo."""
        started = time.perf_counter()
        self._http.request("POST", path, json.dumps(body))
        response = self._http.getresponse()
        answer = json.loads(response.read())
        took_ms = (time.perf_counter() - started) * 1e3
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            sys.exit(f"demo: {path} answered {response.status}: {answer}")
        return answer, took_ms


def ask(
    port: int, columns: Sequence[str], features: np.ndarray, sampled: np.ndarray
) -> tuple[list[Answers], list[float]]:
    """Send the sampled rows twice, from several clients: as named columns and as OIP tensors."""
    mine = threading.local()

    def caller() -> Caller:
        if not hasattr(mine, "caller"):
            mine.caller = Caller(port)
        return mine.caller

    def friendly(rows: np.ndarray) -> tuple[Answers, float]:
        instances = [dict(zip(columns, features[row].tolist(), strict=True)) for row in rows]
        answer, took_ms = caller().post("/v1/models/risk:predict", {"instances": instances})
        said = np.array([row["prediction"] for row in answer["predictions"]])
        tag = f"risk@{answer['model_version']} {answer['model_digest']}"
        return Answers(keys=rows, probabilities=said, tags=frozenset([tag])), took_ms

    def oip(rows: np.ndarray) -> tuple[Answers, float]:
        values = features[rows]
        tensor = {"name": "input", "datatype": "FP32", "shape": list(values.shape)}
        body = {"inputs": [{**tensor, "data": values.ravel().tolist()}]}
        answer, took_ms = caller().post("/v2/models/risk/infer", body)
        output = answer["outputs"][0]
        said = np.array(output["data"]).reshape(output["shape"])
        tag = f"risk@{answer['model_version']} {answer['parameters']['tidegate_digest']}"
        return Answers(keys=rows, probabilities=said, tags=frozenset([tag])), took_ms

    with ThreadPoolExecutor(CLIENTS) as clients:
        got = [
            *clients.map(friendly, np.array_split(sampled, len(sampled))),
            *clients.map(oip, np.array_split(sampled, len(sampled) // OIP_ROWS)),
        ]
    return [answers for answers, _ in got], [took_ms for _, took_ms in got]


def read_scores(folder: Path) -> Answers:
    """Read a job's output as any reader of parquet would."""
    table = pq.read_table(folder, columns=[KEY, "prediction", "_model_version", "_model_digest"])
    versions = zip(*(set(table[name].to_pylist()) for name in table.column_names[2:]), strict=True)
    flat = pa.compute.list_flatten(table["prediction"]).to_numpy()
    return Answers(
        keys=table[KEY].to_numpy(),
        probabilities=flat.reshape(len(table), -1),
        tags=frozenset(f"risk@{version} {digest}" for version, digest in versions),
    )


def summarise(
    published: dict[str, object],
    interactive: list[Answers],
    latencies_ms: list[float],
    offline: Answers,
    job: dict[str, object],
) -> int:
    """Compare every interactive answer with the offline one for the same row, and say so."""
    by_key = np.empty((ROWS, offline.probabilities.shape[1]))
    by_key[offline.keys] = offline.probabilities
    gaps = [np.abs(said.probabilities - by_key[said.keys]).max(axis=1) for said in interactive]
    largest = np.concatenate(gaps)
    tolerance = float(published["tolerance"])
    differ = int((largest > tolerance).sum())
    tags = offline.tags.union(*(said.tags for said in interactive))
    p50, p99 = np.percentile(latencies_ms, [50, 99])
    complete = len(np.unique(offline.keys)) == len(offline.keys) == ROWS
    tag = " ".join(sorted(tags))
    print()
    print(
        f"interactive: {len(latencies_ms)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"{len(largest)} rows · {tag}"
    )
    print(f"offline: {len(offline.keys)} rows, {job['rows_per_second']:,.0f} rows/s · {tag}")
    print(
        f"parity: {len(largest)} rows compared, {differ} differ "
        f"(largest difference {largest.max():.1g}, tolerance {tolerance:g}) · {tag}"
    )
    return 0 if complete and differ == 0 and len(tags) == 1 else 1


def tidegate_json(*arguments: object) -> dict[str, object]:
    """Run a command, show its progress, and return its answer; a failure ends the demo."""
    command = [*TIDEGATE, *map(str, arguments), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: '{' '.join(command[1:4])}' ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def free_port() -> int:
    """Ask the system for a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def step(what: str) -> None:
    """Say what comes next."""
    print(f"→ {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
