"""The architectures, behind one interface. In reading order:

- `interface`: encode, decode, start_cache, and the names of what is inside
- `transformer`: the paper's model, from the whole down to its sublayers
- `embedding`: tokens, positions and logits
- `decoder_only`, `recurrent`: the other two architectures
- `ensemble`: several models that translate as one
- `parts`: named parts, to freeze and to count
- `build`: a model from settings
"""
