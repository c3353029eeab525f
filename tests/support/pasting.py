"""Lines that canonopt prints, pasted into scripts above the line that ends with `# here`."""

import re


def with_lines(source: str, lines: list[str]) -> str:
    """The source with each line as printed: an import at the top, others above the marked line."""
    for line in lines:
        if re.fullmatch(r"import \w+", line):
            source = f"{line}\n{source}"
            continue
        new, separator, old = line.partition(" in place of ")
        if separator:
            used = rf"^(?!from |import )(.*)(?<!\w)(?<!\.){re.escape(old)}(?!\w)"
            source, count = re.subn(used, rf"\g<1>{new}", source, flags=re.MULTILINE)
            assert count, f"{old} is not in the script"
            continue
        (place,) = (each for each in source.splitlines() if each.endswith("# here"))
        indent = place.removesuffix(place.lstrip())
        source = source.replace(place, f"{indent}{line}\n{place}")
    return source
