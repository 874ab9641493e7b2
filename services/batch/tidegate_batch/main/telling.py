"""A job in words, with what to type next."""

from typing import Final

from tidegate_batch.core.errors import (
    MENDED_BY_NO_RESUME,
    InputInvalidError,
    OutputTakenError,
    TooManyBadRowsError,
)
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.states import State
from tidegate_batch.core.wording import counted
from tidegate_batch.main.session import Answer
from tidegate_batch.pipeline.pacing import Pace
from tidegate_batch.pipeline.watching import JobStatus

_NEW_JOB: Final = "A resume would fail again: submit a new job, under another client token."


def describe(answer: Answer) -> str:
    """Return the lines that a command prints about a job."""
    status = answer.status
    lines = [f"job {status.job} is {status.state}: {_rows(answer)} with {status.model}"]
    lines += [f"  model   {status.model} ({status.model.digest})", f"  output  {status.output}"]
    if answer.pace and answer.pace.outlook:
        lines.append(f"  speed   {_speed(answer.pace, answer.pace.outlook)}")
    if answer.finished:
        facts = answer.as_json()
        lines.append(
            f"  took    {facts['seconds']} s for {facts['rows_scored']} rows, "
            f"{facts['rows_per_second']:.0f} rows/s with start-up"
        )
    if status.driver:
        gone = ", which has ended" if status.driver_is == "gone" else ""
        lines.append(f"  driver  process {status.driver.pid} on {status.driver.host}{gone}")
    if answer.log:
        lines.append(f"  log     {answer.log}")
    if status.failure:
        lines.append(f"  reason  {status.failure.message} (code: {status.failure.code})")
    return "\n".join([*lines, *_next_step(answer)])


def _speed(pace: Pace, outlook: Outlook) -> str:
    text = f"{outlook.rows_per_s:,.0f} rows/s, {outlook}"
    warning = {"late": "too late for", "at_risk": "perhaps too late for"}.get(str(pace.timeliness))
    return f"{text}: {warning} {pace.finish_by}" if warning else text


def _rows(answer: Answer) -> str:
    status = answer.status
    if status.rows is None or status.chunks is None:
        return "no rows counted yet"
    if status.state == State.PUBLISHED:
        rows = counted(status.rows - (status.rows_dlq or 0), "row")
        dead = f" and {counted(status.rows_dlq, 'dead letter')}" if status.rows_dlq else ""
        return f"{rows} in {counted(status.chunks, 'part')}{dead}"
    return (
        f"{status.rows_committed} of {status.rows} rows, {status.chunks_committed} of "
        f"{status.chunks} chunks"
    )


def _next_step(answer: Answer) -> list[str]:
    job = answer.status.job
    if answer.log:
        return [f"Watch it with: tidegate batch watch {job}"]
    if answer.status.rows_dlq:
        return [f"See which rows have no answer: tidegate batch dead-letters {job}"]
    if answer.is_queued:
        return [f"It waits for 'tidegate jobs serve'. Watch it with: tidegate batch watch {job}"]
    return _way_on(answer.status) if answer.is_left_alone else []


def _way_on(status: JobStatus) -> list[str]:
    code = status.failure.code if status.failure else None
    resume = f"tidegate batch resume {status.job} --wait"
    if code == TooManyBadRowsError.code:
        return [f"See which rows and why: tidegate batch dead-letters {status.job}", _NEW_JOB]
    if code in MENDED_BY_NO_RESUME:
        return [_NEW_JOB]
    if code in {InputInvalidError.code, OutputTakenError.code}:
        return [f"Once that is put right, go on with: {resume}"]
    return [f"Go on with: {resume}"]
