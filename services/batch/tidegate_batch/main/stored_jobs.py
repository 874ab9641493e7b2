"""What the HTTP interface asks, answered by the commands' own parts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import click
import msgspec

from tidegate.errors import ModelNotFoundError, RequestRejectedError, SettingError
from tidegate.ids import InvalidIdError
from tidegate.keys.access import Principal
from tidegate.keys.errors import ForbiddenError
from tidegate_batch.core.errors import JobNotFoundError
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.core.wishes import Wishes
from tidegate_batch.main.options import CREW_OPTIONS
from tidegate_batch.main.session import Session, queue_submitted
from tidegate_batch.main.spec_file import check_spec
from tidegate_batch.main.submitting import Submit, build_submission, build_wishes
from tidegate_batch.main.submitting import submit as submit_command
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.listing import list_jobs
from tidegate_batch.pipeline.notifying import may_be_told
from tidegate_batch.pipeline.queueing import enqueue
from tidegate_batch.pipeline.reading_dead_letters import committed_dead_letters, summarize
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import absolute, place_of

_OF_THE_SERVICE: Final = frozenset({"spec", "json", "config", "store", "wait", "queue"})
"""Options of ``submit`` that the service decides."""


class StoredJobs:
    """The jobs of one store; safe from several threads."""

    def __init__(self, session: Session, *, roots: Sequence[str]) -> None:
        """Set up.

        Args:
            session: Store and settings.
            roots: Where inputs and outputs may lie; without any, wherever this process may go.
        """
        self._session = session
        self._roots = tuple(absolute(root).rstrip("/") + "/" for root in roots)

    def submit(self, wanted: Mapping[str, Any], who: Principal) -> tuple[dict[str, Any], bool]:
        """Make a job and queue it; see ``app.Jobs``."""
        session, options = self._session, _options(wanted)
        try:
            asked = build_submission(session, options)
        except InvalidIdError as error:
            raise SettingError(f"the job cannot be meant: {error}") from error
        submission = replace(
            asked,
            chunk_rows=wanted.get("chunk_rows", session.batch.chunk_rows),
            client_token=options["client_token"],
            wishes=_lowered(build_wishes(session, options), who),
            tenant=_tenant(who),
        )
        _check_model(submission.model.name, who)
        for url in submission.inputs:
            self._check_root(url, absolute(url))
        self._check_root(submission.output, place_of(submission.output))
        self._check_hook(submission.wishes.notify, who)
        token = submission.client_token
        is_new = token is None or not self._is_known(token, who)
        try:
            return queue_submitted(session, submission).as_json(), is_new
        except ModelNotFoundError as error:  # its message has the store's place
            raise ModelNotFoundError(f"The store has no model {submission.model}.") from error

    def list(self, states: Collection[str], *, limit: int, who: Principal) -> dict[str, Any]:
        """List the newest jobs of the key's tenant, of the models that it is for."""
        store = self._session.parts.stores(self._session.store_url)
        jobs, known = list_jobs(
            store, states=states, models=who.models, tenant=_tenant(who), limit=limit
        )
        return {"jobs": jobs, "known": known}

    def get(self, job: str, who: Principal) -> dict[str, Any]:
        """Say how a job is."""
        return self._session.look(self._record(job, who)).as_json()

    def cancel(self, job: str, who: Principal) -> dict[str, Any]:
        """Stop a job; the queue's runner tells of it."""
        by = f"key {who.key_id}" if who.key_id else "anybody, over HTTP"
        cancel(self._record(job, who), self._session.parts, by=by)
        return self.get(job, who)

    def resume(self, job: str, who: Principal) -> dict[str, Any]:
        """Queue a job that was stopped."""
        enqueue(self._record(job, who), self._session.parts)
        return self.get(job, who)

    def dead_letters(self, job: str, *, limit: int, who: Principal) -> dict[str, Any]:
        """Say which rows have no answer, and why."""
        record = self._record(job, who)
        plan = record.plan()
        files = [file for _, file in committed_dead_letters(record, plan)] if plan else []
        summary = summarize(record.store, files, most=limit)
        return {
            "job": job,
            "rows": summary.rows,
            "reasons": msgspec.to_builtins(summary.reasons),
            "first": msgspec.to_builtins(summary.first),
        }

    def _is_known(self, client_token: str, who: Principal) -> bool:
        try:  # before a conflict could tell what the job is
            self._record(job_id_of_token(client_token, tenant=_tenant(who)), who)
        except JobNotFoundError:
            return False
        return True

    def _record(self, job: str, who: Principal) -> JobRecord:
        record = self._session.record(job)
        try:
            spec = record.spec()
        except JobNotFoundError as error:  # its message has the store's place
            raise _not_found(job) from error
        if _tenant(who) not in {None, spec.tenant}:
            raise _not_found(job)
        _check_model(spec.model.name, who)
        return record

    def _check_hook(self, url: str | None, who: Principal) -> None:
        hosts = self._session.batch.notify_hosts
        is_open = who.key_id is None and not hosts
        if url is not None and not is_open and not may_be_told(url, hosts):
            raise RequestRejectedError(
                "This service may not tell that host of a job's end: whoever runs it allows hosts "
                "by batch.notify_hosts."
            )

    def _check_root(self, url: str, place: str) -> None:
        if self._roots and not any(f"{place}/".startswith(root) for root in self._roots):
            raise RequestRejectedError(
                f"{url!r} lies outside of what this service may read and write."
            )


def _not_found(job: str) -> JobNotFoundError:
    return JobNotFoundError(f"There is no job {job}.")


def _tenant(who: Principal) -> str | None:
    """Say whose jobs these may be; ``None``, everybody's, where no key is asked for."""
    return None if who.key_id is None else who.tenant


def _check_model(name: str, who: Principal) -> None:
    if who.models is not None and name not in who.models:
        raise ForbiddenError(f"The key {who.key_id} is not for this model.")


def _lowered(wishes: Wishes, who: Principal) -> Wishes:
    """Let nobody go before those whose keys allow more."""
    return msgspec.structs.replace(wishes, priority=max(wishes.priority, who.best_priority))


def _options(wanted: Mapping[str, Any]) -> Submit:
    """Read what was sent as the command line would.

    Raises:
        SettingError: Something cannot be meant, or is missing.
    """
    meant = {key: value for key, value in wanted.items() if key not in CREW_OPTIONS}
    given = check_spec(meant, submit_command, where="the job", without=_OF_THE_SERVICE)
    try:
        context = submit_command.make_context("job", [], default_map=given)
    except click.UsageError as error:
        raise SettingError(f"the job cannot be meant: {error.format_message()}") from error
    return cast("Submit", context.params)
