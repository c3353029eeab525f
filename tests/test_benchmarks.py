"""`python -m tools.benchmarks`: how it measures, and the page that it writes."""

import json
from pathlib import Path

from tools.benchmarks import page, parts
from tools.benchmarks.measuring import compare, points

DOCS = Path(__file__).parents[1] / "docs"


def test_each_way_is_made_and_measured_as_often_as_the_others_and_as_often_first():
    made, measured = [], []

    def make(name):
        def sample():
            measured.append(name)
            return 2.0 if name == "b" else 1.0

        return lambda: made.append(name) or sample

    found = compare(3, {name: make(name) for name in "abc"}, repeats=6, rounds=6)
    assert all(made.count(name) == 6 for name in "abc")
    assert [made[::3].count(name) for name in "abc"] == [2, 2, 2]
    assert [measured[::3].count(name) for name in "abc"] == [12, 12, 12]
    assert (found["b"].ratio, found["b"].median, found["b"].x) == (2.0, 2.0, 3)
    assert found["a"].ratio == 1.0


def test_a_ratio_is_of_neighbouring_samples():
    # The machine is three times slower in the last round, for both.
    found = points(1, {"one": [1.0, 1.0, 3.0], "two": [2.0, 2.0, 6.0]})["two"]
    assert found.ratio == 2.0
    assert (found.low, found.median, found.high) == (2.0, 2.0, 6.0)


def test_the_page_in_docs_is_that_of_its_figures():
    found = json.loads((DOCS / "benchmarks.json").read_text("utf-8"))
    assert (DOCS / "benchmarks.md").read_text("utf-8") == page.page(found)
    assert len(found["parts"]) == len(parts.PARTS)
    for part in found["parts"]:
        for scheme in ("light", "dark"):
            image = (DOCS / "images" / page.picture(part, scheme)).read_text("utf-8")
            assert "10^{" not in image and "1e8" not in image  # the numbers of axes are plain


def test_all_ways_to_build_and_to_call_give_what_they_should():
    for sample in parts._ways_to_build(1).values():
        assert sample()() > 0
