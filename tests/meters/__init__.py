"""Tests of the meters: the raw files row by row, and the rules."""
