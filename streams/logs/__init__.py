"""Logs: the contract (`contract`, `errors`) and its implementations (`embedded`, `kafka`)."""
