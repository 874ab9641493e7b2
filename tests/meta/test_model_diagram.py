import re

from tests.project import ROOT
from tidegate.units import NS_PER_SECOND
from tidegate_realtime.core.hosting import FIRST_RETRY_NS, LONGEST_RETRY_NS, TABLE, Event, State

PAGE = (ROOT / "docs/model-states.md").read_text("utf-8")


def test_the_diagram_in_the_docs_is_the_table() -> None:
    arrows = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", PAGE, re.MULTILINE)
    drawn = {(State[before], Event[event]): State[after] for before, after, event in arrows}
    assert drawn == TABLE
    assert len(arrows) == len(TABLE)


def test_the_docs_say_what_each_state_means_and_when_it_is_tried_again() -> None:
    explained = re.findall(r"^\| ([A-Z]+) \|", PAGE, re.MULTILINE)
    assert [State[name] for name in explained] == [s for s in State if s is not State.UNLOADED]
    assert f"again after {FIRST_RETRY_NS // NS_PER_SECOND} s" in PAGE
    assert f"at most {LONGEST_RETRY_NS // NS_PER_SECOND // 60} minutes" in PAGE
