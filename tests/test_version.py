from importlib.metadata import version

import keras

from qkv.version import __version__, installed_versions


def test_versions_are_those_of_the_modules_and_then_of_the_packages(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "9.0.dev1")  # as after installing keras-nightly over keras
    expected = {"qkv": __version__, "keras": "9.0.dev1", "tensorboard": version("tensorboard")}
    assert installed_versions(["keras", "tensorboard", "no-such-package"]) == expected
