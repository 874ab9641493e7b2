"""What the record of a finished job says of its time."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectStore

PARTS: Final = ("read", "score", "encode", "store")
"""Where a chunk's time goes; reading and encoding may overlap scoring."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one job."""

    working_s: float
    """From the moment in which the first chunk was begun until the output was published."""
    split_s: dict[str, float]
    """Of all chunks together, by part; of several workers, so it may be more than passed."""


def spent_by(store: str, job: str) -> Spent:
    """Read a job's record."""
    objects = open_store(store)
    folder = f"jobs/{job}"
    state = _document(objects, f"{folder}/state.json")
    keys = objects.keys(f"{folder}/commits/")
    return spent(state, [_document(objects, key) for key in keys if key.endswith(".json")])


def spent(state: Mapping[str, Any], commits: Sequence[Mapping[str, Any]]) -> Spent:
    """Work it out of the documents ``state.json`` and ``commits/*.json``."""
    (published_at,) = (move["at"] for move in state["moves"] if move["to"] == "published")
    began_at = min(
        datetime.fromisoformat(commit["committed_at"])
        - timedelta(milliseconds=commit["timings"]["total_ms"])
        for commit in commits
    )
    took = datetime.fromisoformat(published_at) - began_at
    return Spent(
        working_s=took.total_seconds(),
        split_s={
            part: sum(commit["timings"][f"{part}_ms"] for commit in commits) / 1e3 for part in PARTS
        },
    )


def _document(objects: ObjectStore, key: str) -> Any:  # noqa: ANN401 - JSON of whatever shape
    found = objects.get(key)
    if found is None:
        raise FileNotFoundError(f"{key} is not in {objects.url}, and a job had been published")
    return msgspec.json.decode(found.body)
