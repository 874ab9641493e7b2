"""Which outputs one request gets, and in which form; the same for HTTP and gRPC."""

from collections.abc import Sequence

import msgspec

from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate.oip.classification import check_classified, classify
from tidegate.oip.errors import NeedsBinaryError
from tidegate.oip.response import NamedOutput
from tidegate.oip.values import ONLY_BINARY
from tidegate.oip.wanted import WantedOutput
from tidegate.tensors.signature import SignatureMismatchError, TensorSpec


class AskedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One output of a reply to come."""

    name: str
    datatype: str
    """Of the reply: BYTES where classes are wanted."""
    binary: bool = False
    classes: int = 0
    """Above 0: so many of its highest values, by name."""
    labels: tuple[str, ...] = ()
    """What the values of a row are called, where the model says so."""


class AskableOutputs:
    """The outputs of one version, as requests may ask for them."""

    def __init__(self, model: Model) -> None:
        self._specs = {spec.name: spec for spec in model.signature.outputs}
        self._labels = model.manifest.transforms.labels
        self._all: dict[bool, tuple[AskedOutput, ...]] = {}
        """By whether they go as bytes: what nearly all requests ask for, made once."""

    def asked(
        self, wanted: Sequence[WantedOutput] | None, *, binary: bool
    ) -> tuple[AskedOutput, ...]:
        """Find the outputs that a request wants.

        Args:
            wanted: As the request names them; ``None`` for all.
            binary: The form of all where none is named.

        Raises:
            SignatureMismatchError: The model has no such output.
            NeedsBinaryError: A 16-bit float as JSON.
            UnsupportedParameterError: A classification of what has no order.
        """
        if wanted is None:
            return self._all.get(binary) or self._every(binary=binary)
        for output in wanted:
            if output.name not in self._specs:
                raise SignatureMismatchError(
                    f"Output {output.name[:80]!r} is none of this model's; it has "
                    f"{list(self._specs)}."
                )
        return tuple(
            [
                self._classified(output)
                if output.classes
                else _asked(self._specs[output.name], binary=output.binary)
                for output in wanted
            ]
        )

    def _every(self, *, binary: bool) -> tuple[AskedOutput, ...]:
        asked = tuple([_asked(spec, binary=binary) for spec in self._specs.values()])
        self._all[binary] = asked
        return asked

    def _classified(self, wanted: WantedOutput) -> AskedOutput:
        spec, labels = self._specs[wanted.name], self._labels
        check_classified(spec.name, spec.datatype)
        return AskedOutput(
            name=spec.name,
            datatype="BYTES",
            binary=wanted.binary,
            classes=wanted.classes,
            labels=labels.names if labels is not None and labels.output == spec.name else (),
        )


def _asked(spec: TensorSpec, *, binary: bool) -> AskedOutput:
    if not binary and spec.datatype in ONLY_BINARY:
        raise NeedsBinaryError.of_tensor(spec.name, spec.datatype)
    return AskedOutput(name=spec.name, datatype=spec.datatype, binary=binary)


def named_outputs(asked: Sequence[AskedOutput], outputs: Tensors) -> list[NamedOutput]:
    """Give a request what it asked for, of all that the model answered.

    Raises:
        NonFiniteOutputError: NaN or infinity is to be ranked.
    """
    return [
        NamedOutput(
            output.name,
            output.datatype,
            classify(outputs[output.name], output.classes, name=output.name, labels=output.labels)
            if output.classes
            else outputs[output.name],
            output.binary,
        )
        for output in asked
    ]
