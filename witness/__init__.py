"""The witness: follows ledgers, countersigns what only grows, and keeps proof when one does not.

It imports `schemas` and never `streams`: a witness that shares the steward's code shares its bugs.
What a countersignature means, and what to do when a witness cries fork, is in the README beside.

1. `feed`, `follow`, `inquest`, `outcome`: the algorithm for one pool, without I/O or clock.
2. `leaves`, `record`, `store`: what is kept, and how it is kept durably.
3. `witness`: check, sign, persist, and only then let the signature out.
4. `sources`, `embedded`, `beside`, `kafka`, `outbox`: reading logs, and where statements go.
5. `runner`, `health`, `cli`, `main`: the service around it.

Profile: §6.7 to §6.10.
"""
