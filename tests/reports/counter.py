"""Counts how often the body of a function runs."""

count = 0


def note() -> None:
    global count
    count += 1
