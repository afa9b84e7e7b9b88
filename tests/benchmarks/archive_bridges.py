"""Opens an archive in inseq and BertViz, in an environment that has them (`pip install inseq bertviz ipython`):
`PYTHONPATH=. python tests/benchmarks/archive_bridges.py`.

Every number must be the archive's, also after inseq has saved and loaded it again.
"""

import tempfile
from importlib.metadata import version
from pathlib import Path

import bertviz
import numpy as np
import torch
from inseq import FeatureAttributionOutput

from qkv.inspection import AttentionArchive
from qkv.inspection.archive_export import bertviz_arguments, write_inseq

ARCHIVES = Path(__file__).parents[1] / "kept_archives"


def compare(output: FeatureAttributionOutput, archive: AttentionArchive) -> None:
    """Compares what inseq holds with the archive."""
    for sequence, record in zip(output.sequence_attributions, archive, strict=True):
        cross = record.attention["cross"]
        np.testing.assert_array_equal(sequence.source_attributions.numpy(), cross.transpose(3, 2, 0, 1))
        probabilities = sequence.step_scores["probability"].numpy()
        np.testing.assert_allclose(np.log(probabilities), record.token_log_probabilities, rtol=1e-5)
        assert [token.token for token in sequence.source] == record.source_tokens


def main() -> None:
    """Opens every kept archive."""
    for folder in sorted(path.parent for path in ARCHIVES.glob("*/manifest.json")):
        archive = AttentionArchive(folder)
        with tempfile.TemporaryDirectory() as place:
            paths = [Path(place) / name for name in ("ours.json", "again.json")]
            write_inseq(paths[0], archive[:])
            FeatureAttributionOutput.load(paths[0]).save(paths[1])
            for path in paths:
                compare(FeatureAttributionOutput.load(path), archive)
            means = FeatureAttributionOutput.load(paths[0]).aggregate().sequence_attributions
            for mean, record in zip(means, archive, strict=True):
                expected = record.attention["cross"].mean((0, 1)).T
                np.testing.assert_allclose(mean.source_attributions.numpy(), expected, atol=1e-6)
            page = FeatureAttributionOutput.load(paths[0]).show(display=False, return_html=True)
        views = [
            view(**bertviz_arguments(archive[0], torch.tensor), html_action="return").data
            for view in (bertviz.head_view, bertviz.model_view)
        ]
        assert all(archive[0].source_tokens[1].strip("▁Ġ") in text for text in (page, *views))
        print(f"{folder.name}: {len(archive)} sentences in inseq {version('inseq')}, BertViz {version('bertviz')}")


if __name__ == "__main__":
    main()
