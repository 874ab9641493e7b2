"""Ray Data: ``read_parquet``, ``map_batches`` over one actor a core, ``write_parquet``.

Prints how long it worked once the first actor had its model and its first rows.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import ray
from batch_common import answered, open_session

ACTOR_CPUS = 0.4
"""On two cores, actors that ask for whole ones leave none for the readers that they wait for."""


class Scorer:
    """One actor: a session with one thread."""

    def __init__(self, model, marks):
        self.session = open_session(model)
        self.mark = Path(marks) / str(os.getpid())

    def __call__(self, batch):
        if not self.mark.exists():
            self.mark.write_text(str(time.monotonic()))
        return answered(self.session, batch)


def run(given, marks):
    """Score the folder."""
    rows = ray.data.read_parquet(str(given.input))
    rows.map_batches(
        Scorer,
        fn_constructor_args=(str(given.model), marks),
        compute=ray.data.ActorPoolStrategy(size=given.processes),
        num_cpus=ACTOR_CPUS,
        batch_size=given.batch_rows,
        batch_format="pyarrow",
    ).write_parquet(str(given.output), compression="zstd")


def main():
    """Start Ray on this machine, score, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--input", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="ray-") as folder,
        tempfile.TemporaryDirectory() as marks,
    ):
        ray.init(
            address="local",
            num_cpus=given.processes,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        run(given, marks)
        ended_at = time.monotonic()
        began_at = min(float(mark.read_text()) for mark in Path(marks).iterdir())
        ray.shutdown()
    print(json.dumps({"working_s": ended_at - began_at}))


if __name__ == "__main__":
    main()
