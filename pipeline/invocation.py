"""How a person starts the commands: as `qkv NAME` where the package is installed, by their files in this folder."""

SCRIPTS = ("train", "evaluate")  # have a file in the repository's root


def invocation(command: str) -> str:
    """Returns what a person types to start a command, such as "qkv train" or "python train.py"."""
    if __package__ == "qkv":
        return f"qkv {command}"
    return f"python {command}.py" if command in SCRIPTS else f"python -m {__package__}.{command}"
