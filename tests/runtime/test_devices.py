"""The devices of a run."""

import json

import tensorflow as tf

from pipeline.runtime.devices import make_strategy


def test_a_single_worker_trains_as_one_machine_does(monkeypatch):
    cluster = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    strategy = make_strategy()
    assert not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
