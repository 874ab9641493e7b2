"""``pooling``: one vector for each token becomes one for the text."""

import numpy as np

from tidegate.artifacts.transform_specs import PoolingSpec, TextSpec
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.transforms.port import RowWriter


class PoolingWriter:
    """Pools one output, and leaves the rest to another writer."""

    def __init__(self, spec: PoolingSpec, text: TextSpec, then: RowWriter) -> None:
        self._spec = spec
        self._text = text
        self._then = then

    def present(self, outputs: Tensors, inputs: Tensors) -> dict[str, Array]:
        """Return what the other writer makes of the outputs, the pooled one ``(rows, width)``."""
        pooled = self._pool(outputs[self._spec.output], inputs)
        return self._then.present({**outputs, self._spec.output: pooled}, inputs)

    def _pool(self, vectors: Array, inputs: Tensors) -> Array:
        if self._spec.kind == "first":
            pooled = np.asarray(vectors[:, 0])
        else:
            pooled = _mean(vectors, real_tokens(self._text, inputs))
        return _unit(pooled) if self._spec.normalize else pooled


def _mean(vectors: Array, real: Array) -> Array:
    weights = real.astype(vectors.dtype)
    counts = np.maximum(weights.sum(axis=1, keepdims=True), 1)  # a text may have no token
    mean: Array = (weights[:, None] @ vectors)[:, 0] / counts
    return mean


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths = np.maximum(lengths, np.finfo(vectors.dtype).tiny)  # so that 0 stays 0
    unit: Array = vectors / lengths
    return unit


def real_tokens(text: TextSpec, inputs: Tensors) -> Array:
    """Return where tokens are no padding, a boolean array ``(rows, tokens)``."""
    if text.mask is None:
        padding: Array = inputs[str(text.ids)] == text.pad_id
    else:
        padding = inputs[text.mask] == 0
    return ~padding
