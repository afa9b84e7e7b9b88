"""The way of a text from files to padded batches. It reads downhill:

- `prepare`: the whole way on one page
- `shards`: the training text read once, shard by shard
- `selection`: which pairs are trained on, and the report about it
- `training_text`: the text as training reads it
- `batch_plan`: the sentences of each batch of an epoch
- `batch`: padded arrays

It draws from four rooms: `lines` (what a line is, and where lines come from), `corpora` (sentence pairs), `tokens`
(subwords and words) and `phrases` (what translations must or must not contain).
"""
