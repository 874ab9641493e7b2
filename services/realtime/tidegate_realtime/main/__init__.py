"""``tidegate serve``: the command here, what it starts in ``tidegate_realtime.main.gateway``.

Imported for every ``tidegate --help``, so that whatever is heavy is imported when it runs.
"""

from collections.abc import Mapping
from pathlib import Path

import click

from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import examples


@click.command(
    epilog=examples(
        "tidegate serve --model risk@stable --slo-ms 50",
        "tidegate serve --store s3://models/prod --host 0.0.0.0 --keys-file keys.json",
        "tidegate serve --model risk --backend emulated:v100-resnet50",
    )
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME[@ALIAS|@VERSION]",
    help="A model to serve; may be given several times.  [default: each with an alias 'stable']",
)
@click.option(
    "--slo-ms",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MS",
    help="Latency objective of every served model, in ms at p99.  [default: 100]",
)
@click.option(
    "--backend",
    metavar="BACKEND",
    help="onnxruntime, or emulated:PROFILE to replay a latency profile with placeholder answers.  "
    "[default: onnxruntime]",
)
@click.option("--host", metavar="ADDRESS", help="Where callers connect.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port for callers.  [default: 8000]")
@click.option("--grpc-port", type=int, help="Port for gRPC; 0: none.  [default: 8001]")
@click.option(
    "--admin-port", type=int, help="Port for operators, on loopback only.  [default: 8002]"
)
@click.option(
    "--server",
    type=click.Choice(["granian", "uvicorn"]),
    help="What carries the public listener.  [default: granian]",
)
@click.option(
    "--anonymous-predict",
    is_flag=True,
    default=None,
    help="Let anybody who reaches the host predict, without a key.",
)
@click.option(
    "--trace-stages",
    is_flag=True,
    default=None,
    help="Time each stage of each request, for /metrics and the last line of the log.",
)
@click.option(
    "--keys-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keys that callers and operators must show (tidegate keys).  [default: none is asked for]",
)
@store_option
@config_option
def serve(
    models: tuple[str, ...],
    slo_ms: float | None,
    store: str | None,
    keys_file: Path | None,
    config: Path | None,
    **flags: object,
) -> int:
    """Serve models over HTTP and gRPC until SIGTERM or Ctrl-C.

    Callers use OIP v2 (POST /v2/models/NAME/infer, or inference.GRPCInferenceService) or plain rows
    (POST /v1/models/NAME:predict).
    Ready means that every model is loaded, verified and warm. The start ends with the addresses
    and an example request.
    """
    from tidegate_realtime.main.starting import start  # numpy and onnxruntime

    typed: Mapping[str, object] = {
        "store": store,
        "keys_file": keys_file,
        "serve.models": models or None,
        **{f"serve.{name}": value for name, value in flags.items()},
    }
    return start(config=config, flags=typed, slo_ms=slo_ms)
