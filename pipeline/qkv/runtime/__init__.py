"""Connects qkv with the system and TensorFlow: standard streams, devices, threads, processes and workers.

The modules, in reading order:

- `streams`: standard input, output and error of commands
- `machine`: memory, processor cores and GPUs, described without TensorFlow
- `import_tensorflow`: the import of TensorFlow in a checked environment
- `plugin_files`: the user's Python files for `--plugins`
- `cluster`: the workers in `TF_CONFIG`, and waiting until all have started
- `slurm`: the `TF_CONFIG` of a task of Slurm
- `workers`: the exchange of values between the workers of a training
- `devices`: the choice of GPUs or processor, number formats, and sizes of work
- `compiled_programs`: the programs of XLA, kept for the next run
- `graphs`: TensorFlow graphs whose memory is freed
- `parallel`: parallel `map` in threads and in processes
"""
