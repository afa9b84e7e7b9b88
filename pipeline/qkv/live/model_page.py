"""The page that translates by itself: the viewer's, with a run's model and what computes it inside.

It is one file that opens from a disk without a network and without installing anything.
"""

import base64
from pathlib import Path
from typing import Any

from ..config.names.inspection import SITES
from ..evaluation.page_facts import page_facts
from ..files.atomic import write_output
from ..inspection.named_heads import describe_types, read_head_types
from ..inspection.viewer.page_file import origin_of, refuse_other_file
from ..run.trained_run import TrainedRun
from ..text.tokens.words import WordUnits
from .examples import find_examples
from .packed_model import check_model, model_settings, named_arrays, pack
from .packed_text import pack_normalizer, pack_tokenizer
from .page import SHOWN_SITES, describe_changes, live_page, read_scripts

ENGINE = ("packed", "typed_text", "subword", "layers", "transformer")
NOTICE = """\
<p id="notice">The model is being opened. If this line stays, the file is damaged, or this browser is too old: it needs
Chrome 103, Firefox 113, Safari 16.4 or later.</p>
<script type="text/plain" id="model">{model}</script>"""


def write_model_page(run: TrainedRun, path: Path) -> None:
    """Writes the page, whole or not at all.

    Args:
        run: the run.
        path: the file; a page of the same run is overwritten.

    Raises:
        InputError: something else is there, the model is too large, or a part of it has no counterpart in the page.
    """
    origin = origin_of([run.directory.root])
    refuse_other_file(path, origin, "this run", "--page")
    write_output(path, model_page(run, origin).encode())


def model_page(run: TrainedRun, origin: str = "") -> str:
    """Returns the page's HTML.

    Raises:
        InputError: see `write_model_page`.
    """
    check_model(run)
    units = _units(run)
    header = {
        "model": model_settings(run),
        "tokenizer": pack_tokenizer(run),
        "typed": pack_normalizer(run),
        "units": units._asdict(),
    }
    sites = _sites(run)
    described = {
        "name": run.config.run.name,
        "sites": sites,
        "units": units._asdict(),
        "heads": {SITES[site].weighed_at: size for site, size in sites.items()},
        "facts": page_facts(run.config, run.model.count_params(), {"search": "greedy"}),
        "types": describe_types(read_head_types(run.directory.evaluation("test").head_types)),
    }
    return live_page(
        str(run.config.run.name),
        {"runs": [described], "changes": describe_changes(["zeroed"]), "examples": find_examples(run)},
        backend=read_scripts(*ENGINE, "page_backend"),
        html=NOTICE.format(model=base64.b64encode(pack(header, named_arrays(run))).decode()),
        policy={},
        origin=origin,
    )


def _sites(run: TrainedRun) -> dict[str, list[int]]:
    """Returns numbers of layers and heads of the sites that the page shows, in the order of its weights."""
    model: Any = run.config.model
    sides = {site: "encoder" if site == "encoder" else "decoder" for site in SHOWN_SITES}
    return {site: [getattr(model, f"{side}_layers"), model.num_heads] for site, side in sides.items()}


def _units(run: TrainedRun) -> WordUnits:
    """Returns what counts as a word on each side; where the config leaves it to the text, the examples decide."""
    probes = run.config.inspection.probes or ()
    found = run.cutter.units([probe.source for probe in probes], [probe.reference or "" for probe in probes])
    return WordUnits(*(unit if unit == "spaces" else "subwords" for unit in found))
