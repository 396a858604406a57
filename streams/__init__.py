"""The Pool steward: reads events from a log, decides, and writes signed receipts back.

Subpackages: `kernel` decides, `steward` runs the loop, `logs` stores, `views` serves, `meters` and
`traces` bring events in, `cli` is what a person types. Nothing here is imported by `witness`.
"""

import sys

TREE_DEPTH_FRAMES = 10_000
"""A tree within an event's size may nest some 950 deep, and a pass calls itself up to four times a
level; Python's own limit of 1,000 calls would end it there."""

sys.setrecursionlimit(max(sys.getrecursionlimit(), TREE_DEPTH_FRAMES))
