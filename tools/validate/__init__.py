"""The whole validation on the devices of this machine, written to docs/records.

`python -m tools.validate` runs it. `parts` lists what is measured; `cells`, `recompiles` and
`seconds` measure it; `running` runs it while there is time; `record` writes what was found.
"""
