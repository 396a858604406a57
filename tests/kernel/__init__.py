"""The kernel holds to its profile: cases, rule tables, an auditor, a plain pass, a model."""
