"""Makes the runs that later versions must still load: `python tests/kept_runs/keep.py VERSION`, once for a version.

Each is a tiny model of one architecture with what it translated and attended to when it was saved. They are never made
anew: a version that cannot load them, or gives other numbers, has to say why.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.config.run import make_run_config
from qkv.config.yaml import read_yaml
from qkv.inspection.recorder import pair_translations
from qkv.run import train
from qkv.run.trained_run import load_run

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ("config.yaml", "manifest.json", "model.keras", "tokenizer/sentencepiece.model")
SENTENCES = ["the cat eats the apple .", "jane visits africa in september .", "a", "", "ça, c'est <b>ünknown</b> ☃"]
MODELS = {
    "transformer": {"encoder_layers": 1, "decoder_layers": 2},
    "recurrent": {"embedding_dim": 12, "hidden_dim": 10, "attention_dim": 8},
    "decoder_only": {"layers": 2},
}
BLOCKS = {"d_model": 12, "num_heads": 2, "d_ff": 16}


def settings_of(architecture: str, folder: str) -> dict:
    """The config of a small run: `configs/tiny.yaml` with another model."""
    values, _ = read_yaml(ROOT / "configs" / "tiny.yaml")
    blocks = {} if architecture == "recurrent" else BLOCKS
    values["model"] = {"architecture": architecture, **blocks, **MODELS[architecture]}
    values["run"] = {"directory": folder}
    values["tokenizer"] = {"vocabulary_size": 120}
    values["training"] |= {
        "max_updates": 250,
        "max_minutes": None,
        "validate_every_updates": 250,
        "learning_rate": 0.02,
        "warmup_updates": 50,
    }
    values["inspection"] = {"attention": ["cross"]}
    return values


def outputs_of(run) -> dict:
    """What a run says of the sentences: translations, log-probabilities, and the attention over them."""
    translations = run.translator.translate(SENTENCES)
    records = list(run.recorder(("cross",)).record(pair_translations(SENTENCES, None, translations, "beam")))
    return {
        "translations": [translation.text for translation in translations],
        "log_probabilities": [record.token_log_probabilities for record in records],
        "attention": [record.attention["cross"].round(4).tolist() for record in records],
    }


def main() -> None:
    """Trains, and keeps what counts."""
    (version,) = sys.argv[1:]
    for architecture in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            train(make_run_config(settings_of(architecture, folder), {}, default_name=architecture))
            place = HERE / version / architecture
            for name in KEPT:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(folder) / architecture / name, place / name)
        text = json.dumps({"sentences": SENTENCES, **outputs_of(load_run(place))}, ensure_ascii=False)
        (place / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
