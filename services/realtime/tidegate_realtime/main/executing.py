"""What runs a version; slow and blocking, for a thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.inference.model import Model
from tidegate_realtime.api.served import ONNXRUNTIME
from tidegate_realtime.backends.onnx import OnnxBackend
from tidegate_realtime.core.sweep import POWERS_OF_TWO
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.runtime.ports import Backend
from tidegate_realtime.settings import EMULATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """What runs one version, and how large its batches may be."""

    backend: Backend
    name: str
    """Of the kind, for labels."""
    sizes: Sequence[int] = POWERS_OF_TWO
    """Allowed ones, rising."""
    is_padded: bool = False
    """Whether smaller batches take the time of the next allowed size."""
    shares_cores: bool = False
    """Whether it computes on the cores of this machine, where other models compute too."""

    @property
    def least_rows(self) -> int:
        """Rows of the smallest call."""
        return self.backend.fixed_rows or self.sizes[0]


def open_backend(plan: Plan, model: Model, clock: Clock) -> Executing:
    """Start what runs a model; it holds threads until it is closed.

    Raises:
        SettingError: The model cannot be run as the settings say; nothing is left running.
    """
    executing = _open(plan, model, clock)
    try:
        _check_memory(plan, model, executing.least_rows)
    except SettingError:
        executing.backend.close()
        raise
    return executing


def _open(plan: Plan, model: Model, clock: Clock) -> Executing:
    profile = plan.serve.backend.removeprefix(EMULATED)
    if profile == plan.serve.backend:
        backend = OnnxBackend(model, name=str(model.tag))
        return Executing(backend=backend, name=ONNXRUNTIME, shares_cores=True)
    from tidegate_realtime.backends.emulated import build_emulated  # only if asked for

    emulated = build_emulated(profile, model.signature, clock=clock)
    # Beyond the largest size of a profile nothing is known, so that no batch may be larger.
    sizes = emulated.profile.allowed_sizes
    return Executing(
        backend=emulated,
        name="emulated",
        sizes=sizes or POWERS_OF_TWO,
        is_padded=sizes is not None,
    )


def _check_memory(plan: Plan, model: Model, least_rows: int) -> None:
    memory_rows = plan.settings.of_model(model.tag.name).memory_rows
    if memory_rows is not None and memory_rows < least_rows:
        raise SettingError(
            f"{model.tag}: memory_rows = {memory_rows}, and its smallest batch has {least_rows} "
            "rows; give it more, or leave memory_rows out"
        )
