"""``tidegate explain``: asks a gateway why its batches are as large as they are."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

import click

from tidegate.cli.credentials import authorization
from tidegate.cli.output import emit, examples, json_option

Json = Mapping[str, Any]

_PATIENCE_S: Final = 10.0
"""On top of the time that the gateway watches."""


@click.command(
    epilog=examples(
        "tidegate explain http://127.0.0.1:8002 risk",
        "tidegate explain http://127.0.0.1:8002 risk@7 --window-s 30 --json",
    )
)
@click.argument("url")
@click.argument("ref", metavar="MODEL[@ALIAS|@VERSION]")
@click.option(
    "--window-s",
    type=click.FloatRange(0.1, 60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the gateway watches before it answers.",
)
@json_option
def explain(url: str, ref: str, window_s: float, json_to: str | None) -> None:
    """Say why batches are as large as they are now, and what would change it.

    URL is the operators' listener of a gateway, port 8002 by default. It watches its traffic for a
    moment and tells what bounds the batches: callers, load, deadlines, or the cap and its reason;
    and who was refused, and why. A gateway with keys asks for one of scope admin: put it into the
    variable TIDEGATE_KEY.
    """
    from tidegate.ids import ModelRef

    ModelRef.parse(ref)  # what cannot be meant is refused here
    answer = _ask(url, f"/admin/v1/models/{quote(ref)}/explain?window_s={window_s}", window_s)
    emit(answer, json_to=json_to, text=as_text(answer))


def as_text(answer: Json) -> str:
    """Write an answer for a person."""
    each = f"{answer['batch_rows']:.1f} rows each (of at most {answer['cap']['effective']})"
    head = f"{answer['model']} over {answer['window_s']:.3g} s"
    lines = [f"{head}: {answer['rows']} rows in {answer['batches']} batches, {each}"]
    for finding in answer["findings"]:
        lines += ["", finding["said"], f"  to change it: {finding['change']}"]
    return "\n".join(lines)


def _ask(url: str, path: str, window_s: float) -> Json:
    from tidegate.errors import PartUnavailableError

    address = _checked(url)
    try:
        request = Request(address + path, headers=dict(authorization()))
        with _direct().open(request, timeout=window_s + _PATIENCE_S) as reply:
            answer: Json = json.load(reply)
    except HTTPError as error:
        with error:
            raise _refusal(error, address) from None
    except (URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise PartUnavailableError(f"no gateway answers at {address}: {reason}") from None
    return answer


def _direct() -> OpenerDirector:
    """Open without a proxy: the listener is on loopback, or behind a tunnel that ends there."""
    return build_opener(ProxyHandler({}))


def _checked(url: str) -> str:
    from tidegate.errors import SettingError

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise SettingError(
            f"{url!r} is no address of a gateway; write it as http://127.0.0.1:8002, the "
            "listener for operators"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _refusal(error: HTTPError, address: str) -> Exception:
    """Turn a reply that is no answer into an error of ours."""
    from tidegate.errors import ModelNotFoundError, PartUnavailableError

    try:
        told = json.load(error)
        code, message = str(told["code"]), str(told["error"])
    except (ValueError, KeyError, TypeError):
        code, message = "", f"it answers {error.code}"
    if code in {"unauthenticated", "forbidden"}:
        return PartUnavailableError(
            f"{address} asks for a key of scope admin ({message}); set TIDEGATE_KEY to one"
        )
    if code in {"model_not_found", "version_not_served"}:
        return ModelNotFoundError(message)
    return PartUnavailableError(
        f"{address} is no listener for operators ({message}); it is the one of --admin-port, 8002 "
        "by default"
    )
