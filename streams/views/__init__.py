"""The read side: ledgers folded into rows, served over HTTP with a page. Nothing decides here.

`fold` makes one pool's figures from its receipts; `feed` brings them from a log; `worker` does the
same on Kafka in Faust; `web` is the HTTP door over either.
"""

from streams.views.fold import PoolView
from streams.views.readside import ReadSide

__all__ = ["PoolView", "ReadSide"]
