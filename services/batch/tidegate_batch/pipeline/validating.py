"""Looking at every input before anything is spent, and saying all that is wrong with it at once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidegate.artifacts.manifest import Manifest
from tidegate.errors import JobError
from tidegate.objects.port import LinkLeadsOutError
from tidegate_batch.core.errors import InputInvalidError, Problem
from tidegate_batch.core.formats import NAMES, TEXT_FORMATS, ColumnType
from tidegate_batch.core.patterns import matches
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.core.records import JobRequest
from tidegate_batch.core.wording import counted, listed
from tidegate_batch.pipeline.expecting import (
    ExpectedColumn,
    copied_types,
    expected_columns,
    text_schema,
)
from tidegate_batch.pipeline.output import DEAD_LETTER_FACTS, output_schema, prediction_types
from tidegate_batch.ports import FoundInput, InputShape, RowSource

_WILD: Final = frozenset("*?[")
_CONCURRENT_FOOTERS: Final = 16
"""10,000 footers one by one would take minutes where a reply takes 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedInputs:
    """Inputs that the model can read, as far as can be told without reading rows."""

    files: tuple[tuple[FoundInput, InputShape], ...]
    schema: pa.Schema
    """Of the output."""


def check_inputs(request: JobRequest, manifest: Manifest, source: RowSource) -> CheckedInputs:
    """Find all inputs, read what they say of themselves, and hold it against the model.

    Raises:
        InputInvalidError: With every problem of every file.
        StoreUnavailableError: A store could not be asked.
    """
    found, problems = _find(request, source)
    wanted = pa.unify_schemas([text_schema(manifest), copied_types(_copied(request, manifest))])
    files, unreadable = _describe(found[:1], source, wanted=wanted)
    wanted = _with_kept(wanted, request, manifest, files)
    others, others_unreadable = _describe(found[1:], source, wanted=wanted)
    files += others
    problems += unreadable + others_unreadable
    if not files:
        raise InputInvalidError.of_problems(problems)
    reference = files[0]
    kept = kept_columns(request, manifest, reference[1].schema)
    problems += _collisions(kept, manifest, reference[0].source)
    problems += _ineffective(request, manifest, kept, files)
    expected = expected_columns(manifest)
    for file, shape in files:
        problems += _problems_of(file, shape, manifest=manifest)
        copied = [name for name in kept if name not in expected]  # the others are told already
        problems += _differences(file, shape, reference=reference, kept=copied, request=request)
    if problems:
        raise InputInvalidError.of_problems(problems)
    schema = output_schema(manifest, reference[1].schema, kept=kept)
    return CheckedInputs(files=tuple(files), schema=schema)


def kept_columns(request: JobRequest, manifest: Manifest, schema: pa.Schema) -> tuple[str, ...]:
    """Return the key columns, then those to keep: by default all that the model does not read."""
    keep: Iterable[str] = request.keep or ()
    if request.keep is None:
        read = expected_columns(manifest)
        keep = [name for name in schema.names if name not in read]
    return tuple(dict.fromkeys([*request.key, *keep]))


def index_inputs(
    files: Sequence[tuple[FoundInput, InputShape]], source: RowSource
) -> list[tuple[RowGroup, ...]]:
    """Count the rows of every file; text files are read once for that, in full.

    Raises:
        InputInvalidError: With every file that cannot be read to its end.
        StoreUnavailableError: A store could not be asked.
    """

    def index(file: tuple[FoundInput, InputShape]) -> tuple[RowGroup, ...] | Problem:
        found, shape = file
        try:
            return source.index(found) if shape.row_groups is None else shape.row_groups
        except JobError as error:
            return _unreadable(found, error)

    with ThreadPoolExecutor(_CONCURRENT_FOOTERS) as threads:
        indexed = list(threads.map(index, files))
    if problems := [problem for problem in indexed if isinstance(problem, Problem)]:
        raise InputInvalidError.of_problems(problems)
    return [groups for groups in indexed if not isinstance(groups, Problem)]


def _copied(request: JobRequest, manifest: Manifest) -> dict[str, ColumnType]:
    read = expected_columns(manifest)
    return {name: kind for name, kind in request.column_types.items() if name not in read}


def _ineffective(
    request: JobRequest,
    manifest: Manifest,
    kept: Sequence[str],
    files: Sequence[tuple[FoundInput, InputShape]],
) -> Iterator[Problem]:
    """Name the types that a person gave to columns that do not need any."""
    copied = _copied(request, manifest)
    has_text = any(found.format in TEXT_FORMATS for found, _ in files)
    for name in request.column_types:
        if name not in copied or name not in kept:
            found = "one that the model reads" if name not in copied else "one that is not"
            yield _problem("--column-type", "a column that is copied", found, column=name)
        elif not has_text:
            found = "none: other files say their types themselves"
            yield _problem("--column-type", "an input of JSON Lines or CSV", found, column=name)


def _with_kept(
    schema: pa.Schema,
    request: JobRequest,
    manifest: Manifest,
    files: Sequence[tuple[FoundInput, InputShape]],
) -> pa.Schema:
    """Return the types of columns in files that do not say them: the copied ones as in the first.

    A copied column may miss values.
    """
    for _, shape in files:
        kept = kept_columns(request, manifest, shape.schema)
        known = set(shape.schema.names) - set(schema.names)
        for name in kept:
            if name in known and shape.schema.names.count(name) == 1:
                schema = schema.append(pa.field(name, shape.schema.field(name).type))
    return schema


def _find(request: JobRequest, source: RowSource) -> tuple[list[FoundInput], list[Problem]]:
    found: dict[str, FoundInput] = {}
    problems = []
    for pattern in request.inputs:
        try:
            files = source.find(pattern, kind=request.input_format)
        except JobError as error:
            problems.append(_problem(pattern, "files of one format", str(error)))
            continue
        except LinkLeadsOutError as error:
            problems.append(_problem(pattern, "links to places below it", str(error)))
            continue
        found |= {file.source: file for file in files}
        if not files:
            kind = f"{NAMES[request.input_format]} file" if request.input_format else "file of rows"
            none = (
                "none that matches" if _WILD & set(pattern) else "no such file, and none below it"
            )
            problems.append(_problem(pattern, f"at least one {kind}", none))
    problems += [
        _problem(name, "inputs outside of the output", f"the output is {request.output}")
        for name in found
        if name.startswith(request.output + "/")
    ]
    problems += [
        _problem(pattern, "inputs without the output in them", f"{request.output} in them")
        for pattern in request.inputs
        if _reads_output(pattern, request)
    ]
    return sorted(found.values(), key=lambda file: file.source), problems


def _reads_output(pattern: str, request: JobRequest) -> bool:
    """Say whether the next job with this input would take this one's answers for rows to score."""
    if request.input_format not in {None, request.output_format}:
        return False
    part = f"{request.output}/part.{request.output_format}"
    if pattern.endswith("/"):
        below = part.removeprefix(pattern)
        return below != part and matches(below.split("/"), ["**", "*"])
    return matches(*(list(filter(None, path.split("/"))) for path in (part, pattern)))


def _describe(
    found: Sequence[FoundInput], source: RowSource, *, wanted: pa.Schema
) -> tuple[list[tuple[FoundInput, InputShape]], list[Problem]]:
    def describe(file: FoundInput) -> InputShape | Problem:
        try:
            shape = source.describe(file, wanted=wanted)
        except JobError as error:
            return _unreadable(file, error)
        twice = [name for name, count in Counter(shape.schema.names).items() if count > 1]
        return (
            _problem(file.source, "each column once", f"{listed(twice)} twice") if twice else shape
        )

    with ThreadPoolExecutor(_CONCURRENT_FOOTERS) as threads:
        described = list(zip(found, threads.map(describe, found), strict=True))
    return (
        [(file, shape) for file, shape in described if isinstance(shape, InputShape)],
        [problem for _, problem in described if isinstance(problem, Problem)],
    )


def _unreadable(file: FoundInput, error: JobError) -> Problem:
    told = str(error).removeprefix(f"{file.source} ")  # which the problem names itself
    article = "an" if NAMES[file.format].startswith("A") else "a"
    return _problem(file.source, f"{article} {NAMES[file.format]} file", f"one that {told}")


def _problems_of(file: FoundInput, shape: InputShape, *, manifest: Manifest) -> Iterator[Problem]:
    """Hold the columns that the model reads against what it expects."""
    expected = expected_columns(manifest)
    missing = [name for name in expected if name not in shape.schema.names]
    others = [name for name in shape.schema.names if name not in expected]
    but = f", but {listed(others)}" if others else ""
    if len(missing) == len(expected) and file.format == "csv":
        but += "; the first line must name the columns, with commas between them"
    if len(missing) > 1:
        yield _problem(file.source, f"the columns {listed(missing)}", f"none of them{but}")
    elif missing:
        (name,) = missing
        described = expected[name].description
        yield _problem(file.source, described, f"no such column{but}", column=name)
    for name in expected:
        if name not in missing and (found := _unlike(name, expected[name], shape)):
            yield _problem(file.source, expected[name].description, found, column=name)


def _unlike(name: str, expected: ExpectedColumn, shape: InputShape) -> str | None:
    if name in shape.unreadable:
        return shape.unreadable[name]
    kind = shape.schema.field(name).type
    if not expected.accepts(kind):
        return f"{kind}; write it as {expected.text_type or pa.binary()}"
    missing = shape.nulls.get(name, 0)
    if missing and not expected.may_be_missing:
        return f"{counted(missing, 'missing value')}, and the column has no default"
    return None


def _differences(
    file: FoundInput,
    shape: InputShape,
    *,
    reference: tuple[FoundInput, InputShape],
    kept: Sequence[str],
    request: JobRequest,
) -> Iterator[Problem]:
    """Hold the columns that are copied against those of the first file."""
    first, first_shape = reference
    for name in kept:
        if name not in first_shape.schema.names:
            if file is first:
                option = "--key" if name in request.key else "--keep"
                yield _problem(file.source, f"it, for {option}", "no such column", column=name)
            continue
        if name in shape.unreadable:
            kind = request.column_types.get(name)
            kinds = f"{kind}, as --column-type says" if kind else "values of one simple kind"
            expected = f"{kinds}, or --keep without it"
            yield _problem(file.source, expected, shape.unreadable[name], column=name)
            continue
        wanted = first_shape.schema.field(name).type
        found = shape.schema.field(name).type if name in shape.schema.names else "no such column"
        if found != wanted:
            expected = f"{wanted} as in {first.source}"
            yield _problem(file.source, expected, str(found), column=name)
    for name in shape.schema.names:
        if request.keep is None and name not in first_shape.schema.names:
            expected = f"no such column, as in {first.source}, or --keep without it"
            found = str(shape.schema.field(name).type)
            yield _problem(file.source, expected, found, column=name)


def _collisions(kept: Sequence[str], manifest: Manifest, where: str) -> Iterator[Problem]:
    for name in kept:
        if name in prediction_types(manifest) or name in DEAD_LETTER_FACTS:
            yield _problem(
                where,
                "another name, or --keep without it",
                "a column that the output, or its dead letters, add themselves",
                column=name,
            )


def _problem(where: str, expected: str, found: str, *, column: str | None = None) -> Problem:
    return Problem(where=where, column=column, expected=expected, found=found)
