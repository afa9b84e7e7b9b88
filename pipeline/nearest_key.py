"""The key, option or name that somebody meant who misspelt one."""

import difflib
from collections.abc import Sequence


def nearest_key(key: str, keys: Sequence[str]) -> str | None:
    """Returns the dotted key that was probably meant: one with the same name or a similar spelling, from the same
    section if possible."""
    section, _, name = key.rpartition(".")
    siblings = {known.rpartition(".")[2]: known for known in reversed(keys) if known.rpartition(".")[0] == section}
    everywhere = {known.rpartition(".")[2]: known for known in reversed(keys)}
    if name in everywhere:
        return everywhere[name]
    for candidates in (siblings, everywhere):
        alike = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
        if alike:
            return candidates[alike[0]]
    alike = difflib.get_close_matches(key, keys, n=1, cutoff=0.7)
    return alike[0] if alike else None


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Returns the end of a message about an unknown name: "; did you mean NAME?", or nothing if none is near."""
    meant = nearest_key(name, names)
    return f"; did you mean {meant}?" if meant else ""
