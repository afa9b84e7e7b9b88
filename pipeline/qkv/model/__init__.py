"""The architectures of translation models, behind one interface.

The modules, in reading order:

- `interface`: the interface of all models: encode, decode, start_cache, and names of layers
- `transformer`: the Transformer, from the whole model down to its sublayers
- `embedding`: embeddings of tokens and positions, and logits
- `decoder_only`: one causal stack for source and target
- `recurrent`: GRU encoder and decoder with attention
- `ensemble`: several models that translate as one
- `freezing`: named parts of a model, to freeze and to count
- `build`: a model from the settings of a config
"""
