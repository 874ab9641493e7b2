"""What a job leaves in the store must be readable by every later release."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.artifacts.aliases import KEPT_WRITE_IDS
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.records import (
    Commit,
    JobManifest,
    JobSpec,
    JobState,
    Owner,
    Plan,
    dump,
    load,
    signed,
)
from tidegate_batch.core.waiting import Waiting

FIXTURES = Path(__file__).parent.parent / "fixtures/batch"
FORMATS: dict[str, type[msgspec.Struct]] = {
    "spec": JobSpec,
    "state": JobState,
    "state-driven": JobState,
    "owner": Owner,
    "plan": Plan,
    "commit": Commit,
    "commit-dead-letters": Commit,
    "manifest": JobManifest,
    "manifest-dead-letters": JobManifest,
    "spec-text": JobSpec,
    "spec-wishes": JobSpec,
    "spec-tenant": JobSpec,
    "waiting": Waiting,
    "plan-text": Plan,
    "manifest-text": JobManifest,
}
every_format = pytest.mark.parametrize(("name", "kind"), list(FORMATS.items()), ids=list(FORMATS))


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}-schema-1.json").read_bytes()


def changed(name: str, **fields: object) -> bytes:
    content: dict[str, Any] = msgspec.json.decode(fixture(name))
    return msgspec.json.encode({**content, **fields})


@every_format
def test_a_released_format_loads_for_ever_and_survives_being_written(
    name: str, kind: type[msgspec.Struct]
) -> None:
    record = load(kind, fixture(name), where=name)
    assert load(kind, dump(record), where=name) == record


@every_format
def test_a_newer_schema_is_refused_with_what_to_do(name: str, kind: type[msgspec.Struct]) -> None:
    with pytest.raises(JobRecordError, match=r"plan\.json of x cannot be read: .*upgrade this one"):
        load(kind, changed(name, schema=2), where="plan.json of x")


@every_format
def test_an_unknown_field_is_refused(name: str, kind: type[msgspec.Struct]) -> None:
    with pytest.raises(JobRecordError, match="unknown field `surprise`"):
        load(kind, changed(name, surprise=1), where=name)


@every_format
def test_what_is_no_json_is_refused(name: str, kind: type[msgspec.Struct]) -> None:
    with pytest.raises(JobRecordError):
        load(kind, fixture(name)[:-20], where=name)


@pytest.mark.parametrize("fields", [{"rows_in": 15001}, {"rows_out": 14999}, {"rows_dlq": 1}])
@pytest.mark.parametrize("name", ["commit", "commit-dead-letters"])
def test_a_commit_whose_rows_do_not_add_up_is_refused(name: str, fields: dict[str, int]) -> None:
    with pytest.raises(JobRecordError, match=r"rows in are not .* rows out"):
        load(Commit, changed(name, **fields), where="commit")


def test_a_commit_must_name_as_many_dead_letters_as_it_counts() -> None:
    with pytest.raises(JobRecordError, match=r"2 dead letters \(0 in the file\)"):
        load(Commit, changed("commit-dead-letters", dead_letters=None), where="commit")


def test_each_write_grows_the_revision_and_the_last_writers_are_remembered() -> None:
    owner = load(Owner, fixture("owner"), where="owner")
    for number in range(2 * KEPT_WRITE_IDS):
        owner = signed(owner, f"writer {number}")
    assert owner.revision == 3 + 2 * KEPT_WRITE_IDS
    assert len(owner.write_ids) == KEPT_WRITE_IDS
    assert owner.write_ids[0] == f"writer {2 * KEPT_WRITE_IDS - 1}"
