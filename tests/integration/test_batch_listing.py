"""What is asked of the store for a list of jobs, however many rows they have."""

from pathlib import Path

from tests.fakes.objects import FaultyObjectStore
from tests.fixtures.batch_jobs import new_place, run_job
from tidegate.objects.opening import open_store
from tidegate_batch.core.names import JobId, commits_prefix
from tidegate_batch.pipeline.listing import list_jobs


def test_commits_are_listed_of_the_jobs_that_are_shown_alone(tmp_path: Path) -> None:
    place = new_place(tmp_path, 30)
    jobs: list[JobId] = [
        run_job(place, tmp_path / "cache", output=f"{place.output}-{number}").job
        for number in range(3)
    ]
    store = FaultyObjectStore(open_store(place.store))
    (shown,), known = list_jobs(store, limit=1)
    assert known == 3
    assert shown.job in jobs
    assert shown.rows_committed == 30
    listings = [call for call in store.calls if call.startswith(("keys", "folders"))]
    assert listings == ["folders jobs/", f"keys {commits_prefix(JobId(shown.job))}"]
