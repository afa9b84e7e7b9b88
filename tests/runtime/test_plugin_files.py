"""Plugin files are run once, and whatever is wrong with one is told in one line."""

import sys

import pytest

from qkv.errors import InputError
from qkv.runtime.plugin_files import load_plugins


def test_a_plugin_runs_once_in_a_process(tmp_path, monkeypatch):
    plugin = tmp_path / "counts.py"
    plugin.write_text("import sys\nsys.counted = getattr(sys, 'counted', 0) + 1\n")
    monkeypatch.setattr(sys, "counted", 0, raising=False)
    load_plugins([plugin])
    load_plugins([plugin])
    assert sys.counted == 1
    del sys.modules["qkv_plugin_counts"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero; fix the plugin"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def (", "SyntaxError"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("import sys; sys.exit()", r"wrong\.py: SystemExit; fix the plugin"),
        ("raise SystemExit(3)", r"wrong\.py: SystemExit: 3; fix the plugin"),
        ("raise KeyboardInterrupt", r"wrong\.py: KeyboardInterrupt; fix the plugin"),
    ],
)
def test_a_failing_plugin_is_reported_in_one_line(tmp_path, text, told):
    plugin = tmp_path / "wrong.py"
    plugin.write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        load_plugins([plugin])
    assert len(str(caught.value).splitlines()) == 1
    assert "qkv_plugin_wrong" not in sys.modules
