"""The commands: each is the module of its name."""

GROUPS = {
    "make a run": {
        "doctor": "checks settings, text and machine before a long run",
        "train": "trains a run, or continues one",
        "import_marian": "makes a run from a Marian or OPUS-MT model",
    },
    "use it": {
        "translate": "translates standard input",
        "align": "links the words of parallel text",
        "export": "writes a run in a format of other programs",
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
"""What each command does, in a few words, by what one wants to do."""

COMMANDS = {name: meaning for group in GROUPS.values() for name, meaning in group.items()}
