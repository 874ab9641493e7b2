"""Models from the store into memory; slow and blocking, for a thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate_realtime.main.starting import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModels:
    """What was asked for, in memory."""

    models: Sequence[Model]
    """Each version once, in the order of asking."""
    aliases: Mapping[ModelName, Mapping[Alias, Version]]
    """Where the aliases of each model pointed when it was loaded."""


def load_models(plan: Plan) -> LoadedModels:
    """Resolve, fetch, verify and load.

    Raises:
        ModelNotFoundError: A reference names nothing.
        DigestMismatchError: A file is not the published one.
        ArtifactError: A model cannot be loaded.
        PartUnavailableError: The store does not answer.
    """
    pinned = dict.fromkeys(ModelRef(ref.name, plan.store.resolve(ref)) for ref in plan.models)
    cache, threads = plan.settings.cache_dir, plan.serve.threads
    models = [open_model(plan.store, ref, cache=cache, threads=threads) for ref in pinned]
    return LoadedModels(
        models=models,
        aliases={ref.name: _aliases(plan, ref.name) for ref in pinned},
    )


def _aliases(plan: Plan, name: ModelName) -> dict[Alias, Version]:
    pointed = plan.store.aliases(name).aliases
    return {Alias(alias): Version(version) for alias, version in pointed.items()}
