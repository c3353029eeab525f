"""Runs scripts with and without `canonopt doctor`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema

import canonopt
from canonopt._doctor import stream
from canonopt._doctor.report import Report
from canonopt._recompiles import record_everywhere
from canonopt._recompiles.listeners import active

SCRIPTS = Path(__file__).parents[1] / "doctor" / "scripts"
PYTHON = [sys.executable]
DOCTOR = [*PYTHON, "-m", "canonopt", "doctor"]
# Each report begins like this.
HEADING = "\ncanonopt doctor: "
HOSTILE = "<script>alert('&\"')</script>"
