"""Writes a script that makes a shell complete commands, options and runs: `eval "$(qkv completion bash)"`."""

import argparse
from importlib import import_module
from typing import Any

from ..errors import import_optional
from ..runtime.streams import write_result
from . import COMMANDS
from .cli import ArgumentParser, exit_cleanly

SHELLS = ("bash", "zsh", "fish")
RUNS = """
_qkv_run_dirs() {
  {
    compgen -d -- "$1"
    local config
    for config in runs/*/config.yaml; do
      case "$config" in "$1"*) [ -f "$config" ] && printf '%s\\n' "${config%/config.yaml}" ;; esac
    done
  } | sort -u
}
"""
"""A bash function that lists the folders, and the runs in the folder `runs`, that begin with its argument."""
COLONS = """
_qkv() {
  local words=() word last rest="$COMP_LINE" number current
  for number in "${!COMP_WORDS[@]}"; do
    word="${COMP_WORDS[number]}" last=$((${#words[@]} - 1))
    if [[ $number -gt 0 && $rest != [[:space:]]* && ( $word == :* || ${words[last]} == *: ) ]]; then
      words[last]+="$word"
    else
      words+=("$word")
    fi
    rest="${rest#*"$word"}"
    [ "$number" = "$COMP_CWORD" ] && current=$((${#words[@]} - 1))
  done
  word="${COMP_WORDS[COMP_CWORD]}"
  COMP_WORDS=("${words[@]}") COMP_CWORD=$current
  _shtab_qkv
  [ "${words[current]}" = "$word" ] && return
  word="${words[current]}"
  COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
}
complete -o bashdefault -F _qkv qkv
"""
"""Bash divides words at colons, which names of runs may have. This function joins the parts, completes the whole word,
and removes the answers' text up to the last colon, because bash replaces only the text after it."""


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "completion",
        description="Writes a script that makes the shell complete commands, options, their choices, runs and files. "
        'In ~/.bashrc: eval "$(qkv completion bash)". Needs shtab: pip install shtab.',
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Writes the script to standard output."""
    options = make_parser().parse_args(arguments)
    shtab = import_optional("shtab", "completion: needs shtab, which is not installed; install it: pip install shtab")
    script = shtab.complete(_make_program(shtab), options.shell, preamble={"bash": RUNS})
    write_result(f"{script}\n{COLONS if options.shell == 'bash' else ''}")


def _make_program(shtab: Any) -> argparse.ArgumentParser:
    """Returns a parser with all commands as subcommands, for the library shtab.

    Each argument that is a path is marked with the kind of files by which shtab completes it.

    Args:
        shtab: the imported module.
    """
    runs = {**shtab.DIRECTORY, "bash": "_qkv_run_dirs"}
    kinds = dict.fromkeys(("RUN", "RUN2", "REVERSE_RUN", "ARCHIVE"), runs)
    kinds |= {"FOLDER": shtab.DIRECTORY, "FILE": shtab.FILE, "CONFIG": shtab.FILE}
    program = argparse.ArgumentParser("qkv")
    commands = program.add_subparsers()
    for name, meaning in COMMANDS.items():
        parser = import_module(f".{name}", __package__).make_parser()
        for action in parser._actions:
            if action.metavar in kinds:
                action.complete = kinds[action.metavar]
            if action.help == argparse.SUPPRESS:  # a setting; the help of its section has its meaning
                action.help = ""
        commands.add_parser(name, help=meaning, parents=[parser], add_help=False)
    return program
