import re
from pathlib import Path

from tidegate_realtime.core.request import TABLE, Event, State

DIAGRAM = Path(__file__).parents[2] / "docs/request-states.md"


def test_the_diagram_in_the_docs_is_the_table() -> None:
    arrows = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", DIAGRAM.read_text("utf-8"), re.MULTILINE)
    drawn = {(State[before], Event[event]): State[after] for before, after, event in arrows}
    assert drawn == TABLE
    assert len(arrows) == len(TABLE)
