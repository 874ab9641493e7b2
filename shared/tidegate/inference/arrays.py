"""The shape in which tensors travel between transforms, runners and backends."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Any numpy array; which datatype it holds is said by the signature."""
Tensors: TypeAlias = Mapping[str, Array]
"""One array ``(rows, …)`` per name; all have the same number of rows."""
