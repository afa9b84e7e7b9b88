"""What a GPU brings, measured in one sitting of some ten minutes.

    python -m tests.benchmarks.gpu --minutes 10

The results are in `runs/gpu`: `results.json`, which grows with each measurement, and `results.md`, which is printed at
the end. A sitting that was cut off, or whose minutes were over, goes on with what is missing by the same command;
delete the folder to begin again. `--only training search` takes some of the stages, in this order:

    products      the rate of large matrix products, by which the others are judged
    training      target tokens a second on real text: the base size with 16,384 and 65,536 tokens a batch, beside
                  compiled PyTorch; the Multi30k preset; the demo's model
    first_update  the first update in a second process, which finds compiled programs
    demo          `make demo` by the GPU, twice, and by two cores of the processor: seconds, BLEU and AER
    archive       the attention of the same weights by GPU and processor
    search        1,000 sentences with a beam of 5, beside CTranslate2 and Hugging Face's Marian, if installed
    memory        `batches.batch_tokens: auto`: what it finds, takes and costs
    peers         qkv without XLA, plain JAX, eager PyTorch, and PyTorch compiled with padded rows
    several_gpus  all GPUs beside one

Ours is `train.py`, started as anybody starts it. The others get the ids of our tokenizer, with all batches on the GPU
beforehand; JAX packs several sentences into a row as ours does, PyTorch does both. Tokens are those of the corpus:
padding counts as nothing. Rates are medians of three. Cold means that qkv's cache is empty (it is in the folder).

**On Google Colab** (Runtime, Change runtime type, T4 GPU), in a cell each:

    !git clone -q ADDRESS qkv && pip install -q ./qkv            # this repository's address; TensorFlow stays as it is
    !cd qkv && python data/multi30k/prepare.py && python -m tests.benchmarks.gpu --minutes 25

and send `qkv/runs/gpu/results.md` and `results.json` in an issue. A T4 has no bfloat16; all compute in float16 there.
If 65,536 tokens do not fit into its memory, the table says so.

**On a borrowed machine** whose own Python has PyTorch and JAX, and whose TensorFlow came by `PYTHONPATH`, let the
others start without it: `--peers_python "env -u PYTHONPATH -u LD_LIBRARY_PATH -u XLA_FLAGS python3"`. Without
Multi30k's text, sentences of its lengths are made up, and the caption says so.

`--tiny` tries every stage on a processor, with sizes of which no figure means anything.
"""
