"""Everything between a listener and the drivers, wired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.ids import Alias, ModelName, Version
from tidegate_realtime.api.bug_log import BugLog
from tidegate_realtime.api.endings import Draw
from tidegate_realtime.api.endpoint import Endpoint
from tidegate_realtime.api.lookups import Lookups
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.predicting import Predictor
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.scoring import Scorer
from tidegate_realtime.api.served import Catalogue, ServedVersion
from tidegate_realtime.api.slow_reading import SlowReader
from tidegate_realtime.api.sweeper import Sweeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One of each."""

    clock: Clock
    policy: Policy
    ids: RequestIds
    bugs: BugLog
    catalogue: Catalogue
    metrics: GatewayMetrics
    lookups: Lookups
    scorer: Scorer
    slow_reader: SlowReader
    """To be closed when nothing is in progress any more."""
    endpoint: Endpoint
    sweeper: Sweeper


def build_edge(
    versions: Sequence[ServedVersion] = (),
    *,
    aliases: Mapping[ModelName, Mapping[Alias, Version]] | None = None,
    clock: Clock,
    draw: Draw,
    id_prefix: str,
    policy: Policy | None = None,
) -> Edge:
    """Wire it; call it on the running loop.

    Args:
        versions: Loaded and warm; more may be shown later.
        aliases: Where the aliases of each model point.
        clock: The one that the drivers read.
        draw: For the jitter of Retry-After.
        id_prefix: Random; of the request ids made here.
        policy: Whom to answer; without one, everybody.
    """
    policy = policy or Policy()
    metrics = GatewayMetrics(traces_stages=policy.traces_stages)
    for served in versions:
        tag = served.response_tag
        metrics.add_version(tag.model_name, tag.model_version, served.objective)
    catalogue = Catalogue(versions, aliases=aliases)
    ids, bugs = RequestIds(id_prefix), BugLog(clock)
    lookups = Lookups(catalogue=catalogue, metrics=metrics, ids=ids, draw=draw)
    slow_reader = SlowReader(policy.readers, metrics=metrics, clock=clock)
    scorer = Scorer(
        catalogue=catalogue,
        metrics=metrics,
        ids=ids,
        clock=clock,
        draw=draw,
        bugs=bugs,
        slow_reader=slow_reader,
    )
    return Edge(
        clock=clock,
        policy=policy,
        ids=ids,
        bugs=bugs,
        catalogue=catalogue,
        metrics=metrics,
        lookups=lookups,
        scorer=scorer,
        slow_reader=slow_reader,
        endpoint=Endpoint(
            predictor=Predictor(scorer, policy),
            lookups=lookups,
            policy=policy,
            metrics=metrics,
            ids=ids,
            bugs=bugs,
        ),
        sweeper=Sweeper(clock),
    )
