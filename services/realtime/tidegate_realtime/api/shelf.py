"""Puts what the host shows where callers find it."""

from collections.abc import Sequence

from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.served import Catalogue, Offer, ServedVersion
from tidegate_realtime.core.lifecycle_commands import Show


class CatalogueShelf:
    """The shelf of ``ModelHost``: the catalogue, and the series of each version that enters it."""

    def __init__(self, catalogue: Catalogue, metrics: GatewayMetrics) -> None:
        self._catalogue = catalogue
        self._metrics = metrics

    def show(self, show: Show, hosted: Sequence[ServedVersion]) -> None:
        """Let callers find just this of one model, from this moment on."""
        for served in hosted:
            tag = served.response_tag
            self._metrics.add_version(tag.model_name, tag.model_version, served.objective)
            if served.measured is not None:
                times = self._metrics.stage_times.get((tag.model_name, tag.model_version))
                served.measured.stage_times = times
        self._catalogue.show(
            show.name,
            Offer(
                versions={served.model.tag.version: served for served in hosted},
                aliases={str(alias): int(version) for alias, version in show.aliases.items()},
                preferred=show.preferred,
                coming=show.coming,
                failed={int(version): code for version, code in show.failed.items()},
            ),
        )
