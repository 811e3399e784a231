"""The byte order of .pt files that do not name theirs: "little", "big", or None for that of this machine."""

of_unmarked: str | None = None
