"""``tidegate jobs serve``: jobs over HTTP, and the queue of their store worked off by priority."""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import examples
from tidegate.errors import SettingError, TidegateError
from tidegate.observability import get_logger
from tidegate_batch.main.options import Common, crew_options, open_session

if TYPE_CHECKING:
    from tidegate.keys.access import Access
    from tidegate.keys.ring import Keyring
    from tidegate_batch.main.running import QueueRunner
    from tidegate_batch.main.session import Session
    from tidegate_batch.main.stored_jobs import StoredJobs

_log = get_logger(__name__)
_PORT: Final = 8003
_LOOK_S: Final = 1.0
"""Between two looks at the queue: a listing of the jobs that wait."""


class _Serve(Common):
    """Options of ``serve``."""

    host: str
    port: int
    keys_file: Path | None
    allow_host: tuple[str, ...]
    root: tuple[str, ...]
    concurrent: int


@click.group(epilog=examples("tidegate jobs serve --port 8003"))
def jobs() -> None:
    """Offline jobs as a service."""


@jobs.command(
    epilog=examples(
        "tidegate jobs serve",
        "tidegate jobs serve --host 0.0.0.0 --keys-file keys.json --root s3://rows --root "
        "s3://scores --allow-host jobs.example.com",
    )
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port to listen on; 0 for any that is free.",
)
@click.option(
    "--keys-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Ask for a key of scope jobs ('tidegate keys create --scope jobs').",
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name that clients may address; repeats."
)
@click.option(
    "--root",
    multiple=True,
    metavar="PATH|s3://…",
    help="Inputs and outputs must lie below one of these.  [default: anywhere]",
)
@click.option(
    "--concurrent",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Jobs at once; the others wait, by priority.",
)
@crew_options
@store_option
@config_option
def serve(**options: Unpack[_Serve]) -> None:
    """Take jobs over HTTP under /v1/jobs, and work off the queue until SIGTERM.

    Everything lies in the store: jobs that run go on when this process ends, and those that wait
    are begun by the next one, here or elsewhere.
    """
    import asyncio

    from tidegate_batch.api.app import build_app
    from tidegate_batch.api.serving import serve as serve_app

    _check_reach(options)
    ring = _open_keys(options["keys_file"])
    session = open_session(
        {
            "store": options["store"],
            "config": options["config"],
            "json_to": None,
            "engine": options["engine"],
            "workers": options["workers"],
        }
    )
    claimed = _claim(options["host"], options["port"])
    app = build_app(_jobs(session, options), _access(ring), names=options["allow_host"])
    runner = _runner(session, options["concurrent"])
    host, port = claimed.getsockname()[:2]
    _log.info("listening", host=host, port=port, store=session.store_url)
    beside = [lambda: _look_after(runner), *([ring.follow] if ring else [])]
    asyncio.run(serve_app(app, claimed, beside))
    _log.info("stopped", jobs_still_running=list(runner.own))


def _check_reach(options: _Serve) -> None:
    try:
        is_loopback = ipaddress.ip_address(options["host"]).is_loopback
    except ValueError as error:
        raise SettingError(
            f"--host {options['host']!r} is no address, such as 127.0.0.1"
        ) from error
    if not is_loopback and (options["keys_file"] is None or not options["root"]):
        raise SettingError(
            f"{options['host']} can be reached from outside this machine, and whoever reaches it "
            "could read and write files here. Add --keys-file (tidegate keys create --file "
            "keys.json --scope jobs --tenant NAME), and --root for each place that jobs may use."
        )
    if not is_loopback:
        _log.warning("keys_without_tls", host=options["host"], port=options["port"])


def _open_keys(file: Path | None) -> "Keyring | None":
    from tidegate.clock.system import SystemClock
    from tidegate.keys.ring import Keyring

    return None if file is None else Keyring(file, SystemClock())


def _access(ring: "Keyring | None") -> "Access":
    from tidegate.keys.access import Access

    return Access(ring)


def _jobs(session: "Session", options: _Serve) -> "StoredJobs":
    from tidegate_batch.main.stored_jobs import StoredJobs

    return StoredJobs(session, roots=options["root"])


def _claim(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    claimed = socket.socket(family, socket.SOCK_STREAM)
    claimed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past TIME_WAIT, no more
    try:
        claimed.bind((host, port))
    except OSError as error:
        claimed.close()
        raise SettingError(f"{host}:{port} cannot be listened on: {error.strerror}") from error
    return claimed


def _runner(session: "Session", concurrent: int) -> "QueueRunner":
    from tidegate.objects.opening import open_store
    from tidegate_batch.main.running import QueueRunner

    telling = ThreadPoolExecutor(1, "telling")  # for jobs that ended without a driver
    return QueueRunner(
        open_store(session.store_url),  # without patience: the next look comes, or SIGTERM has
        session.parts,
        on_over=lambda job: telling.submit(session.notify, session.record(job)),
        start=lambda job: session.start_driver(job, log=session.log_of(job)),
        concurrent=concurrent,
    )


async def _look_after(runner: "QueueRunner") -> None:
    """Look at the queue for ever; a store that is away is asked again."""
    import asyncio

    while True:
        try:
            await asyncio.to_thread(runner.look)
        except TidegateError as error:
            _log.warning("queue_not_seen", reason=str(error))
        await asyncio.sleep(_LOOK_S)
