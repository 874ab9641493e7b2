"""Every call that a client makes: its question, and how its reply is read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from tidegate import __version__
from tidegate.client import answers, questions
from tidegate.client.answers import ModelMetadata, Prediction
from tidegate.client.calling import Call
from tidegate.client.checks import check_ms, key_header
from tidegate.client.errors import BadRequestError
from tidegate.client.questions import Version, Wishes
from tidegate.client.tensors import Array
from tidegate.client.transport import HttpReply, HttpRequest

Columns = Mapping[str, Iterable[Any]]
"""One value per row by the column's name; arrays and the columns of a DataFrame are welcome."""
Instances = Sequence[Any]
"""One row each: an object of named columns, a list in their order, or a bare value."""
Arrays = Mapping[str, Array]
"""The model's tensors by name, ``(rows, …)`` each."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What to predict for, in one of three forms."""

    columns: Columns | None = None
    instances: Instances | None = None
    arrays: Arrays | None = None

    def __post_init__(self) -> None:
        """Refuse two forms, and none."""
        forms = (self.columns, self.instances, self.arrays)
        if sum(form is not None for form in forms) != 1:
            raise BadRequestError("Give the rows once: as columns=…, instances=… or arrays=….")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of one client, with its key and its patience."""

    headers: tuple[tuple[str, str], ...]
    timeout_ms: float

    @classmethod
    def of(cls, key: str | None, timeout_ms: float) -> Self:
        """Check what a client was built with.

        Raises:
            BadRequestError: It cannot be meant.
        """
        check_ms("timeout_ms", timeout_ms)
        agent = ("User-Agent", f"tidegate-client/{__version__}")
        return cls(headers=(agent, *key_header(key)), timeout_ms=timeout_ms)

    def predict(self, model: str, rows: Rows, wishes: Wishes) -> Call[Prediction]:
        """Ask for predictions.

        Raises:
            BadRequestError: The rows, or what is wished, cannot be sent.
        """
        read = answers.read_predictions
        if rows.arrays is not None:
            question = questions.arrays_question(model, rows.arrays, wishes)
            read = answers.read_arrays
        elif rows.columns is not None:
            question = questions.columns_question(model, rows.columns, wishes)
        else:
            assert rows.instances is not None, "one of the three is there"
            question = questions.instances_question(model, rows.instances, wishes)
        call = replace(self._call(question, read), request_id=wishes.request_id)
        if wishes.deadline_ms is None:
            return call
        return replace(call, within_ms=wishes.deadline_ms, told=True)

    def metadata(self, model: str, version: Version | None) -> Call[ModelMetadata]:
        """Ask what a model reads, answers and promises."""
        return self._call(questions.metadata_question(model, version), answers.read_metadata)

    def models(self) -> Call[list[str]]:
        """Ask for the names of what is served."""
        return self._call(questions.MODELS_QUESTION, answers.read_models)

    def ready(self, model: str | None) -> Call[bool]:
        """Ask whether work is taken, at all or by one model."""
        return self._call(questions.readiness_question(model), answers.read_readiness)

    def _call(self, question: HttpRequest, read: Callable[[HttpReply], _T]) -> Call[_T]:
        question = replace(question, headers=(*self.headers, *question.headers))
        return Call(question=question, read=read, within_ms=self.timeout_ms)
