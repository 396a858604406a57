"""The Pool steward: reads events from a log, decides, and writes signed receipts back.

Subpackages: `kernel` decides, `steward` runs the loop, `logs` stores, `views` serves, `meters` and
`traces` bring events in, `cli` is what a person types. Nothing here is imported by `witness`.
"""
