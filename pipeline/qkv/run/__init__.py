"""A run on disk.

- `manifest`: what a run was made from, with digests
- `trained_run`, `trained_ensemble`: finished runs, opened, alone or together
- `ancestor`: the run that a training starts from
- `processes`: the work of a run over several processes of this machine
- `training_start`, `training`: one training, from its settings to `model.keras`
"""
