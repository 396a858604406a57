"""`python -m witness`: the same as `pool-witness`."""

from witness.main import main

main()
