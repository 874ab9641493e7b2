"""Outputs for people: ``prediction`` columns, and the ``labels`` transform's label."""

import numpy as np

from tidegate.artifacts.manifest import LabelsSpec
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.bfloat16 import widened
from tidegate.tensors.signature import Signature


def prediction_name(output: str, signature: Signature) -> str:
    """Name an output's column: ``prediction`` if it is the only one."""
    return "prediction" if len(signature.outputs) == 1 else f"prediction_{output}"


class PlainWriter:
    """Renames the model's outputs, nothing else."""

    def __init__(self, signature: Signature) -> None:
        self._names = {
            spec.name: prediction_name(spec.name, signature) for spec in signature.outputs
        }

    def present(self, outputs: Tensors, inputs: Tensors) -> dict[str, Array]:
        """Return each output ``(rows, …)`` under its column's name."""
        return {self._names[name]: widened(values) for name, values in outputs.items()}


class LabelsWriter:
    """Adds the name of the likeliest class, and its probability."""

    def __init__(self, spec: LabelsSpec, signature: Signature) -> None:
        self._spec = spec
        self._plain = PlainWriter(signature)
        self._labels = np.array(spec.names, dtype=object)

    def present(self, outputs: Tensors, inputs: Tensors) -> dict[str, Array]:
        """Return the outputs, then ``label`` and ``probability``, ``(rows,)`` each.

        Of equal probabilities the first class wins.
        """
        probabilities = widened(outputs[self._spec.output])
        likeliest = probabilities.argmax(axis=1)
        best = np.take_along_axis(probabilities, likeliest[:, None], axis=1)[:, 0]
        labels = self._labels[likeliest]
        return {**self._plain.present(outputs, inputs), "label": labels, "probability": best}


def build_writer(labels: LabelsSpec | None, signature: Signature) -> PlainWriter | LabelsWriter:
    """Pick the writer that the manifest asks for."""
    return PlainWriter(signature) if labels is None else LabelsWriter(labels, signature)
