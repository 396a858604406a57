"""`python -m witness`: the same as `pool-witness`."""

from witness.cli import main

main()
