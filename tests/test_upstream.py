"""The minimal cases for other projects print what the pages say, until somebody mends them."""

import re
from pathlib import Path

import jax
import pytest

from .support.doctor import PYTHON, run

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "upstream").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_minimal_case_prints_what_its_page_says(page):
    code, output = re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    if page.stem == "jax-import-retraces" and jax.__version_info__ < (0, 12):
        output = "tracing\n"  # it began with jax 0.12
    if page.stem == "jax-treedef-of-dataclasses" and jax.__version_info__ < (0, 10):
        output = "False False\n"
    if page.stem == "jax-numpy-constants" and jax.__version_info__ < (0, 10):
        output = "[0. 0.]\n" * 2
    ran = run(*PYTHON, "-c", code)
    assert (ran.stdout, ran.returncode) == (output, 0), ran.stderr
