"""The commands of qkv. Each has a module of its name with `make_parser` and `main`.

The modules, in reading order:

- `cli`: the options and the error handling that all commands share
- `doctor`: `qkv doctor`, checks before a long training
- `train`: `qkv train`, training
- `import_marian`: `qkv import_marian`, runs from Marian models
- `link`: `qkv link`, word links of a training text, without a run
- `translate`: `qkv translate`, translation of standard input
- `align`: `qkv align`, word links of parallel text
- `export`: `qkv export`, runs for other programs
- `evaluate`: `qkv evaluate`, evaluation of a run
- `compare`: `qkv compare`, comparison of evaluations
- `measure`: `qkv measure`, measures of an attention archive
- `live`: `qkv live`, an interactive page
- `view`: `qkv view`, a page with the attention of several runs
- `draw`: `qkv draw`, heat maps
- `explain`: `qkv explain`, one row of attention in numbers
- `completion`: `qkv completion`, completion by the shell
"""

GROUPS = {
    "make a run": {
        "doctor": "checks settings, text and machine before a long run",
        "train": "trains a run, or continues one",
        "import_marian": "makes a run from a Marian or OPUS-MT model",
        "link": "links the words of a training text without a run, for guided attention",
    },
    "use it": {
        "translate": "translates standard input",
        "align": "links the words of parallel text",
        "export": "writes a run in a format of another program",
    },
    "measure": {
        "evaluate": "scores a run on a set and writes its attention",
        "compare": "compares runs: confidence intervals, significance",
        "measure": "measures an attention archive of any program",
    },
    "look": {
        "live": "serves a page that translates what you type, and shows and changes attention",
        "view": "shows the attention of several runs on one page",
        "draw": "draws heat maps for papers",
        "explain": "follows one row of attention in numbers, and shows what changing it costs",
    },
    "at your shell": {"completion": "makes the shell complete commands, options and runs"},
}
"""A short description of each command, in groups by purpose."""

COMMANDS = {name: meaning for group in GROUPS.values() for name, meaning in group.items()}
"""The descriptions of all commands by name."""
