"""An independent, slow reading of `pool/1`, and the machinery to hold the kernel against it."""
