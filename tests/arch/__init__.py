"""The architecture holds: who imports whom, and the purity of the kernel."""
