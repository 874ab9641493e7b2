"""What a person reads once the gateway answers."""

from collections.abc import Sequence

from tidegate import __version__
from tidegate.settings.loading import DEFAULT
from tidegate_realtime.api.examples import example_request
from tidegate_realtime.api.served import ONNXRUNTIME, ServedVersion


def announcement(
    versions: Sequence[ServedVersion],
    *,
    store: str,
    public_url: str,
    grpc_target: str | None,
    admin_url: str,
) -> str:
    """Say what is served, where, what was promised and who said so, and how to try it."""
    lines = [
        f"Tidegate {__version__} serves {len(versions)} model{'s'[: len(versions) > 1]} of {store}",
        "",
        *(f"  {_line(served)}" for served in versions),
        "",
        f"  callers    {public_url}" + (f"  gRPC {grpc_target}" if grpc_target else ""),
        f"  operators  {admin_url}/docs  {admin_url}/metrics",
        "",
        "Try it:",
        f"  {example_request(versions[0], public_url=public_url)}",
        "",
        "Ctrl-C or SIGTERM stops it: what was accepted is still answered.",
    ]
    return "\n".join(lines)


def _line(served: ServedVersion) -> str:
    tag, objective, origin = served.model.tag, served.objective, served.objective_origin
    hint = "; --slo-ms sets another" if origin == DEFAULT else ""
    promise = f"within {objective.slo_ms:g} ms at p{objective.percentile * 100:g}"
    line = f"{tag}  {tag.short_digest}  {promise} ({origin}{hint})"
    if served.backend == ONNXRUNTIME:
        return line
    return f"{line}\n    {served.backend}: answers are placeholders, and only their timing is true"
