"""What the pipeline needs from the world; only ``tidegate_batch.main`` picks who provides it.

Rows travel between source, scorer and sink as Arrow record batches, whatever the files are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec

from tidegate.objects.port import ObjectStore
from tidegate_batch.core.chunks import QueueStatistics, WorkerId
from tidegate_batch.core.formats import InputFormat, OutputFormat
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.core.records import PlannedInput

if TYPE_CHECKING:  # a heavy import that the driver's own code can do without
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Stores: TypeAlias = Callable[[str], ObjectStore]
"""Opens the object store at a URL; opening one that does not exist yet is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInput:
    """A file that an option of the job names."""

    source: str
    """Path or URL, for people."""
    store: str
    key: str
    etag: str
    size_bytes: int
    format: InputFormat = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """What a file says about itself before its rows are read."""

    schema: "pa.Schema"
    """Its columns; of a text file, the types that they are to be read as."""
    row_groups: tuple[RowGroup, ...] | None = None
    """``None`` where more of the file must be read to know, by ``index``."""
    nulls: dict[str, int] = field(default_factory=dict)
    """Missing values by column, for columns where the file counts them and has some."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Columns of a text file that cannot be read as their type, and what they hold instead."""


MOST_LINE_CHARS: Final = 65_536
"""Of a line's text that is kept: enough to mend it, and a file without line ends is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where a row stands in a file of lines."""

    number: int
    """Of its first line, counted from 1 within the file, a header included."""
    text: str
    """As it stands there, without its end; at most ``MOST_LINE_CHARS``, the rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot be read: a malformed line, or a value of the wrong type in one."""

    row: int
    """Counted from 0 within the file, good rows and bad ones alike."""
    line: Line
    code: str
    """Stable, for programs; it stands in ``docs/errors.md``."""
    message: str
    """What is wrong and what was expected, without the file's name, which others know."""
    values: "pa.RecordBatch | None" = None
    """One row of those columns that can be read all the same; ``None`` if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Some rows of a file, in order; each is either good or bad."""

    batch: "pa.RecordBatch"
    """The good rows; maybe none of them."""
    row_index: "npt.NDArray[np.int64]"
    """``(rows of batch,)``: where each stands in the file, counted from 0, increasing; without a
    hole unless bad rows are between them."""
    bad: tuple[BadRow, ...] = ()
    """In order; a format in which every row can be read has none."""
    line: Callable[[int], Line] | None = None
    """Returns the line of the row at a place of ``batch``; ``None`` for files without lines. Asked
    only for rows that fail later, so it may be slow."""


class RowSource(Protocol):
    """Finds files, says what is in them, reads ranges of their rows."""

    def find(self, pattern: str, *, kind: InputFormat | None = None) -> list[FoundInput]:
        """Return the files that a path, folder, glob or prefix names, sorted; maybe none.

        Args:
            pattern: As a person wrote it.
            kind: The format of all of them; ``None`` for what each file's ending says.

        Raises:
            JobError: A file's ending says nothing, or a folder holds files of several formats.
            StoreUnavailableError: The store could not be asked.
        """
        ...

    def describe(self, found: FoundInput, *, wanted: "pa.Schema") -> InputShape:
        """Read a file's own description of its columns; of a text file, look at its first rows.

        Args:
            found: The file.
            wanted: The types of columns, in files that do not say them. A column that is not
                nullable must have a value in every row.

        Raises:
            JobError: It is no file of this kind, or changed since it was found.
            StoreUnavailableError: The store could not be asked.
        """
        ...

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        """Say how many rows a file has, and where reading can begin; reads a text file once.

        Raises:
            JobError: It is no file of this kind, or changed since it was found.
            StoreUnavailableError: The store could not be asked.
        """
        ...

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: "pa.Schema",
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        """Yield a range of rows, in order and complete, at most ``batch_rows`` at a time.

        Good rows and bad ones together are ``rows``, and none is both. Of ``columns``, files that
        say the types of their columns themselves use the names alone.

        Raises:
            ObjectChangedError: The file is not, or no longer, the one that was planned.
            JobError: It cannot be read.
            StoreUnavailableError: The store could not be asked.
        """
        ...

    def close(self) -> None:
        """Close what reading has left open; safe to repeat, and one may read on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """A file in memory, ready to be stored."""

    body: bytes
    rows: int


class RowSink(Protocol):
    """Turns rows into a file of the output's format."""

    def encode(
        self, schema: "pa.Schema", batches: Iterable["pa.RecordBatch"], *, kind: OutputFormat
    ) -> EncodedRows:
        """Write rows as one file; the schema's metadata becomes the file's, if it can have any."""
        ...


class Assignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chunk for a worker to score, commit and report."""

    chunk: str
    attempt: str
    is_isolated: bool = False
    """Its rows may kill whoever scores them: do that in a process of its own, row by row."""


class Committed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """The chunk's commit stands; this worker's, or that of another who was first."""

    chunk: str
    reasons: dict[str, int] = {}
    """How many of its rows are dead letters, by the code of the error."""

    @property
    def id(self) -> ChunkId:
        """The chunk's name, typed."""
        return ChunkId(self.chunk)


class Failed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """The chunk was not committed, and the worker is sound."""

    chunk: str
    code: str
    message: str
    """Names file and rows."""
    is_retriable: bool
    """A part such as the store was not there; the rows may be fine."""

    @property
    def id(self) -> ChunkId:
        """The chunk's name, typed."""
        return ChunkId(self.chunk)


ChunkResult: TypeAlias = Committed | Failed


class Ready(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """The model is loaded."""

    pid: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """This worker cannot do this job, and no other could: a wrong digest, say."""

    code: str
    message: str


class Leaving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """This worker's machine will soon be taken away: it takes no chunk any more.

    It may still finish the one it has. Its end follows, and is nobody's fault.
    """

    reason: str


WorkerMessage: TypeAlias = Ready | Refused | Committed | Failed | Leaving
"""What a worker says, as JSON, whatever carries it."""


class ChunkScorer(Protocol):
    """What a worker process does, behind whichever engine runs it."""

    def score(self, assignment: Assignment) -> ChunkResult:
        """Read, score, write and commit one chunk; whatever goes wrong is in the result.

        Raises:
            DeviceLostError: The process can score nothing any more: it must end, and its engine
                says ``WorkerLost``.
        """
        ...

    def close(self) -> None:
        """Let go of what one chunk left open for the next."""
        ...


BuildScorer: TypeAlias = "Callable[[WorkerSetup], ChunkScorer]"
"""Makes a worker of a fresh process: fetches and loads the model, reads the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """This machine will be taken away."""

    left_ns: int
    """Until then; 0 or more."""
    reason: str
    """For people: who said so."""


class PreemptionNotice(Protocol):
    """One place where it is said that this machine will be taken away."""

    def look(self) -> Preemption | None:
        """Return what is said now, within a second; whatever goes wrong is no notice."""
        ...


class NoticeSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a worker hears of the end of its machine, besides SIGTERM."""

    file: str | None = None
    cloud: Literal["aws", "gcp"] | None = None
    address: str = "http://169.254.169.254"
    """Of the cloud's metadata service."""


class WorkerSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a worker process is told; the rest it reads from the store."""

    store: str
    job: str
    epoch: int
    threads: int
    """Cores that the model may use in this worker."""
    cache_dir: str
    notice: NoticeSetup = NoticeSetup()
    fault_share: float = 0.0
    """Of the calls to a store, those that fail on purpose; see ``batch.rehearse_faults``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSaid:
    """A worker is ready, or done with its chunk, and waits; or it cannot work at all."""

    worker: WorkerId
    message: WorkerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """A worker's process is gone, whatever it was doing."""

    worker: WorkerId
    reason: str


WorkerEvent: TypeAlias = WorkerSaid | WorkerLost


class Engine(Protocol):
    """Runs worker processes; which chunk goes to which is not its business."""

    @property
    def name(self) -> str:
        """``ray`` or ``local``."""
        ...

    def start(self, setup: WorkerSetup) -> None:
        """Make ready to start workers.

        Raises:
            PartUnavailableError: The engine itself cannot start.
        """
        ...

    def add_worker(self, worker: WorkerId) -> None:
        """Begin to start a worker under this name; ``WorkerSaid`` or ``WorkerLost`` follows."""
        ...

    def assign(self, worker: WorkerId, assignment: Assignment) -> None:
        """Hand a chunk to a worker that waits; ``WorkerSaid`` or ``WorkerLost`` follows."""
        ...

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        """Return what happened first; ``None`` after ``timeout_ns`` without anything."""
        ...

    def close(self) -> None:
        """End every worker, whatever it does; safe to repeat, and after a failed start."""
        ...


class Display(Protocol):
    """Shows a person how a job goes."""

    def stage(self, text: str) -> None:
        """Say what begins now."""
        ...

    def progress(
        self,
        statistics: QueueStatistics,
        *,
        workers: int | None,
        outlook: Outlook | None = None,
        rows_dlq: int = 0,
    ) -> None:
        """Show committed and planned rows, and how many workers are ready, if that is known.

        Args:
            statistics: The totals.
            workers: ``None``: not known.
            outlook: Speed and end; without it, what the display has seen itself must do.
            rows_dlq: Bad rows so far.
        """
        ...
