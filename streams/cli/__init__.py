"""The `pool` command: what a person or a script asks, answered by the packages below it.

Nothing is decided here. `main` is the entry point, `commands` the group and its errors; each other
module holds the commands that its name says, or a piece that they share (`session`, `visible`,
`trouble`, `where`, `words`, `units`).
"""
