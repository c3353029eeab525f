"""Runs the scripts and writes `docs/doctor-score.md`: `python -m tests.reports.run [NAME ...]`."""

import os
import sys

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
)


def main(names: list[str]) -> None:
    from . import SCRIPTS as ALL
    from .score import score

    for script in ALL:
        if names and not any(name in script.name or name == script.package for name in names):
            continue
        found = score(script)
        marks = [
            "" if found.is_as_expected else "TRUTH",
            *(("FALSE ALARM",) if found.is_false_alarm else ()),
        ]
        if not script.is_fine:
            marks += ["" if found.count else "count", "" if found.path else "path"]
            marks += ["" if found.cause else "cause", found.line, found.hint]
        print(f"{script.package}: {script.name}: {' '.join(filter(None, marks))}", flush=True)
        is_good = found.is_as_expected and (
            not found.is_false_alarm if script.is_fine else found.is_right
        )
        if not is_good or names or not (script.is_fine or script.is_expected or found.is_cured):
            print(f"    truth {found.truth.traces} {found.truth.compiles}")
            print(f"    hand  {script.traces} {script.compiles} {script.differs}")
            print(f"    {found.said}")


if __name__ == "__main__":
    main(sys.argv[1:])
