"""Ids of jobs and chunks, and which keys belong to which job."""

import pytest

from tidegate.ids import InvalidIdError
from tidegate_batch.core.names import (
    AttemptId,
    ChunkId,
    JobId,
    attempt_key,
    belongs_to,
    chunk_id,
    job_id_of_token,
    parse_job_id,
    part_key,
)

JOB = JobId("00112233445566aa")
OTHER = JobId("ffeeddccbbaa9988")


def test_a_client_token_names_one_job_for_ever() -> None:
    assert job_id_of_token("a") == "ca978112ca1bbdca"  # sha256("a"), FIPS 180-4
    assert parse_job_id(job_id_of_token("a")) == "ca978112ca1bbdca"


def test_no_tenant_can_name_the_job_of_another_or_of_nobody() -> None:
    asked = [("ab", "c"), ("a", "bc"), (None, "abc"), (None, "a\0bc"), ("a", ""), (None, "a")]
    names = {job_id_of_token(token, tenant=tenant) for tenant, token in asked}
    assert len(names) == len(asked)
    assert job_id_of_token("c", tenant="ab") == job_id_of_token("c", tenant="ab")


@pytest.mark.parametrize("text", ["", "../../etc", "00112233445566A", "00112233445566AA", "x" * 16])
def test_what_is_no_job_id_never_becomes_a_path(text: str) -> None:
    with pytest.raises(InvalidIdError, match="is no job id"):
        parse_job_id(text)


def test_chunks_are_numbered_in_input_order_and_sort_like_numbers() -> None:
    ids = [chunk_id(index) for index in (0, 1, 9, 10, 999_999)]
    assert ids == ["000000", "000001", "000009", "000010", "999999"]
    assert sorted(ids) == ids


@pytest.mark.field_fault("B-12")
def test_no_glob_for_parquet_files_ever_finds_an_attempt() -> None:
    key = attempt_key(JOB, ChunkId("000001"), AttemptId("0f" * 16))
    assert key == f"_tidegate/{JOB}/000001.{'0f' * 16}.attempt"


@pytest.mark.field_fault("B-13")
def test_a_part_holds_the_job_so_that_no_other_job_can_overwrite_it() -> None:
    assert part_key(JOB, ChunkId("000001")) != part_key(OTHER, ChunkId("000001"))


def test_only_what_a_job_can_have_written_belongs_to_it() -> None:
    mine = [part_key(JOB, ChunkId("000001")), attempt_key(JOB, ChunkId("000001"), AttemptId("a"))]
    assert all(belongs_to(key, JOB) for key in mine)
    assert not any(belongs_to(key, OTHER) for key in mine)
    for key in ("_MANIFEST.json", "_SUCCESS", "_tidegate/owner.json", "part-1.parquet"):
        assert not belongs_to(key, JOB)
