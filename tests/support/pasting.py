"""Lines that canonopt prints, pasted into scripts above the line `# here`."""

import re


def with_lines(source: str, lines: list[str]) -> str:
    """The source with each line pasted as it was printed, above `# here`."""
    for line in lines:
        new, separator, old = line.partition(" in place of ")
        if separator:
            imports, _, new = new.rpartition("; ")
            used = rf"^(?!from |import )(.*)(?<!\w)(?<!\.){re.escape(old)}(?!\w)"
            source, count = re.subn(used, rf"\g<1>{new}", source, flags=re.MULTILINE)
            assert count, f"{old} is not in the script"
            source = f"{imports}\n{source}"
            continue
        (place,) = (each for each in source.splitlines() if each.strip() == "# here")
        source = source.replace(place, f"{place.replace('# here', line)}\n{place}")
    return source
