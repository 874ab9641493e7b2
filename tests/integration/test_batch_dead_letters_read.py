"""Dead letters are read without a thread that could outlive the interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_READ = """
import hashlib, os, sys
import pyarrow as pa
import pyarrow.parquet as pq
from tidegate.objects.opening import open_store
from tidegate_batch.core.records import DeadLetters
from tidegate_batch.pipeline.reading_dead_letters import read_dead_letters

stream = pa.BufferOutputStream()
pq.write_table(pa.table({f"c{place}": ["x" * 50] * 50 for place in range(30)}), stream)
body = stream.getvalue().to_pybytes()
store = open_store(sys.argv[1])
store.put_if_absent("dead.parquet", body)
sha256 = hashlib.sha256(body).hexdigest()
file = DeadLetters(key="dead.parquet", etag="", bytes=len(body), rows=50, sha256=sha256, reasons={})
before = len(os.listdir("/proc/self/task"))
assert read_dead_letters(store, file).num_rows == 50
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_reading_starts_no_thread_that_could_abort_the_process_at_its_end(tmp_path: Path) -> None:
    read = subprocess.run(
        [sys.executable, "-c", _READ, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (read.returncode, read.stdout.strip()) == (0, "0"), read.stderr
