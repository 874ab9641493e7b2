"""Model versions out of the store into this process, step by step; see ``ModelHost``.

Whatever is slow runs in a thread of the loop's pool, never in one of those that run models.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from tidegate.artifacts.aliases import Aliases
from tidegate.artifacts.local import LocalVersion
from tidegate.clock import Clock
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.inference.model import Model
from tidegate.units import ms_to_ns
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.core.asked import Pointed
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.main.cores import count_cores
from tidegate_realtime.main.driving import build_driver
from tidegate_realtime.main.executing import Executing, open_backend
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.runtime.promise import Promise
from tidegate_realtime.runtime.sharing import SharedExecutors

REST_RATIO: Final = 3.0
"""A version that is measured while others serve takes a quarter of one core from them."""
_T = TypeVar("_T")


class StoredVersions:
    """The ``VersionSource`` of a gateway; call it on the loop that serves."""

    def __init__(self, plan: Plan, clock: Clock, *, is_serving: Callable[[], bool]) -> None:
        """Bring what ``plan`` says.

        Args:
            plan: Store, settings, objectives.
            clock: That the drivers read.
            is_serving: Whether there are callers by now, whom a load must not slow down.
        """
        self._plan = plan
        self._is_serving = is_serving
        self._store = plan.store
        self._clock = clock
        self._shared = SharedExecutors(max(1, count_cores() // plan.serve.threads))

    async def pointed(self, name: ModelName) -> Pointed:
        """Read the aliases of a model.

        Raises:
            PartUnavailableError: The store does not answer.
            ArtifactError: They cannot be read.
        """
        found = await self.aliases(name)
        aliases = {Alias(alias): Version(version) for alias, version in found.aliases.items()}
        return Pointed(aliases=aliases, revision=found.revision)

    async def aliases(self, name: ModelName) -> Aliases:
        """Read the aliases of a model as the store has them.

        Raises:
            PartUnavailableError: The store does not answer.
        """
        return await asyncio.to_thread(self._store.aliases, name)

    async def move_alias(
        self, name: ModelName, alias: Alias, version: Version, *, revision: int
    ) -> Aliases:
        """Point an alias at a published version; every gateway follows within a moment.

        Raises:
            ModelNotFoundError: There is no such version.
            AliasMovedError: The aliases are not at this revision any more.
        """
        return await _in_thread(
            lambda: self._store.move_alias(name, alias, version, revision=revision)
        )

    async def resolve(self, ref: ModelRef) -> Pointed:
        """Read them, and refuse a reference that names nothing now.

        Raises:
            ModelNotFoundError: The message lists what there is.
            PartUnavailableError: The store does not answer.
        """
        await asyncio.to_thread(self._store.resolve, ref)
        return await self.pointed(ref.name)

    async def fetch(self, name: ModelName, version: Version) -> LocalVersion:
        """Bring the files here; every digest is checked.

        Raises:
            ModelNotFoundError: There is no such version.
            DigestMismatchError: A file is not the published one.
        """
        cache = self._plan.settings.cache_dir
        return await _in_thread(lambda: self._store.pull(name, version, cache=cache))

    async def load(self, files: LocalVersion) -> ServedVersion:
        """Load the model, and start what runs it.

        Raises:
            ArtifactError: The model cannot be loaded.
            SettingError: It cannot be run as the settings say.
        """
        threads = self._plan.serve.threads
        model = await _in_thread(lambda: Model.load(files, threads=threads))
        executing = await _in_thread(lambda: open_backend(self._plan, model, self._clock))
        return self._served(model, executing)

    async def warm_up(self, hosted: ServedVersion) -> None:
        """Measure it, and count from then on.

        Raises:
            BackendError: It does not run.
            SettingError: Not even one row is answered within the objective.
        """
        await hosted.driver.warm_up()
        if hosted.measured is not None:
            hosted.measured.forget()
            hosted.measured.model_of = lambda inputs: hosted.driver.part_for(inputs).latency_model

    async def close(self, hosted: ServedVersion) -> None:
        """Let what is bound to it end, then its queue, then its threads."""
        await hosted.use.ended()
        await hosted.driver.aclose()

    def _served(self, model: Model, executing: Executing) -> ServedVersion:
        plan, name = self._plan, model.tag.name
        section = plan.settings.of_model(name)
        promise = Promise(
            slo_ns=section.objective.slo_ns,
            percentile=section.percentile,
            best_effort=section.best_effort,
            max_deadline_ns=ms_to_ns(plan.serve.max_deadline_ms),
            sizes=executing.sizes,
            is_padded=executing.is_padded,
            warm_up_budget_ns=ms_to_ns(plan.serve.warm_up_budget_ms),
            warm_up_rest_ratio=REST_RATIO if self._is_serving() else 0.0,
        )
        measured = MeasuredBackend(executing.backend, self._clock)
        limits = BatchLimits(
            memory_rows=section.memory_rows, queue_limit_rows=plan.serve.queue_limit_rows
        )
        driver = build_driver(measured, model, limits, self._clock, promise)
        if executing.shares_cores:
            driver.share(self._shared)
        served = ServedVersion(
            model=model,
            driver=driver,
            objective=section.objective,
            objective_origin=plan.settings.origin(f"models.{name}.slo_ms"),
            best_effort=section.best_effort,
            max_deadline_ns=promise.max_deadline_ns,
            backend=executing.name,
            measured=measured,
        )
        served.use.last_at_ns = self._clock.now_ns()
        return served


async def _in_thread(step: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(step)
