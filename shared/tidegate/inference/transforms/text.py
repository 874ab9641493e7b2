"""``text``: a column of text becomes token ids, padded to the bucket of the longest row.

Every padded length is a shape of its own, slow in its first call and with times of its own, so
there are few: a request is padded to the smallest bucket that holds its longest text. Requests of
different buckets never share a batch.

Text is read by the model's own ``tokenizer.json`` (the library ``tokenizers``), whose padding and
truncation are switched off: they are often fixed to the length of the training run.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from tokenizers import Tokenizer

from tidegate.artifacts.transform_specs import TextSpec
from tidegate.errors import ArtifactError
from tidegate.inference.arrays import Array
from tidegate.inference.transforms.column import (
    refuse_too_many,
    refuse_too_much,
    shown,
    values_of,
    wrong_value,
)
from tidegate.inference.transforms.padding import PaddingCount, PaddingStatistics
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature, SignatureMismatchError

CHARACTERS_PER_TOKEN: Final = 32
"""A longer text is too long without being read: no language has words of that length, and to read
a megabyte takes half a second."""
MOST_CHARACTERS_AT_ONCE: Final = 4_194_304
"""Of all texts of one request: 4 Mi, which take some seconds to tokenize."""
TOO_LONG: Final = "too_long"
"""Of a row whose text is longer than the model reads, where rows have reasons of their own."""
_NO_TEXT: Final = "text that is no Unicode: it has half of a surrogate pair"


class TextTooLongError(SignatureMismatchError):
    """A text has more tokens than the model reads, or so many characters that it surely has."""


class _Encoded(Protocol):
    """What is needed of ``tokenizers.Encoding``."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def type_ids(self) -> list[int]: ...
    def __len__(self) -> int: ...


def load_tokenizer(file: Path) -> Tokenizer:
    """Read a ``tokenizer.json``, without the padding and truncation that it asks for.

    Raises:
        ArtifactError: It is none.
    """
    try:
        tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"the tokenizer {file.name} cannot be read: {error}") from error
    except Exception as error:  # the library raises nothing narrower
        raise ArtifactError(
            f"{file.name} is no tokenizer.json of the library tokenizers: {error}"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class TextReader:
    """Reads one column of text; further columns are ignored."""

    reads_numbers = False

    def __init__(self, spec: TextSpec, signature: Signature, tokenizer: Tokenizer) -> None:
        """Take over a tokenizer.

        Args:
            spec: As a manifest has it: nothing is left to be filled in.
            signature: Of the model.
            tokenizer: As ``load_tokenizer`` gave it; from now on only this reader uses it.
        """
        ids = signature.input(spec.ids or "")
        if spec.buckets is None or spec.pad_id is None or ids is None:
            raise ValueError(f"{spec} is not filled in for {signature}")
        self._spec = spec
        self._pad_id = spec.pad_id
        self._ids = ids.name
        self._dtype = np.dtype(DATATYPES[ids.datatype].numpy)
        self._tokenizer = tokenizer
        if spec.too_long == "truncate":
            tokenizer.enable_truncation(spec.max_tokens)
        self._most_characters = spec.max_tokens * CHARACTERS_PER_TOKEN
        self._padding = PaddingCount()
        self.columns = (spec.column,)
        self.buckets = spec.buckets

    @property
    def padding(self) -> PaddingStatistics:
        """How much of what was read so far was padding."""
        return self._padding.statistics()

    def from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Read objects with the column, or bare texts; together no more than a request may be."""
        column = self._spec.column
        texts = self._checked(values_of(instances, column))
        characters = sum(map(len, texts))
        refuse_too_much(column, characters, most=MOST_CHARACTERS_AT_ONCE, of="characters")
        return self._tensors(texts)

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read an array ``(rows,)`` of text."""
        return self._tensors(self._checked(columns[self._spec.column].tolist()))

    def tokens_of(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, special ones included."""
        return [len(encoded) for encoded in self._encode(list(texts))]

    def _tensors(self, texts: list[str]) -> dict[str, Array]:
        encoded = self._encode(texts)
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        longest = int(lengths.max())
        if longest > self._spec.max_tokens:
            raise self._too_long(int(lengths.argmax()), f"{longest} tokens")
        bucket = self.buckets[bisect_left(self.buckets, longest)]
        refuse_too_many(self._spec.column, len(encoded), row_elements=bucket)
        self._padding.add(tokens=int(lengths.sum()), positions=bucket * len(encoded))
        return self._filled(encoded, np.arange(bucket) < lengths[:, None])

    def _filled(self, encoded: Sequence[_Encoded], real: Array) -> dict[str, Array]:
        """Lay tokens out where ``real``, ``(rows, bucket)``, is true, and padding elsewhere."""
        tensors = {self._ids: np.full(real.shape, self._pad_id, dtype=self._dtype)}
        flat = chain.from_iterable(row.ids for row in encoded)
        tensors[self._ids][real] = np.fromiter(flat, dtype=self._dtype)
        if self._spec.mask:
            tensors[self._spec.mask] = real.astype(self._dtype)
        if self._spec.types:
            tensors[self._spec.types] = types = np.zeros(real.shape, dtype=self._dtype)
            flat = chain.from_iterable(row.type_ids for row in encoded)
            types[real] = np.fromiter(flat, dtype=self._dtype)
        return tensors

    def _encode(self, texts: list[str]) -> Sequence[_Encoded]:
        try:
            return self._tokenizer.encode_batch_fast(
                texts, add_special_tokens=self._spec.special_tokens
            )
        except TypeError as error:  # what is no UTF-8 the library cannot read
            row = next(row for row, text in enumerate(texts) if not _is_unicode(text))
            raise wrong_value(self._spec.column, row, expected="text", found=_NO_TEXT) from error

    def _checked(self, values: list[object]) -> list[str]:
        """Return every value as a text of bearable length."""
        if set(map(type, values)) != {str}:
            values = [self._text(value, row) for row, value in enumerate(values)]
        texts: list[str] = values  # type: ignore[assignment] # each is one by now
        longest = max(map(len, texts))
        if longest <= self._most_characters:
            return texts
        if self._spec.too_long == "truncate":
            return [text[: self._most_characters] for text in texts]
        row = next(row for row, text in enumerate(texts) if len(text) == longest)
        raise self._too_long(row, f"{longest} characters")

    def _text(self, value: object, row: int) -> str:
        if isinstance(value, str):
            return str(value)  # numpy has a string type of its own
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        raise wrong_value(self._spec.column, row, expected="text", found=shown(value))

    def _too_long(self, row: int, found: str) -> SignatureMismatchError:
        expected = (
            f"a text of at most {self._spec.max_tokens} tokens (and {self._most_characters} "
            f"characters) in row {row}"
        )
        return TextTooLongError.of_input(
            self._spec.column, expected=expected, found=f"{found}; shorten it"
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
