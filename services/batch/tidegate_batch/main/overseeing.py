"""``tidegate batch list|watch|cancel|gc``: what the jobs of a store do, and tidying after them."""

import getpass
import os
import socket
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import emit, examples, table
from tidegate_batch.core.states import State
from tidegate_batch.core.wording import counted, lasting, sized
from tidegate_batch.main.options import Common, common_options, open_session, tell

if TYPE_CHECKING:
    from tidegate_batch.pipeline.collecting import Leftover
    from tidegate_batch.pipeline.watching import JobStatus

_SHOWN_JOBS = 20
"""As many as fit a screen."""
_STATES = ["submitted", *(state.value for state in State)]


@click.command(
    "list",
    epilog=examples("tidegate batch list", "tidegate batch list --state failed --limit 100 --json"),
)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; repeatable."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_SHOWN_JOBS,
    show_default=True,
    metavar="N",
    help="The newest so many.",
)
@common_options
def list_command(states: tuple[str, ...], limit: int, **options: Unpack[Common]) -> None:
    """List the jobs of a store, the newest first."""
    from tidegate_batch.pipeline.listing import list_jobs
    from tidegate_batch.pipeline.queueing import waiting_jobs

    session = open_session(options)
    store = session.parts.stores(session.store_url)
    jobs, known = list_jobs(store, states=states, limit=limit)
    now, queued = session.parts.wall.utc_now(), {waiting.job for waiting in waiting_jobs(store)}
    drawn = table(
        ["job", "model", "state", "rows", "age", "output"],
        [_row(job, now, is_queued=job.job in queued) for job in jobs],
    )
    more = f"\n… and {counted(known - len(jobs), 'older job')}: --limit {known} shows all"
    where = f"of {' or '.join(states)} " if states else ""
    text = drawn + (more if known > len(jobs) else "") if jobs else f"no jobs {where}in {store.url}"
    emit({"jobs": jobs, "known": known}, json_to=options["json_to"], text=text)


def _row(job: "JobStatus", now: datetime, *, is_queued: bool) -> list[str]:
    age_s = (now - datetime.fromisoformat(job.created_at)).total_seconds()
    return [
        job.job,
        str(job.model),
        f"{job.state}{_note(job, is_queued=is_queued)}",
        "" if job.rows is None else f"{job.rows_committed}/{job.rows}",
        lasting(max(0.0, age_s)),
        job.output,
    ]


def _note(job: "JobStatus", *, is_queued: bool) -> str:
    if not job.needs_resume or job.failure:
        return ""
    return " (queued)" if is_queued else " (left alone)"


@click.command(epilog=examples("tidegate batch watch 0123456789abcdef"))
@click.argument("job")
@common_options
def watch(job: str, **options: Unpack[Common]) -> ExitCode:
    """Show how JOB goes until it ends: rows, speed, time left, bad rows, workers.

    On a terminal a bar moves, elsewhere a line is written every five seconds. It touches nothing,
    so Ctrl-C ends only the watching. Exits as the job does: 0 if it was published.
    """
    session = open_session(options)
    return tell(session.watch(session.record(job)), options)


@click.command(epilog=examples("tidegate batch cancel 0123456789abcdef"))
@click.argument("job")
@common_options
def cancel(job: str, **options: Unpack[Common]) -> ExitCode:
    """Stop JOB; its workers end within a second or so, and 'resume' goes on.

    What is committed is kept. A job that is being published is completed instead.
    """
    session = open_session(options)
    who = f"{_user()} on {socket.gethostname()}"
    tell(session.cancel(session.record(job), by=who), options)
    return ExitCode.OK


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"user {os.getuid()}"


@click.command(epilog=examples("tidegate batch gc --dry-run", "tidegate batch gc"))
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@common_options
def gc(dry_run: bool, **options: Unpack[Common]) -> ExitCode:
    """Remove what jobs left behind and nothing names.

    That is: losing attempts of published jobs, and the files of jobs whose output another took
    over. Nothing that a manifest names is touched, nor anything of a job that can still go on.
    Exits 1 if an output could not be looked at.
    """
    from tidegate_batch.pipeline.collecting import find_leftovers

    session = open_session(options)
    found = find_leftovers(session.parts.stores(session.store_url), session.parts)
    if not dry_run:
        for leftover in found.objects:
            leftover.store.delete(leftover.key)
    size_bytes = sum(leftover.size_bytes for leftover in found.objects)
    done = "would be removed" if dry_run else "removed"
    lines = [str(leftover) for leftover in found.objects]
    total = f"{counted(len(lines), 'object')} of {sized(size_bytes)} {done}"
    lines.append(total if lines else "nothing is left over")
    emit(
        {
            "removed": not dry_run,
            "objects": [_described(leftover) for leftover in found.objects],
            "bytes": size_bytes,
            "unseen": found.unseen,
        },
        json_to=options["json_to"],
        text="\n".join([*lines, *(f"not looked at: {why}" for why in found.unseen)]),
    )
    return ExitCode.FAILED if found.unseen else ExitCode.OK


def _described(leftover: "Leftover") -> dict[str, object]:
    return {"job": leftover.job, "object": str(leftover), "bytes": leftover.size_bytes}
