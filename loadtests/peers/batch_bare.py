"""Nothing but onnxruntime and pyarrow: processes that read, score and write row group by row group.

Prints how long they worked once every model was loaded. With ``--batch-rows 1`` it is the loop that
people write first.
"""

import argparse
import json
import multiprocessing
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from batch_common import answered, open_session


def row_groups(folder):
    """List ``(file, row group)`` of every input, in order."""
    files = sorted(folder.glob("*.parquet"))
    return [(file, place) for file in files for place in range(pq.ParquetFile(file).num_row_groups)]


def score(session, given, file, group):
    """Score a row group, and write its answers as a file of their own."""
    batches = pq.ParquetFile(file).iter_batches(
        batch_size=given.batch_rows, row_groups=[group], use_threads=False
    )
    if given.batch_rows == 1:  # it is the calls that shall be single, and not the reading
        batches = (
            batch.slice(place, 1)
            for batch in pq.ParquetFile(file).iter_batches(row_groups=[group], use_threads=False)
            for place in range(batch.num_rows)
        )
    table = pa.concat_tables([answered(session, batch) for batch in batches])
    pq.write_table(
        table.combine_chunks(), given.output / f"{file.stem}-{group}.parquet", compression="zstd"
    )


def work(given, taken, start, ended):
    """Take row groups that nobody has taken until there are none; tell when it began and ended."""
    session, groups = open_session(str(given.model)), row_groups(given.input)
    start.wait()
    began_at = time.monotonic()
    while True:
        with taken:
            place = taken.value
            taken.value += 1
        if place >= len(groups):
            break
        score(session, given, *groups[place])
    ended.put((began_at, time.monotonic()))


def main():
    """Run the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--input", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True)
    given = parser.parse_args()
    given.output.mkdir()
    taken, ended = multiprocessing.Value("q"), multiprocessing.Queue()
    start = multiprocessing.Barrier(given.processes)
    processes = [
        multiprocessing.Process(target=work, args=(given, taken, start, ended))
        for _ in range(given.processes)
    ]
    for process in processes:
        process.start()
    times = [ended.get() for _ in processes]
    for process in processes:
        process.join()
    print(json.dumps({"working_s": max(end for _, end in times) - min(b for b, _ in times)}))


if __name__ == "__main__":
    main()
