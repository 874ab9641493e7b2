"""A job in words, with what to type next."""

from typing import Final

from tidegate_batch.core.errors import InputInvalidError, OutputTakenError, TooManyBadRowsError
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.states import ENDED, State
from tidegate_batch.core.wording import counted
from tidegate_batch.main.session import Answer
from tidegate_batch.pipeline.pacing import Pace

REFUSED: Final = frozenset(
    {InputInvalidError.code, OutputTakenError.code, TooManyBadRowsError.code}
)
"""Codes of jobs that no resume would help as they were asked for."""


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
        return [f"Watch it with: tidegate batch status {job} --wait"]
    if answer.status.rows_dlq:
        return [f"See which rows have no answer: tidegate batch dead-letters {job}"]
    failure = answer.status.failure
    if answer.is_queued and answer.status.state not in ENDED:
        return [f"It waits for 'tidegate jobs serve'. Watch it with: tidegate batch status {job}"]
    if answer.is_left_alone and not (failure and failure.code in REFUSED):
        return [f"Go on with: tidegate batch resume {job} --wait"]
    return []
