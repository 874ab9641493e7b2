"""The formats that a job leaves in the store: ``spec``, ``state``, ``owner``, ``plan``, ``commit``.

Each carries ``schema``; every released schema keeps a fixture that must load for ever. They are
documented in ``docs/batch-formats.md``. What readers of the output see is ``manifest``.
"""

from typing import Literal, TypeVar

import msgspec

from tidegate.artifacts.aliases import KEPT_WRITE_IDS
from tidegate.ids import ModelTag
from tidegate_batch.core.bad_rows import DEFAULT_MAX_BAD_ROWS
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.fingerprint import Fingerprint
from tidegate_batch.core.formats import ColumnType, InputFormat, OutputFormat
from tidegate_batch.core.planning import Mark, PlannedChunk
from tidegate_batch.core.states import ENDED, Event, State, advance
from tidegate_batch.core.wishes import Wishes

KEPT_MOVES = 64
"""How many changes of state a job remembers; a job that is resumed every night has about four."""


class PinnedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The version that scores every row of a job, whatever its alias does meanwhile."""

    name: str
    version: int
    digest: str

    @classmethod
    def of(cls, tag: ModelTag) -> "PinnedModel":
        """Write down a version's tag."""
        return cls(name=tag.name, version=tag.version, digest=tag.digest)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person asked for; two submissions with one client token must agree in it."""

    model: str
    """As written, such as ``risk@stable``."""
    inputs: tuple[str, ...]
    """Files, folders, globs and prefixes; local ones as absolute paths."""
    output: str
    """The folder or prefix that the job will own."""
    key: tuple[str, ...] = ()
    """Columns that name a row; they are copied to the output."""
    keep: tuple[str, ...] | None = None
    """Further columns to copy; ``None`` for all that the model does not read."""
    chunk_rows: int
    """Most rows of one chunk."""
    max_bad_rows: str = DEFAULT_MAX_BAD_ROWS
    """How many rows may fail before the job does: ``100``, or ``1%`` of those seen."""
    input_format: InputFormat | None = None
    """Of every input; ``None`` for what each file's ending says."""
    output_format: OutputFormat = "parquet"
    unique_key: bool = False
    """Whether no two rows may have the same key."""
    column_types: dict[str, ColumnType] = {}
    """What copied columns of text files are read as, where a person says so."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``spec.json``: written once, first; it makes the job exist."""

    schema: Literal[1] = 1
    job: str
    client_token: str | None
    created_at: str
    """ISO 8601, UTC; so are all times of a job."""
    request: JobRequest
    model: PinnedModel
    wishes: Wishes = Wishes()
    tenant: str | None = None
    """Whose key asked for it over HTTP; ``None`` if none was asked for, or by a command."""


class Driver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that moves a job on."""

    host: str
    pid: int
    process: str
    """Tells this process from any other that ever ran with the same pid on a host of this name."""


class JobFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a job stopped."""

    code: str
    message: str


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of state."""

    to: State
    at: str
    epoch: int


class JobState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``state.json``: under compare-and-swap; a driver renews its lease by writing it again."""

    schema: Literal[1] = 1
    state: State
    epoch: int
    """Grows with each driver; a driver that finds a larger one than its own stops."""
    driver: Driver | None
    """``None`` when nobody drives the job, so that anyone may begin at once."""
    failure: JobFailure | None = None
    rows_dlq: int | None = None
    """Rows of a published job that have no answer; ``None`` before that."""
    moves: tuple[Move, ...] = ()
    """Oldest first; the last 64."""
    revision: int
    write_ids: tuple[str, ...]

    def moved(
        self,
        event: Event,
        at: str,
        *,
        failure: JobFailure | None = None,
        rows_dlq: int | None = None,
    ) -> "JobState":
        """Return the state after an event; nobody drives a job that has ended.

        Raises:
            IllegalTransitionError: The event means nothing in this state.
        """
        after = advance(self.state, event)
        return msgspec.structs.replace(
            self,
            state=after,
            driver=None if after in ENDED else self.driver,
            failure=failure,
            rows_dlq=rows_dlq,
            moves=(*self.moves, Move(to=after, at=at, epoch=self.epoch))[-KEPT_MOVES:],
        )

    def driven_by(self, driver: Driver | None) -> "JobState":
        """Return the state under another driver, in the next epoch; without one, in the same."""
        epoch = self.epoch + 1 if driver else self.epoch
        return msgspec.structs.replace(self, driver=driver, epoch=epoch)


class Owner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``owner.json``: which job an output prefix belongs to. Never deleted, only handed on."""

    schema: Literal[1] = 1
    job: str | None
    """``None`` when the prefix was claimed and let go without a row written."""
    store: str
    """Where that job's record lies."""
    superseded: tuple[str, ...] = ()
    """Jobs that owned it before; whatever they left behind may be removed."""
    revision: int
    write_ids: tuple[str, ...]


class PlannedInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input file as it was when the job was planned."""

    source: str
    """Path or URL, as in the output's column ``_source``."""
    store: str
    key: str
    """Where to open it: a key in an object store."""
    etag: str
    bytes: int
    rows: int
    format: InputFormat = "parquet"
    marks: tuple[Mark, ...] = ()
    """Where in a text file reading may begin, besides its start; in order."""


class OutputColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of the output, for people and other programs."""

    name: str
    type: str
    """As Arrow writes it, such as ``list<element: float>``."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``plan.json``: which rows make which chunk; written once, after validation."""

    schema: Literal[1] = 1
    job: str
    created_at: str
    inputs: tuple[PlannedInput, ...]
    chunks: tuple[PlannedChunk, ...]
    rows: int
    columns: tuple[OutputColumn, ...]
    arrow_schema: str
    """The output's Arrow schema as an IPC message in base64: fixed before the first row."""
    fingerprint: Fingerprint


class CommittedRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that holds a chunk's rows."""

    key: str
    """Under the output; of dead letters, in the store."""
    etag: str
    bytes: int
    rows: int
    sha256: str


class DeadLetters(CommittedRows, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that holds those of a chunk's rows that have no answer."""

    reasons: dict[str, int] = {}
    """How many rows, by the code of the error."""


class Timings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a chunk's time went, in milliseconds; reading and encoding may overlap scoring."""

    read_ms: float
    score_ms: float
    encode_ms: float
    store_ms: float
    total_ms: float


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``commits/<chunk>.json``: the commit point of a chunk. Whoever writes it first has won."""

    schema: Literal[1] = 1
    job: str
    chunk: str
    attempt: str
    epoch: int
    data: CommittedRows
    dead_letters: DeadLetters | None = None
    """``None`` if every row has an answer."""
    rows_in: int
    rows_out: int
    rows_dlq: int
    model: PinnedModel
    worker: str
    committed_at: str
    timings: Timings

    def __post_init__(self) -> None:
        """Refuse rows that went nowhere."""
        kept = self.dead_letters.rows if self.dead_letters else 0
        counts = (self.rows_out + self.rows_dlq, self.data.rows, kept)
        if counts != (self.rows_in, self.rows_out, self.rows_dlq):
            raise ValueError(
                f"{self.rows_in} rows in are not {self.rows_out} rows out ({self.data.rows} in the "
                f"file) and {self.rows_dlq} dead letters ({kept} in the file)"
            )


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published file."""

    key: str
    """Relative to the manifest's folder; of dead letters, in the job's store."""
    chunk: str
    rows: int
    bytes: int
    sha256: str


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file that was read."""

    source: str
    etag: str
    bytes: int
    rows: int


class JobManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``_MANIFEST.json``: the commit point of a job; what it does not name is not output."""

    schema: Literal[1] = 1
    job: str
    store: str
    """Where the job's record lies."""
    created_at: str
    tidegate_version: str
    model: PinnedModel
    request: JobRequest
    rows_in: int
    rows_out: int
    rows_dlq: int
    parts: tuple[Part, ...]
    dead_letters: tuple[Part, ...] = ()
    dead_letter_reasons: dict[str, int] = {}
    """How many rows have no answer, by the code of the error."""
    columns: tuple[OutputColumn, ...]
    inputs: tuple[SourceFile, ...]
    fingerprint: str
    format: OutputFormat = "parquet"
    """Of every part."""


Swapped = TypeVar("Swapped", JobState, Owner)
"""Formats under compare-and-swap."""
_Record = TypeVar("_Record", bound=msgspec.Struct)


def signed(record: Swapped, write_id: str) -> Swapped:
    """Return the next revision of an object under compare-and-swap, under its writer's id.

    An etag is a hash of the content, so that 7 → 8 → 7 looks unchanged to it; ``revision`` only
    grows and makes every state of the object a new one.
    """
    return msgspec.structs.replace(
        record,
        revision=record.revision + 1,
        write_ids=(write_id, *record.write_ids)[:KEPT_WRITE_IDS],
    )


def dump(record: msgspec.Struct) -> bytes:
    """Write a record's bytes; what ``load`` makes of them is equal to the record."""
    encoded = msgspec.json.encode(record, order="sorted")
    return msgspec.json.format(encoded, indent=1) + b"\n"


def load(kind: type[_Record], content: bytes, *, where: str) -> _Record:
    """Read a record of any released schema.

    Args:
        kind: The format.
        content: The object's bytes.
        where: Its key and store, for the error.

    Raises:
        JobRecordError: It is not what Tidegate writes.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise JobRecordError(
            f"{where} cannot be read: {error}. If a newer Tidegate wrote it, upgrade this one."
        ) from error
